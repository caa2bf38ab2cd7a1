"""Append rows to a log: tasks write files, and the driver appends all of them atomically.

Facts relied on (PySpark 4.1 to 4.3):

- Spark may run a task more than once, and passes to `commit` only the attempts that count.
- For `commit`, Spark makes a stream's writer again, in another process than the tasks: only the messages survive.  In a
  task, the query and the batch are local properties of its context.
- If `commit` raises, Spark calls `abort`, and a restarted query passes the same batch number again with the same rows.

So each batch of a stream is a producer batch of its query (Writer.append_idempotent): if it is repeated, it is still in
the log only once.

A task that writes much makes a file that can become a file of the log, and syncs it before the driver gets the message.
Smaller output would leave a log of many small files, so it is copied.  A job with both kinds copies the small output to
new files, outside of the log's lock.
"""

from __future__ import annotations

import os
import shutil
import stat
import uuid
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

import binlog
from binlog import Batch, ExternalFile, ProducerBatch, Ref, Writer
from binlog.errors import AccessError, StateError
from binlog.spark.shared_fs import this_machine, wait_until_visible
from binlog.spark.worker import tune_worker
from binlog.spark.writing.task_output import files_to_append, write_task_output
from binlog.spark.writing.write_options import WriteOptions

TASK_OUTPUT_FOLDER = ".task-output"
"""The folder in a log's directory for the files of tasks."""

_TRIES = 1000
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The message of a task that has written.

    partition: its number.  folder: of its file.  external: its file, None for no rows.
    query: of a stream, otherwise empty.  machine: on which it ran.
    """

    partition: int
    folder: str
    external: ExternalFile | None
    query: str
    machine: str


class TaskWriter:
    """Writes the rows of one task to a file.  Made on the driver, and pickled to the tasks."""

    def __init__(self, options: WriteOptions, column: str) -> None:
        self._options = options
        self._column = column
        self._job = uuid.uuid4().hex
        self._version = binlog.__version__

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write all rows, durably only if the file is large.  Raises: ValueError for null; FullError, AccessError."""
        if self._version != binlog.__version__:
            raise StateError(f"the driver has binlog {self._version}, and this executor {binlog.__version__}")
        tune_worker()
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId") or ""
        batch = context.getLocalProperty("streaming.sql.batchId") or ""
        place = os.path.join(self._options.path, TASK_OUTPUT_FOLDER, f"{query}-{batch}" if query else self._job)
        make_folder(place)
        path = os.path.join(place, f"{context.partitionId()}-{uuid.uuid4().hex}")
        batches = (batch for rows in iterator for batch in _batches(rows.column(self._column), self._column))
        sizes = {"record_bytes_max": self._options.record_bytes_max, "file_bytes_min": self._options.file_bytes_min}
        external = write_task_output(path, batches, **sizes)
        return Written(context.partitionId(), place, external, query, this_machine())


class BatchWriter(TaskWriter, DataSourceArrowWriter):
    """Appends the rows of a frame atomically."""

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Append the files of the tasks.  Raises: as Writer.append_idempotent."""
        tune_worker()
        written = by_partition(messages)
        wait_for_files(written)
        with open_writer(self._options) as writer:
            if self._options.source is None:
                writer.ingest(_external_files(written))
            else:
                append_task_output(writer, written, source=self._options.source, sequence=self._options.sequence)
        remove_task_output(written)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove the files of the tasks, also of failed ones, for which Spark has no messages."""
        remove_folder(os.path.join(self._options.path, TASK_OUTPUT_FOLDER, self._job))


def open_writer(options: WriteOptions) -> Writer[Ref]:
    """Open a writer of the log.  Raises: as Writer."""
    return Writer(options.path, record_bytes_max=options.record_bytes_max, file_system=options.file_system)


def append_task_output(
    writer: Writer, written: Sequence[Written], *, source: str, sequence: int
) -> ProducerBatch | None:
    """Append a producer batch once.

    Raises: StateError if the log has this batch with another number of records: then the producer has lost its
    position, and it is unknown which of its records are in the log.
    """
    appended = writer.ingest(_external_files(written), producer=source, sequence=sequence)
    last = writer.last_producer_batch(source)
    if appended is None and last is not None and last.sequence == sequence:
        count = sum(each.external.record_count for each in written if each.external is not None)
        if last.record_count != count:
            text = f"batch {sequence} of {source} is in the log with {last.record_count} records, but now has {count}"
            raise StateError(f"{text}: its checkpoint is older than the log, or belongs to another query")
    return appended


