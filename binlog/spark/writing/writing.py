"""Writing rows into a log: tasks write aside, and the driver appends all of it in one go, or nothing.

Facts relied on (PySpark 4.1 to 4.3):

- Spark may run a task more than once, and tells `commit` only of the attempts that count.
- A stream's writer is made anew for `commit`, in another process than those of the tasks: nothing but the messages
  survives.  In a task, the query and the batch are local properties of its context.
- After a `commit` that raised, Spark calls `abort`, and a restarted query gives the same batch number again, with the
  same rows.

So a batch of a stream is a turn of its query (Writer.append_idempotent): given again, it is in the log once.

What a task writes aside until the driver appends it, and what the driver makes of it.

A task that writes much makes a file that can be one of the log's as it is, and has it on the disk before the driver
hears of it.  Less than that would make many small files of a log, so it is copied; in a job that has both, into files
that the driver makes, with nobody waiting for it.

Writing a stream into a log: each of its batches is a turn of the query, and so in the log exactly once.
"""

from __future__ import annotations

import os
import shutil
import stat
import uuid
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, groupby

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

import binlog
from binlog import Batch, ExternalFile, ExternalFileWriter, ProducerBatch, Ref, Writer
from binlog.errors import AccessError, StateError
from binlog.spark.other_machine import file_is_seen, this_machine
from binlog.spark.worker import settle_worker
from binlog.spark.writing.write_options import WriteOptions


def write_aside(
    path: str, batches: Iterable[Batch], *, record_bytes_max: int, file_bytes_min: int
) -> ExternalFile | None:
    """Write records into a new file; None where there are none.

    record_bytes_max: a larger one is refused.  file_bytes_min: from so many bytes on it can be a file of the log.
    Raises: FullError, AccessError.
    """
    left = iter(batches)
    for first in left:
        with ExternalFileWriter(path, durable_from=file_bytes_min, record_bytes_max=record_bytes_max) as draft:
            for batch in chain((first,), left):
                draft.append(batch)
            return draft.finish()
    return None


def to_append(path: str, written: Sequence[ExternalFile]) -> list[ExternalFile]:
    """What is to be appended in place of what tasks wrote: the same records in the same order.

    path: what the names of new files begin with.  Raises: AccessError, CorruptError, FullError.
    """
    if not any(each.durable for each in written):
        return list(written)
    found: list[ExternalFile] = []
    for durable, group in groupby(written, key=lambda each: each.durable):
        run = list(group)
        found += run if durable else [_together(f"{path}.{len(found)}", run)]
    return found


def _together(path: str, written: Iterable[ExternalFile]) -> ExternalFile:
    with ExternalFileWriter(path) as draft:
        for batch in _used_up(written):
            draft.append(batch)
        return draft.finish()


def _used_up(written: Iterable[ExternalFile]) -> Iterator[Batch]:
    for each in written:
        yield from each.read()
        each.remove()


ASIDE = ".aside"
"""The folder in a log's directory in which tasks write, each a file of its own."""

_TRIES = 1000
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task wrote.

    partition: its number.  folder: the one that it wrote into.  draft: what it wrote, None for no rows.
    query: of a stream, else empty.  machine: where it ran.
    """

    partition: int
    folder: str
    draft: ExternalFile | None
    query: str
    machine: str


class TaskWriter:
    """Writes the rows of one task aside.  Made on the driver, and pickled to the tasks."""

    def __init__(self, options: WriteOptions, column: str) -> None:
        self._options = options
        self._column = column
        self._job = uuid.uuid4().hex
        self._version = binlog.__version__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write all rows, not durably.  Raises: ValueError for null; FullError, AccessError."""
        if self._version != binlog.__version__:
            raise StateError(f"the driver has binlog {self._version}, and this executor {binlog.__version__}")
        settle_worker()
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId") or ""
        batch = context.getLocalProperty("streaming.sql.batchId") or ""
        place = os.path.join(self._options.path, ASIDE, f"{query}-{batch}" if query else self._job)
        make_folder(place)
        path = os.path.join(place, f"{context.partitionId()}-{uuid.uuid4().hex}")
        batches = (batch for rows in iterator for batch in _pieces(rows.column(self._column), self._column))
        sizes = {"record_bytes_max": self._options.record_bytes_max, "file_bytes_min": self._options.file_bytes_min}
        draft = write_aside(path, batches, **sizes)
        return Written(context.partitionId(), place, draft, query, this_machine())


