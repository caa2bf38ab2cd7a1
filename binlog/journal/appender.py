"""Where the next record goes, and how records come to the disk.

Records are packed into a buffer, under the journal's guard.  A thread that waits for its record leads a commit: it
writes all that is there, and syncs it once for everyone who waits (`CommitGroup`).  Meanwhile the next buffer fills.
A thread of the journal commits what nobody waits for.

A signal handler may raise between any two steps of a thread that appends.  `append` begins a change, and the caller
ends it once the ledger knows of it too; what an exception leaves half done poisons the journal (`Guard`).

Invariants
- A file is on the disk, whole, before the first byte of the next one is written.
- Futures are done in the order of the records, in the journal's own thread.
- After a write or a sync failed nothing is written any more, and no caller hears that something is on the disk.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

from binlog._codec import pack_journal
from binlog.errors import BinlogError, InternalError, PoisonedError
from binlog.format.journal.block import fragment_place, zeros_end
from binlog.format.journal.compiled import pack_old, record_room
from binlog.format.journal.file_header import JOURNAL_END, JournalLayout, aligned
from binlog.format.journal.record import record_end
from binlog.journal.journal_file import JournalFile
from binlog.journal.options import Sync
from binlog.storage.files import commit_at
from binlog.storage.native import CommitGroup, Guard
from binlog.storage.worker import Worker

_BUFFERS_MAX = 4
_LATER, _WAIT = Sync.LATER, Sync.WAIT


class _Segment(NamedTuple):
    """What goes to one place of one file.

    end, record_count: of the whole file, with this.
    """

    file: JournalFile
    offset: int
    data: bytearray
    used: int
    end: int
    record_count: int


class Due(NamedTuple):
    """What the caller waits for: all up to `until` is written, or synced."""

    until: int
    synced: bool


class Appender:
    """The end of a journal.

    guard: held by callers of `append`, and never for long.  next_file: returns the file to go on in.
    appended: how many records were appended, and how many files were gone on from.  worker: writes what no caller waits
    for, and calls back futures.
    """

    def __init__(
        self,
        guard: Guard,
        next_file: Callable[[], JournalFile],
        buffer_bytes: int,
        alignment: int,
        seconds: float,
    ) -> None:
        self._guard = guard
        self._group = CommitGroup(guard)
        self._next_file = next_file
        self._buffer_bytes = buffer_bytes
        self._alignment = alignment
        self._seconds = seconds
        self._segments: deque[_Segment] = deque()
        self._buffer = bytearray(record_room(buffer_bytes))
        self._spare: bytearray | None = None
        self._used = 0
        self._start = 0
        self._record_count = 0
        self._end = 0
        self._futures: deque[tuple[int, Future[None]]] = deque()
        self.worker = Worker(self._work)
        self._is_rung = False
        self.file: JournalFile | None = None
        self.at = 0
        self.appended = 0

    def begin(self, file: JournalFile, at: int, record_count: int) -> None:
        """Go on in a file, after the records that it has."""
        self.file = file
        self.at = self._end = at
        self._record_count = record_count

    def append(
        self, kind: int, tx_id: int, record_id: int, user_type: int, body: Any, counts: bytes, size: int
    ) -> tuple[JournalFile, int]:
        """Put a record after all others; return its file, and how many bytes it takes there.  The guard is held.

        size: as `record_bytes` returns it.
        The guard is `changing` from then on, until the caller has done the rest of the change.
        Raises: what making a file raises, OverflowError, TypeError; then nothing was appended.
        """
        file = self.file
        assert file is not None
        if self._used == 0:
            self.at = self._start = self._place(file)
        # Where exactly it ends is looked for only if it may be behind the file's end.
        if self.at + record_room(size) > file.file_bytes and not self._fits(file, size):
            file = self._next()
        if self._used + size > self._buffer_bytes and self._used:
            file = self._begin_buffer(size)
        if size > self._buffer_bytes:
            self._buffer = bytearray(record_room(size))
        header = file.header
        pack = pack_old if header.layout is JournalLayout.JBM_2008_07 else pack_journal
        used = pack(
            self._buffer,
            self._used,
            header.record_id,
            header.salt,
            self.at,
            kind,
            tx_id,
            record_id,
            user_type,
            body,
            counts,
        )
        self._guard.changing = True
        start = fragment_place(self.at) if header.salt else self.at
        self.at = self._end = self.at + used - self._used
        self._used = used
        self.appended += 1
        self._record_count += 1
        return file, self._end - start

    def _place(self, file: JournalFile) -> int:
        """Where what is written next begins; in our own layout nothing is aligned."""
        return self._end if file.header.layout is JournalLayout.NATIVE else aligned(self._end, self._alignment)

    def _fits(self, file: JournalFile, size: int) -> bool:
        return record_end(self.at, size, file.header.layout) <= file.file_bytes

    def _begin_buffer(self, size: int) -> JournalFile:
        """Begin another buffer, for a record of so many bytes; return the file to go on in."""
        assert self.file is not None
        self._guard.changing = True
        self._cut()
        self.worker.ring()
        self._guard.changing = False
        self.at = self._start = self._place(self.file)
        return self.file if self._fits(self.file, size) else self._next()

    def settle(self, sync: Sync) -> Future[None] | Due | None:
        """Say what the caller gets of an append: a future, or what to `wait` for once the guard is not held."""
        if sync is _LATER:
            if not self._is_rung:
                self.worker.ring()
                self._is_rung = True  # after the ring: an exception between the two must not leave it unrung
            return None if len(self._segments) < _BUFFERS_MAX else Due(self.appended, synced=False)
        if sync is _WAIT:
            return Due(self.appended, synced=True)
        future: Future[None] = Future()
        future.set_running_or_notify_cancel()  # what is appended cannot be taken back
        self._futures.append((self.appended, future))
        self.worker.ring()
        return future

    def wait(self, until: int, synced: bool = True) -> None:
        """Return when all up to a count is on the disk, or written.  The guard is not held.

        Raises: PoisonedError; StateError in a signal handler that broke into a commit of this thread.
        """
        try:
            with self._group.turn(until, synced) as leads:
                if leads:
                    self._commit(synced)
        except BinlogError:
            self._guard.check()  # what fails in a commit fails for good, for this caller as for the others
            raise

    def wait_for_all(self) -> None:
        """Return when all that was appended is on the disk.  Raises: as `wait`."""
        self.wait(self.appended)

    def stop(self) -> None:
        """Put all on the disk, and end.  It can be called again.  Raises: PoisonedError."""
        self.worker.stop()
        try:
            self.wait_for_all()
            self._guard.check()
        finally:
            self._tell_futures()

    def go_on(self) -> None:
        """Go on in the next file, if this one has any record.  Raises: as `append`.

        The guard is held all the time: nobody appends before the caller has done what comes next.
        """
        if self._record_count:
            self._next()

    def fail(self, error: BinlogError) -> None:
        """Append nothing more, and say so to all who wait."""
        self._guard.fail(error)
        self.worker.ring()

    def _next(self) -> JournalFile:
        assert self.file is not None
        self.file.record_count = self._record_count
        self._guard.changing = True
        try:
            new = self._next_file()
        except BinlogError:
            self._guard.changing = False  # nothing was done
            raise
        if self._used:
            self._cut()
        else:
            # The file's end is still to be written down, with the next commit.
            self._segments.append(self._segment())
        self.worker.ring()
        self.appended += 1  # that the file before is whole, and closed, is something to wait for as well
        self.file = new
        self._end = new.header.layout.header_bytes
        self._record_count = 0
        self.at = self._start = self._place(new)
        self._guard.changing = False
        return new

    def _segment(self) -> _Segment:
        assert self.file is not None
        return _Segment(self.file, self._start, self._buffer, self._used, self._end, self._record_count)

    def _cut(self) -> None:
        """Put what is in the buffer among the segments, and begin another buffer."""
        self._segments.append(self._segment())
        spare, self._spare = self._spare, None
        self._buffer = bytearray(record_room(self._buffer_bytes)) if spare is None else spare
        self._used = 0

    def _commit(self, synced: bool) -> None:
        """Write all that is there, and sync it; this thread leads."""
        with self._guard:
            self._guard.changing = True
            if self._used:
                self._cut()
            segments, self._segments = self._segments, deque()
            last = self.file
            assert last is not None
            self._is_rung = False
            self._group.begin(self.appended, synced)
        if len(segments) == 1 and segments[0].file is last and segments[0].used:
            data = _with_zeros(segments[0], self._alignment)
            commit_at(self._group, last.fd, data, segments[0].offset, last.path)
        else:
            self._write(segments, last)
            if synced:
                last.sync()
            self._group.reach()
        for segment in segments:
            if segment.used and len(segment.data) == record_room(self._buffer_bytes):
                self._spare = segment.data

    def _write(self, segments: deque[_Segment], last: JournalFile) -> None:
        for number, segment in enumerate(segments):
            file = segment.file
            if segment.used:
                file.write(_with_zeros(segment, self._alignment), segment.offset)
            following = segments[number + 1].file if number + 1 < len(segments) else last
            if following is not file:
                file.sync()
                if file.header.layout is JournalLayout.NATIVE:
                    file.write(file.header.pack_end(segment.end, segment.record_count), JOURNAL_END.base)
                file.close()

    def _work(self) -> None:
        """Write what no caller waits for, and sync it for futures."""
        if not (self._futures or self._segments or self._guard.failure):
            self.worker.pause(self._seconds)
        try:
            self.wait(self.appended, bool(self._futures))
        except BinlogError as error:
            self._guard.fail(error)
        except Exception as error:  # noqa: BLE001 - nobody sees what a thread raises; the next caller does
            self._guard.fail(InternalError(f"while writing a journal: {error!r}"))
        self._tell_futures()

    def _tell_futures(self) -> None:
        """Tell those whose records are on the disk, or, after a failure, all of them."""
        while self._futures and self._futures[0][0] <= self._group.durable:
            _tell(self._futures.popleft()[1], None)
        try:
            self._guard.check()
        except PoisonedError as error:
            while self._futures:
                _tell(self._futures.popleft()[1], error)


def _with_zeros(segment: _Segment, alignment: int) -> memoryview:
    """What is written of a segment: zeros follow, up to where the next record begins.

    In our layout also where a reader looks for its head.  A file that is used again has old records there.
    """
    file, used = segment.file, segment.used
    stop = segment.offset + used
    if file.header.layout is JournalLayout.NATIVE:
        end = zeros_end(stop, file.file_bytes)
    else:
        end = min(aligned(stop, alignment), file.file_bytes)
    zeros = bytes(end - stop)
    segment.data[used : used + len(zeros)] = zeros
    return memoryview(segment.data)[: used + len(zeros)]


def _tell(future: Future[None], error: BaseException | None) -> None:
    try:
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
    except BaseException as failure:  # noqa: BLE001 - a callback's `sys.exit()`, which must not end this thread
        thread = threading.current_thread()
        threading.excepthook(threading.ExceptHookArgs((type(failure), failure, failure.__traceback__, thread)))
