"""Reader: iterates over the records of a log and follows it as it grows."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Self

from binlog.errors import ClosedError
from binlog.format.record import LENGTH_BYTES, RECORD_BYTES_FORMAT_MAX, Ref
from binlog.format.values import byte_count
from binlog.log.batch import Batch, Entry, RawBatch
from binlog.log.directory import LogDirectory
from binlog.log.read.cursor import Cursor
from binlog.log.read.lag import Lag, entry_type, lag
from binlog.log.read.start import Start, StartPosition, parse_start
from binlog.storage.native import BatchIterator, CallGuard
from binlog.storage.waiting.bell_watcher import NO_BELL, Bell

RECORD_BYTES_MAX = 64 << 20

_RECORDS_MAX = 4096
# A quarter MiB stays in the processor's cache.  Twice or half of it is slower (measured).
_BYTES_MAX = 1 << 18
# The first read is small, because a caller may open a log for a single record.
_BYTES_FIRST = 1 << 16
_ENTRIES_PER_YIELD = 256
# A batch's offsets have 32 bits, and one record may be 2 GiB long.
_RECORDS_LIMIT = 1 << 30
_BYTES_LIMIT = 1 << 30
_CLOSED = "the reader is closed"


class Reader(BatchIterator):
    """Iterates over the records of the log in a directory, in order, and follows the log as it grows.

    path: the directory, which must exist; it may have no files yet.
    start: a Ref to begin at (of a record, or the tail of a file) or its text, a Sequence, a Since, Start.BEGINNING or
        Start.END, or the words "beginning" and "end".
    follow: False stops at the end of the first file that is read; it can be changed later.
    record_bytes_max: a larger record raises FullError; 64 MiB by default.
    verify: compare records with the checksums of the file's index, and raise CorruptError if they differ.  The index
        covers all of a closed file, and all but the last commits of the open one, up to 64 KiB.  False reads faster.

    Iteration gives each record as an Entry and stops when the reader has caught up; a later iteration resumes there.
    Only published records are seen.  The reader needs no permission to write.  One thread at a time may use it, but
    any thread may call `close`; a forked child may continue with its copy.
    Raises: NotFoundError if the directory does not exist; AccessError, CorruptError, VersionError; ValueError if no
    record starts at the ref or has the sequence number; GoneError if the ref's file was removed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        start: StartPosition | str = Start.BEGINNING,
        *,
        follow: bool = True,
        record_bytes_max: int | str = RECORD_BYTES_MAX,
        verify: bool = True,
    ) -> None:
        record_bytes_max = byte_count(record_bytes_max, "record_bytes_max")
        if not 0 <= record_bytes_max <= RECORD_BYTES_FORMAT_MAX:
            raise ValueError(f"record_bytes_max is 0 to {RECORD_BYTES_FORMAT_MAX}, not {record_bytes_max}")
        start = parse_start(start)
        self._path = os.fspath(path)
        directory = LogDirectory(path)
        self._entry_type = entry_type(directory.absolute)
        super().__init__(Ref, self._entry_type)
        self._cursor = Cursor(directory, start, follow=follow, record_bytes_max=record_bytes_max, verify=verify)
        self._guard = CallGuard(self._cursor, ClosedError, _CLOSED, threading.RLock)
        self._buffer: bytes | None = None  # the data of the last load, to read the next records into

    if TYPE_CHECKING:

        def __next__(self) -> Entry:
            """Return the next record; StopIteration if the reader has caught up.  In C: native/log/batch_iterator.c."""

    def _refill(self) -> bool:
        """Load the next records, which `__next__` then returns one by one; False if there are none."""
        with self._guard:
            self._sync_cursor()
            # A signal handler may read from this reader too, so it must not find the buffer that is written over here.
            buffer, self._buffer = self._buffer, None
            # Everything slow happens before any state changes, because Ctrl-C may interrupt it anywhere.
            found = self._cursor.read(_RECORDS_MAX, _BYTES_MAX if buffer else _BYTES_FIRST, buffer)
            if found is None:
                self._buffer = buffer
                return False
            self._load(*found)
            self._buffer = found[2]
            return True

    def read_batch(self, *, records_max: int = _RECORDS_MAX, bytes_max: int = _BYTES_MAX) -> Batch:
        """Return many records of one file at once; an empty batch if the reader has caught up.

        records_max, bytes_max: limits.  A record that alone is larger than bytes_max is returned as a batch of one.
        Continues from where iteration stopped, and iteration continues from where this stopped.  Does not block.
        Raises: CorruptError at damage, after the records before it were returned; FullError; GoneError; ClosedError.
        """
        if records_max < 1 or bytes_max < 1:
            raise ValueError("records_max and bytes_max are 1 or more")
        with self._guard:
            self._sync_cursor()
            found = self._cursor.read(min(records_max, _RECORDS_LIMIT), min(bytes_max, _BYTES_LIMIT))
            if found is None:
                return _no_records(self._cursor.position)
            return self._move_past(found)

    def _move_past(self, found: RawBatch) -> Batch:
        batch = Batch.of(found, self._entry_type)
        offsets, sequence = batch.offsets, batch.first_sequence
        self._cursor.advance(batch.offset + offsets[-1], None if sequence is None else sequence + len(offsets) - 1)
        return batch

    def skip(self, ref: Ref, size: int) -> bool:
        """Move past a record that the caller appended; return whether it is the next one, otherwise do nothing.

        ref, size: the place that `Writer.append` returned, and the record's bytes.
        """
        if self._next is not None:
            with self._guard:
                self._sync_cursor()
        return self._cursor.skip(ref, ref.offset + LENGTH_BYTES + size)  # no file is used, so it may be closed

    def read_to(self, ref: Ref, size: int) -> Batch | None:
        """Return the records up to one that the caller appended, this one included, and move past them.

        ref, size: as in `skip`.  Faster than `read_batch`: it does not read the header, and compares nothing with the
        index.
        None, with nothing done, if they are in several files or have more than 16 KiB; `read_batch` returns them then.
        """
        with self._guard:
            self._sync_cursor()
            found = self._cursor.read_to(ref, ref.offset + LENGTH_BYTES + size)
            return None if found is None else self._move_past(found)

    def tail(self, timeout: float | None = None) -> Iterator[Entry]:
        """Iterate and wait for more at the end, until none came for `timeout` seconds, or until `close`."""
        self._check_open()
        try:
            while True:
                for entry in self:  # noqa: UP028 - `yield from` would close the reader with the generator
                    yield entry
                if not self.wait(timeout):
                    return
        except ClosedError:
            return

    async def __aiter__(self) -> AsyncIterator[Entry]:
        """Iterate in asyncio, waiting for more at the end without blocking the event loop.

        One thread waits for all readers of a process.  Ends with `close`, or with follow=False at a closed file's end.
        """
        import asyncio

        from binlog.storage.waiting.bell_watcher import watch

        self._check_open()
        try:
            while True:
                for count, entry in enumerate(self):
                    yield entry
                    if count % _ENTRIES_PER_YIELD == 0:
                        await asyncio.sleep(0)  # lets other tasks run while there is much to read
                with self._guard:
                    self._sync_cursor()
                    if self._cursor.ready():
                        continue
                    if self._cursor.finished:
                        return
                    bell, seconds = self._cursor.doorbell_and_seen(), self._cursor.wait_seconds_max
                if bell is None:
                    await asyncio.sleep(seconds)
                else:
                    await watch(*bell, seconds)
        except ClosedError:
            return

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until there is a record to read, and return True; False after `timeout` seconds.

        Returns False at once if no record can follow (follow=False, at the end of a closed file).
        If a wait hangs although records were appended, see `Cursor.ready`, which lists the causes.
        Raises: as `read_batch`; ClosedError also if another thread closes the reader meanwhile.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._guard:
            if self._left:
                return True
            self._sync_cursor()
            while not self._cursor.ready():
                left = self._cursor.wait_seconds_max
                if deadline is not None:
                    left = min(left, deadline - time.monotonic())
                if left <= 0 or self._cursor.finished:
                    return False
                result = self._load_from(*self._cursor.prepare_wait(left))
                if self._guard.closed:
                    raise ClosedError(_CLOSED)
                if result is True:
                    break
                self._cursor.end_wait(result)
            return True

    def bell_to_wait_on(self) -> tuple[Bell, int, float] | None:
        """Return what to wait on for a caller that waits for other events too; None if there is a record to read.

        Returns the doorbell, the value that it has while there is no record, and after how many seconds to ask again.
        Raises: as `read_batch`.
        """
        with self._guard:
            if self._left:
                return None
            self._sync_cursor()
            if self._cursor.ready():
                return None
            found, seconds = self._cursor.doorbell_and_seen(), self._cursor.wait_seconds_max
            return (*(found or (NO_BELL, 0)), seconds)

    @property
    def path(self) -> str:
        """The log's directory, as the caller gave it."""
        return self._path

    @property
    def follow(self) -> bool:
        """Whether the reader continues in the next file at the end of a closed one; may be set at any time.

        If set to False, the reader stops at the end of the file that it is in at that time.
        """
        return self._cursor.follow

    @follow.setter
    def follow(self, follow: bool) -> None:
        with self._guard:
            self._cursor.follow = follow

    def lag(self) -> Lag:
        """Return how many records and bytes of the log the reader has yet to read.

        Reads the headers of the log's files.
        Raises: GoneError, CorruptError, AccessError, VersionError, ClosedError.
        """
        return lag(self._path, self.next_ref)

    @property
    def next_ref(self) -> Ref:
        """The ref of the next record: a later reader that starts there misses nothing.

        At the end of a closed file it is the start of the next file, once that exists.
        A signal handler's exception (Ctrl-C) may strike after a record left the reader and before the caller has it;
        to resume after one, use `Entry.next_ref` of the last record that was processed.
        """
        with self._guard:
            at = self._next
            if at is not None and self._left and self._cursor.in_order:
                return Ref(at[0], at[1])
            self._sync_cursor()
            return self._cursor.position

    def close(self) -> None:
        """Close the reader; a second call does nothing.

        Any thread or signal handler may call it.  It ends `tail` and asynchronous iteration; a call in progress raises
        ClosedError.  Blocks until the call of another thread has ended, after waking it.
        """
        self._guard.close()
        self._unload()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._guard.closed:
            raise ClosedError(_CLOSED)

    def _sync_cursor(self) -> None:
        """Move the cursor to the position of the iteration, and discard records that were read ahead."""
        at = self._next
        if at is not None:
            self._cursor.advance(at[1], at[2])
            self._unload()


def _no_records(position: Ref) -> Batch:
    return Batch(position.number, position.offset, b"", memoryview(bytes(4)).cast("I"), None)
