"""Reading a log, and following it.

The calls of a reader that are in progress, so that it can be closed in the middle of one.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Protocol, Self

from binlog.errors import ClosedError
from binlog.format.record import RECORD_BYTES_FORMAT_MAX, Ref
from binlog.format.values import byte_count
from binlog.log.batch import Batch, Entry
from binlog.log.directory import LogDirectory
from binlog.log.read.cursor import Cursor
from binlog.log.read.lag import Lag, entry_type, lag
from binlog.log.read.start import Start, StartPosition, parse_start
from binlog.storage.native import BatchIterator, fork_generation

_WAKE_SECONDS = 0.01


class _Closable(Protocol):
    def wake(self) -> None:
        """End a wait that is in progress."""

    def close(self) -> None:
        """Give everything back."""


class CallGuard:
    """A context for each call, which one thread at a time is in, and the closing of what the calls use.

    Descriptors and mappings are given back only when no call is in progress: a number that was closed may lead to
    another file by the time that the call reads from it.
    """

    def __init__(self, used: _Closable) -> None:
        self._cursor = used
        self._start()
        self.closed = False

    def _start(self) -> None:
        self._generation = fork_generation()
        self._mutex = threading.RLock()
        self._depth = 0

    def __enter__(self) -> None:
        """Raises: ClosedError."""
        if self._generation != fork_generation():
            self._start()  # a forked child does not have the thread that may have been in a call
        self._mutex.acquire()
        self._depth += 1
        if self.closed:
            self.__exit__()
            raise ClosedError("the reader is closed")

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if self.closed and not self._depth:
            self._cursor.close()
        self._mutex.release()

    def close(self) -> None:
        """Close, once the call of another thread has ended, which is woken; or with the end of this thread's own."""
        self.closed = True
        if self._generation != fork_generation():
            self._start()
        while not self._mutex.acquire(timeout=_WAKE_SECONDS):
            self._cursor.wake()
        try:
            if not self._depth:
                self._cursor.close()
        finally:
            self._mutex.release()


RECORD_BYTES_MAX = 64 << 20

_RECORDS_MAX = 4096
# Twice as much and half as much are slower (measured): this stays in the processor's cache.
_BYTES_MAX = 1 << 18
# Whoever opens a log for one record does not wait for much more.
_BYTES_FIRST = 1 << 16
_ENTRIES_PER_YIELD = 256
# A batch's offsets have 32 bits, and one record may be 2 GiB long.
_RECORDS_LIMIT = 1 << 30
_BYTES_LIMIT = 1 << 30
_CLOSED = "the reader is closed"