class BatchWriter(TaskWriter, DataSourceArrowWriter):
    """Appends the rows of a frame: all of them in one go, or none."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Append what the tasks wrote.  Raises: as Writer.append_idempotent."""
        settle_worker()
        written = in_order(messages)
        wait_for(written)
        with open_writer(self._options) as writer:
            if self._options.source is None:
                writer.ingest(_drafts(written))
            else:
                take_turn(writer, written, source=self._options.source, turn=self._options.turn)
        remove(written)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove what the tasks wrote, also those that failed, which Spark tells nothing of."""
        remove_folder(os.path.join(self._options.path, ASIDE, self._job))


def open_writer(options: WriteOptions) -> Writer[Ref]:
    """A writer of the log.  Raises: as Writer."""
    return Writer(options.path, record_bytes_max=options.record_bytes_max, file_system=options.file_system)


def take_turn(writer: Writer, written: Sequence[Written], *, source: str, turn: int) -> ProducerBatch | None:
    """Append a turn, once.

    Raises: StateError where the turn is in the log with other records: then what gave it has forgotten something, and
    what it gives now is neither in the log nor can be told apart from what is.
    """
    appended = writer.ingest(_drafts(written), producer=source, sequence=turn)
    last = writer.last_producer_batch(source)
    if appended is None and last is not None and last.sequence == turn:
        count = sum(each.draft.record_count for each in written if each.draft is not None)
        if last.record_count != count:
            text = f"batch {turn} of {source} is in the log with {last.record_count} records, and has {count} now"
            raise StateError(f"{text}: its checkpoint is older than the log, or of another query")
    return appended


def _pieces(values: pa.Array, column: str) -> Iterator[Batch]:
    """The values as records, a megabyte of them together or a larger one.

    Spark gives as many rows together as it is told, 10,000 as a rule: too many for a processor's cache to hold from
    their first copy to the last.
    """
    if values.null_count:
        raise ValueError(f"binlog: the column {column!r} has null in it, of which no record can be made")
    if values.type not in (pa.binary(), pa.string()):
        values = values.cast(pa.binary())  # as Spark's setting useLargeVarTypes has it, with offsets of 64 bits
    if not len(values):
        return
    bounds = memoryview(values.buffers()[1]).cast("B").cast("i")[values.offset : values.offset + len(values) + 1]
    data = values.buffers()[2]
    at, view = 0, memoryview(b"" if data is None else data)
    while at < len(values):
        end = max(bisect_right(bounds, bounds[at] + _PIECE_BYTES, at) - 1, at + 1)
        yield Batch.from_packed(view, bounds[at : end + 1])
        at = end


def _drafts(written: Sequence[Written]) -> list[ExternalFile]:
    """The records of all tasks, one task after the other.  Raises: AccessError, CorruptError, FullError."""
    folder = next((each.folder for each in written), "")
    drafts = [each.draft for each in written if each.draft is not None]
    return to_append(os.path.join(folder, uuid.uuid4().hex), drafts)


def wait_for(written: Sequence[Written]) -> None:
    """Wait until this machine sees what all tasks wrote; before the log's lock is taken, for which others wait.

    Raises: StateError where a task wrote into a directory of its own machine.
    """
    for each in written:
        draft = each.draft
        if draft is not None and not file_is_seen(draft.path, each.machine, size=draft.end):
            text = f"{draft.path}, into which a task wrote, is not on the driver's machine"
            raise StateError(f"{text}: on a cluster a log's directory is one that all machines share")


def in_order(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    return sorted((each for each in messages if isinstance(each, Written)), key=lambda each: each.partition)


def remove(written: Sequence[Written]) -> None:
    """Remove what was written aside, by these tasks and those they repeat.  What cannot be removed is only space."""
    for folder in {each.folder for each in written}:
        remove_folder(folder)


def make_folder(path: str) -> None:
    """Make a folder that is to be aside, though another job may just be removing the one that it is to be in."""
    above = os.path.dirname(path)
    for _ in range(_TRIES):
        try:
            os.makedirs(os.path.dirname(above), exist_ok=True)  # the log's own, of which this may be the first record
            _make_like_parent(above)
            _make_like_parent(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise AccessError(f"{path}: {error.strerror}", errno=error.errno, path=path) from error
        return
    raise AccessError(f"{path} could not be made: the folder above it is removed again and again")


def _make_like_parent(path: str) -> None:
    """Make a folder with the owner, group and mode of the one that it is in, so that the next user may use it too."""
    try:
        os.mkdir(path)
    except FileExistsError:
        return
    parent = os.stat(os.path.dirname(path))
    with suppress(PermissionError):
        os.chown(path, parent.st_uid if os.geteuid() == 0 else -1, parent.st_gid)
    os.chmod(path, stat.S_IMODE(parent.st_mode))


def remove_folder(path: str) -> None:
    """Remove a folder that is aside, and the one that it is in, where that is empty now."""
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        os.rmdir(os.path.dirname(path))


class StreamWriter(TaskWriter, DataSourceStreamArrowWriter):
    """See the module.  What a query is called in the log is `spark/` and its id, which its checkpoint keeps."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """Append what the tasks wrote, where this batch is not in the log yet.  Raises: as `take_turn`."""
        settle_worker()
        written = in_order(messages)
        if written:
            wait_for(written)
            with open_writer(self._options) as writer:
                take_turn(writer, written, source=f"spark/{written[0].query}", turn=batchId)
        remove(written)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove what the tasks wrote.  What is in the log stays there: Spark calls this also after a commit."""
        remove(in_order(messages))
