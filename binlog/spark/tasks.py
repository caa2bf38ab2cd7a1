"""Planning and running the tasks of a read, for all engines.

On a cluster, a task shares with the driver only what Spark pickles and the directory that it reads.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

import binlog
from binlog.errors import GoneError, StateError
from binlog.spark.shared_fs import this_machine
from binlog.spark.worker import CORES, tune_worker

# How far a task may exceed its size, so that a small remainder does not become a task of its own.
OVERSHOOT = 1.2

_TASK_BYTES = 128 << 20
_TASK_BYTES_MAX = 512 << 20


class Part(Protocol):
    """A piece of data to read in one go."""

    @property
    def size(self) -> int:
        """Return its size in bytes, approximately."""


P = TypeVar("P", bound=Part)


@dataclass(frozen=True)
class Task(InputPartition, Generic[P]):
    """The parts that one task reads, in order."""

    ranges: tuple[P, ...]


class TaskLimits(Protocol):
    """A user's wishes: how much a task reads, or None; how many tasks to have at least."""

    @property
    def partition_bytes(self) -> int | None: ...

    @property
    def partitions_min(self) -> int: ...


def target_bytes(parts: Sequence[Part], sizes: TaskLimits) -> int:
    """Return how much each task should read of these parts."""
    total = sum(part.size for part in parts)
    most = _default_bytes(total) if sizes.partition_bytes is None else sizes.partition_bytes
    return max(min(most, -(-total // sizes.partitions_min)), 1)


def _default_bytes(total: int) -> int:
    """Return the default size of a task: 128 MiB, or more for a large read if the number of cores is known.

    Each task costs about 30 ms, but with fewer tasks than cores some cores would idle.
    """
    cores = os.environ.get(CORES, "")
    share = total // int(cores) if cores.isdecimal() and int(cores) else 0
    return min(max(share, _TASK_BYTES), _TASK_BYTES_MAX)


def pack_tasks(pieces: Iterable[P], target: int) -> list[Task[P]]:
    """Group pieces, in order and undivided, into tasks of about the target size."""
    tasks: list[Task[P]] = []
    together: list[P] = []
    size = 0
    for piece in pieces:
        if together and size + piece.size > target * OVERSHOOT:
            tasks.append(Task(tuple(together)))
            together, size = [], 0
        together.append(piece)
        size += piece.size
    return [*tasks, Task(tuple(together))] if together else tasks


class TaskReader(Generic[P]):
    """Reads the parts of one task.  Made on the driver, and pickled to the tasks.

    fail_on_data_loss: whether data that was removed is an error, or is skipped.
    """

    def __init__(self, *, fail_on_data_loss: bool) -> None:
        self._fail_on_data_loss = fail_on_data_loss
        self._version = binlog.__version__
        self._machine = this_machine()

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state["_version"] != binlog.__version__:
            raise StateError(f"the driver has binlog {state['_version']}, and this executor {binlog.__version__}")
        self.__dict__.update(state)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task, in order.

        Raises: CorruptError, AccessError, GoneError, FullError for a record over the limit.
        """
        # If there is nothing to read, Spark makes up a partition of its own.
        if not isinstance(partition, Task):
            return
        tune_worker()
        read = self._part_reader()
        for part in partition.ranges:
            try:
                yield from read(part)
            except GoneError as error:
                self._skip_or_raise(error)

    def _skip_or_raise(self, error: GoneError) -> None:
        """Report data that was removed and continue, or raise the error if the user wants that."""
        if self._fail_on_data_loss:
            raise error
        print(f"binlog: skipped, because failOnDataLoss=false: {error}", file=sys.stderr)

    def _part_reader(self) -> Callable[[P], Iterator[pa.RecordBatch]]:
        """Return a function that reads a part; it is made once for each task."""
        raise NotImplementedError
