"""What a task is told, and what all tasks do, whatever they read.

On a cluster a task has nothing in common with the driver but what Spark pickles, and the directory that it reads.
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

# What a task may have over what it should, so that a last small piece does not become a task.
OVERSHOOT = 1.2

_TASK_BYTES = 128 << 20
_TASK_BYTES_MAX = 512 << 20


class Part(Protocol):
    """Something to read that lies together."""

    @property
    def size(self) -> int:
        """How many bytes that is about."""


P = TypeVar("P", bound=Part)


@dataclass(frozen=True)
class Task(InputPartition, Generic[P]):
    """What one task reads, in order."""

    ranges: tuple[P, ...]


class TaskLimits(Protocol):
    """What a user says of tasks: how much one reads, if anything, and how many there are at least."""

    @property
    def partition_bytes(self) -> int | None: ...

    @property
    def partitions_min(self) -> int: ...


def target_bytes(parts: Sequence[Part], sizes: TaskLimits) -> int:
    """How much a task should read where these are to be read."""
    total = sum(part.size for part in parts)
    most = _default_bytes(total) if sizes.partition_bytes is None else sizes.partition_bytes
    return max(min(most, -(-total // sizes.partitions_min)), 1)


def _default_bytes(total: int) -> int:
    """How much a task reads unless told: 128 MiB; more of a large read, where it is known for how many cores it is.

    Each task costs some 30 ms, but where cores idle there are too few.
    """
    cores = os.environ.get(CORES, "")
    share = total // int(cores) if cores.isdecimal() and int(cores) else 0
    return min(max(share, _TASK_BYTES), _TASK_BYTES_MAX)


def pack_tasks(pieces: Iterable[P], target: int) -> list[Task[P]]:
    """Tasks of about so many bytes, in the order of the pieces, none of which is divided."""
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
    """Reads what one task is told to.  Made on the driver, and pickled to the tasks.

    fail_on_data_loss: whether what is not there any more is an error, or is passed over.
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
        """The rows of one task, in order.

        Raises: CorruptError, AccessError, GoneError, FullError for a record over the limit.
        """
        # Where there is nothing to read, Spark makes up a partition of its own.
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
        """Tell of what is not there any more, and go on; or raise the error, where that is not wanted."""
        if self._fail_on_data_loss:
            raise error
        print(f"binlog: passed over, with failOnDataLoss=false: {error}", file=sys.stderr)

    def _part_reader(self) -> Callable[[P], Iterator[pa.RecordBatch]]:
        """What reads a part, made once for a task."""
        raise NotImplementedError