def _batches(values: pa.Array, column: str) -> Iterator[Batch]:
    """Yield the values as records, in batches of a megabyte, or of one larger record.

    By default Spark passes 10,000 rows at a time, too many for a processor's cache to hold between the first copy and
    the last.
    """
    if values.null_count:
        raise ValueError(f"binlog: the column {column!r} contains null, which cannot be a record")
    if values.type not in (pa.binary(), pa.string()):
        values = values.cast(pa.binary())  # Spark's setting useLargeVarTypes gives them 64-bit offsets
    if not len(values):
        return
    bounds = memoryview(values.buffers()[1]).cast("B").cast("i")[values.offset : values.offset + len(values) + 1]
    data = values.buffers()[2]
    at, view = 0, memoryview(b"" if data is None else data)
    while at < len(values):
        end = max(bisect_right(bounds, bounds[at] + _PIECE_BYTES, at) - 1, at + 1)
        yield Batch.from_packed(view, bounds[at : end + 1])
        at = end


def _external_files(written: Sequence[Written]) -> list[ExternalFile]:
    """Return the files of all tasks, in the order of the tasks.  Raises: AccessError, CorruptError, FullError."""
    folder = next((each.folder for each in written), "")
    externals = [each.external for each in written if each.external is not None]
    return files_to_append(os.path.join(folder, uuid.uuid4().hex), externals)


def wait_for_files(written: Sequence[Written]) -> None:
    """Wait until this machine sees the files of all tasks; called before taking the log's lock.

    Raises: StateError if a task wrote to a directory of its own machine.
    """
    for each in written:
        external = each.external
        if external is not None and not wait_until_visible(external.path, each.machine, size=external.end):
            text = f"{external.path}, written by a task, is not visible on the driver's machine"
            raise StateError(f"{text}: on a cluster, the log's directory must be shared by all machines")


def by_partition(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    return sorted((each for each in messages if isinstance(each, Written)), key=lambda each: each.partition)


def remove_task_output(written: Sequence[Written]) -> None:
    """Remove the files of these tasks and of their failed attempts.  Any that cannot be removed only take space."""
    for folder in {each.folder for each in written}:
        remove_folder(folder)


def make_folder(path: str) -> None:
    """Make a folder for task output, although another job may be removing its parent at the same time."""
    above = os.path.dirname(path)
    for _ in range(_TRIES):
        try:
            os.makedirs(os.path.dirname(above), exist_ok=True)  # the log's directory, which may be new
            _make_like_parent(above)
            _make_like_parent(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise AccessError(f"{path}: {error.strerror}", errno=error.errno, path=path) from error
        return
    raise AccessError(f"{path}: cannot make the folder, because its parent is removed again and again")


def _make_like_parent(path: str) -> None:
    """Make a folder with the owner, group and mode of its parent, so that the parent's users can use it too."""
    try:
        os.mkdir(path)
    except FileExistsError:
        return
    parent = os.stat(os.path.dirname(path))
    with suppress(PermissionError):
        os.chown(path, parent.st_uid if os.geteuid() == 0 else -1, parent.st_gid)
    os.chmod(path, stat.S_IMODE(parent.st_mode))


def remove_folder(path: str) -> None:
    """Remove a folder of task output, and its parent if that is empty."""
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        os.rmdir(os.path.dirname(path))


class StreamWriter(TaskWriter, DataSourceStreamArrowWriter):
    """Appends the batches of a stream exactly once.  The query's producer name is `spark/` and its checkpoint's id."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """Append the files of the tasks unless this batch is in the log.  Raises: as `append_task_output`."""
        tune_worker()
        written = by_partition(messages)
        if written:
            wait_for_files(written)
            with open_writer(self._options) as writer:
                append_task_output(writer, written, source=f"spark/{written[0].query}", sequence=batchId)
        remove_task_output(written)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove the files of the tasks.  Appended records stay: Spark calls this after a commit, too."""
        remove_task_output(by_partition(messages))