class Reader(BatchIterator):
    """Reads the records of the log in a directory, in order, and follows it as it grows.

    path: the directory, which must be there; it may have no files yet.
    start: a Ref to begin at (a record's, or a file's tail) or its text, a Sequence, a Since, Start.BEGINNING or
        Start.END, or their words "beginning" and "end".
    follow: False stops at the end of the first file read; it can be changed later.
    record_bytes_max: a larger record is refused with FullError, 64 MiB unless told.
    verify: compare what the file's index covers with its checksums, and raise CorruptError for what is not as it was
        written: all of a closed file, all but the last 64 KiB or second of the open one.  False reads faster.

    Iterating gives each record as an Entry and stops when it has caught up; it goes on later from there.  Only
    published records are ever seen.  Needs no permission to write.  For one thread at a time, but for `close`; a
    forked child may go on with its copy.
    Raises: NotFoundError if there is no such directory; AccessError, CorruptError, VersionError; ValueError for a ref
    or sequence where no record lies; GoneError for one into a file that was removed.
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
        self._calls = CallGuard(self._cursor)
        self._buffer: bytes | None = None  # the data that were loaded last

    if TYPE_CHECKING:

        def __next__(self) -> Entry:
            """The next record; StopIteration where the reader has caught up.  In C: see native/batch_iterator.c."""

    def _refill(self) -> bool:
        """Load the next records, of which `__next__` gives one after the other; whether there were any."""
        with self._calls:
            self._sync_cursor()
            # Taken while it is written over: a signal handler may read from this reader too.
            buffer, self._buffer = self._buffer, None
            # All that takes time comes before anything changes: Ctrl-C may strike anywhere in it.
            found = self._cursor.read(_RECORDS_MAX, _BYTES_MAX if buffer else _BYTES_FIRST, buffer)
            if found is None:
                self._buffer = buffer
                return False
            self._load(*found)
            self._buffer = found[2]
            return True

    def read_batch(self, *, records_max: int = _RECORDS_MAX, bytes_max: int = _BYTES_MAX) -> Batch:
        """Many records at once: those of one file that are there now; an empty batch where the reader has caught up.

        records_max, bytes_max: limits; a record that alone is larger than bytes_max comes by itself.
        Goes on where iterating stopped, and the other way round.  Does not block.
        Raises: CorruptError at damage, once all before it was returned; FullError; GoneError; ClosedError.
        """
        if records_max < 1 or bytes_max < 1:
            raise ValueError("records_max and bytes_max are 1 or more")
        with self._calls:
            self._sync_cursor()
            found = self._cursor.read(min(records_max, _RECORDS_LIMIT), min(bytes_max, _BYTES_LIMIT))
            if found is None:
                return _no_records(self._cursor.position)
            batch = Batch.of(found, self._entry_type)
            sequence = batch.first_sequence
            self._cursor.advance(batch.next_ref.offset, None if sequence is None else sequence + len(batch))
            return batch

    def tail(self, timeout: float | None = None) -> Iterator[Entry]:
        """Iterate, and wait for more at the end: until nothing came for `timeout` seconds, or until `close`."""
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
        """Iterate in asyncio, and wait for more at the end without blocking the event loop.

        One thread waits for all readers of a process.  Ends with `close`, and with follow=False where no more can come.
        """
        import asyncio

        from binlog.storage.waiting.bell_watcher import watch

        self._check_open()
        try:
            while True:
                for count, entry in enumerate(self):
                    yield entry
                    if count % _ENTRIES_PER_YIELD == 0:
                        await asyncio.sleep(0)  # while there is much to read, other tasks get their turns
                with self._calls:
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
        """Wait until there is a record to read; whether there is.

        False after `timeout` seconds, and at once where none can come any more (follow=False).
        Raises: as `read_batch`; ClosedError also where another thread closes the reader meanwhile.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._calls:
            if self._left:
                return True
            self._sync_cursor()
            while not self._cursor.ready():
                left = self._cursor.wait_seconds_max
                if deadline is not None:
                    left = min(left, deadline - time.monotonic())
                if left <= 0 or self._cursor.finished:
                    return False
                result = self._load_from(*self._cursor.waiting(left))
                if self._calls.closed:
                    raise ClosedError(_CLOSED)
                if result is True:
                    break
                self._cursor.waited(result)
            return True

    @property
    def path(self) -> str:
        """The log's directory, as it was given."""
        return self._path

    @property
    def follow(self) -> bool:
        """Whether it goes on in the next file at the end of a closed one; may be set at any time.

        Set to False, it stops at the end of the file that it is in by then.
        """
        return self._cursor.follow

    @follow.setter
    def follow(self, follow: bool) -> None:
        with self._calls:
            self._cursor.follow = follow

    def lag(self) -> Lag:
        """Return how many records and bytes of the log are still to be read, now.

        Reads the headers of its files.  Raises: GoneError, CorruptError, AccessError, VersionError, ClosedError.
        """
        return lag(self._path, self.next_ref)

    @property
    def next_ref(self) -> Ref:
        """Where the next record lies or will lie: store it, and a later reader that starts there misses nothing.

        At the end of a closed file it is the start of the next one, as soon as that is there.
        An exception from a signal handler (Ctrl-C) may come between a record's leaving the reader and its reaching you;
        whoever goes on after one does so from `Entry.next_ref` of the last record handled.
        """
        with self._calls:
            at = self._next
            if at is not None and self._left and self._cursor.in_order:
                return Ref(at[0], at[1])
            self._sync_cursor()
            return self._cursor.position

    def close(self) -> None:
        """Close the reader; a second call does nothing.

        Any thread may call it, and so may a signal handler.  `tail` and asynchronous iteration end then, and a call in
        progress raises ClosedError.  Blocks until such a call of another thread has ended, which it wakes.
        """
        self._calls.close()
        self._unload()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._calls.closed:
            raise ClosedError(_CLOSED)

    def _sync_cursor(self) -> None:
        """Bring the cursor to where iterating is, and forget what was read ahead."""
        at = self._next
        if at is not None:
            self._cursor.advance(at[1], at[2])
            self._unload()


def _no_records(position: Ref) -> Batch:
    return Batch(position.number, position.offset, b"", memoryview(bytes(4)).cast("I"), None)
