"""Where the next record goes, and how records come to the disk.

Records are put into a buffer, under the journal's mutex.  A thread of the journal writes all that is there, and syncs
it once for everyone who waits; meanwhile the next buffer fills.  It is a thread of its own because no signal handler
runs in it: an exception between a sync that failed and the line that looks at it would hide the failure.

A signal handler may raise between any two steps of a thread that appends.  So a change is marked before its first step,
and no longer once the ledger knows of it too; where the mark stays, nobody appends any more.  And nobody waits while
the mutex is held: a `Condition` lets go of it in a step of its own, behind which an exception would find it not held.

Invariants
- A file is on the disk, whole, before the first byte of the next one is written.
- What was written is told in the order of the records.
- Where a write or a sync failed nothing is written any more, and nobody is told that something is there.
- Callbacks of futures run in that thread, so nothing that they call may wait for it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple

from binlog._codec import pack_journal
from binlog.errors import BinlogError, InternalError, PoisonedError
from binlog.format.journal.block import fragment_place, zeros_end
from binlog.format.journal.compiled import pack_old, record_room
from binlog.format.journal.file_header import JOURNAL_END, JournalLayout, aligned
from binlog.format.journal.record import record_end
from binlog.journal.journal_file import JournalFile
from binlog.journal.options import Sync

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


class Ticket(NamedTuple):
    """To wait with until so many are on the disk; the lock is let go of then, or when that will never be."""

    until: int
    lock: threading.Lock


class Appender:
    """The end of a journal.

    mutex: held by whoever calls `append`, and by nobody for long.  next_file: gives the file to go on in.
    appended, durable: how many records were appended, and how many files were gone on from; and of these how many are
    on the disk.  changing: something is half done, in the thread that holds the mutex; or for ever: see above.
    """

    def __init__(
        self,
        mutex: threading.RLock,
        next_file: Callable[[], JournalFile],
        buffer_bytes: int,
        alignment: int,
        seconds: float,
    ) -> None:
        self._mutex = mutex
        self._next_file = next_file
        self._buffer_bytes = buffer_bytes
        self._alignment = alignment
        self._seconds = seconds
        self._bell = _locked()
        self._segments: deque[_Segment] = deque()
        self._buffer = bytearray(record_room(buffer_bytes))
        self._used = 0
        self._start = 0
        self._record_count = 0
        self._end = 0
        self._waiting: deque[Ticket | tuple[int, Future[None]]] = deque()
        self._without_room: list[threading.Lock] = []
        self._told = False
        self._stopping = False
        self.failure: PoisonedError | None = None
        self.changing = False
        self.file: JournalFile | None = None
        self.at = 0
        self.appended = 0
        self.durable = 0
        self._thread = threading.Thread(target=self._run, name="binlog journal", daemon=True)

    def is_own_thread(self) -> bool:
        """Whether a future's callback asks, so that what waits would wait for itself."""
        return threading.current_thread() is self._thread

    def begin(self, file: JournalFile, at: int, record_count: int) -> None:
        """Go on in a file, behind the records that it has."""
        self.file = file
        self.at = self._end = at
        self._record_count = record_count

    def start(self) -> None:
        """Have what nobody waits for be written."""
        self._thread.start()

    def append(
        self, kind: int, tx_id: int, record_id: int, user_type: int, body: Any, counts: bytes, size: int
    ) -> tuple[JournalFile, int]:
        """Put a record after all others, and tell in which file it is, and how many bytes it takes.  The mutex is held.

        size: as `record_bytes` gives it.
        It is `changing` from then on, until the caller says that all of the change is done.
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
        self.changing = True
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
        """Have the buffer, in which so many bytes more have no room, be written at once; the file to go on in."""
        assert self.file is not None
        self.changing = True
        self._cut()
        self._ring()
        self.changing = False
        self.at = self._start = self._place(self.file)
        return self.file if self._fits(self.file, size) else self._next()

    def settle(self, sync: Sync) -> Future[None] | Ticket | None:
        """See to it that what was appended comes to the disk; the mutex is held.

        A future, or a ticket to `wait_with` once the mutex is not held: until it is there, or until there is room.
        """
        if sync is _LATER:
            if not self._told:
                self._ring()
                self._told = True  # behind the ring: an exception between the two must not have nobody ring any more
            return None if len(self._segments) < _BUFFERS_MAX else self._wait_for_room()
        if sync is _WAIT:
            return self.ticket()
        future: Future[None] = Future()
        future.set_running_or_notify_cancel()  # what is appended cannot be taken back
        self._waiting.append((self.appended, future))
        self._ring()
        return future

    def _wait_for_room(self) -> Ticket | None:
        if self.failure is not None or self.is_own_thread():
            return None
        lock = _locked()
        self._without_room.append(lock)
        return Ticket(0, lock)

    def ticket(self) -> Ticket:
        """To wait for all that was appended.  The mutex is held."""
        ticket = Ticket(self.appended, _locked())
        self._waiting.append(ticket)
        self._ring()
        return ticket

    def wait_with(self, ticket: Ticket) -> None:
        """Return once it is there.  The mutex is not held.  Raises: PoisonedError."""
        ticket.lock.acquire()
        if self.durable < ticket.until:
            self.check()

    def wait(self, count: int) -> None:
        """Return when so many records are on the disk.  The mutex is not held.  Raises: PoisonedError."""
        if self.durable >= count:
            return
        with self._mutex:
            self.check()
            ticket = self.ticket()
        self.wait_with(ticket)

    def check(self) -> None:
        """Raises: PoisonedError where a write or a sync failed, or a change is half done; the mutex is held."""
        if self.failure is not None:
            raise PoisonedError(str(self.failure)) from self.failure
        if self.changing:
            raise PoisonedError("a signal handler raised in the middle of a change; nothing more is appended")

    def stop(self) -> None:
        """Put all on the disk, and end.  Raises: PoisonedError."""
        if self._thread.ident is None:
            return
        with self._mutex:
            self._stopping = True
            self._ring()
        self._thread.join()
        self.check()

    def go_on(self) -> None:
        """Go on in the next file, where this one has any record.  Raises: as `append`.

        The mutex is held, and not let go of: nobody appends before who holds it has done what comes next.
        """
        if self._record_count:
            self._next()

    def _next(self) -> JournalFile:
        assert self.file is not None
        self.file.record_count = self._record_count
        self.changing = True
        try:
            new = self._next_file()
        except BinlogError:
            self.changing = False  # nothing was done
            raise
        if self._used:
            self._cut()
        else:
            # The file's end is still to be written down, by whoever writes the next time.
            self._segments.append(self._segment())
        self._ring()
        self.appended += 1  # that the file before is whole, and closed, is something to wait for as well
        self.file = new
        self._end = new.header.layout.header_bytes
        self._record_count = 0
        self.at = self._start = self._place(new)
        self.changing = False
        return new

    def _segment(self) -> _Segment:
        assert self.file is not None
        return _Segment(self.file, self._start, self._buffer, self._used, self._end, self._record_count)

    def _cut(self) -> None:
        """Have what is in the buffer be written as it is, and begin another one."""
        self._segments.append(self._segment())
        self._buffer = bytearray(record_room(self._buffer_bytes))
        self._used = 0

    def _run(self) -> None:
        try:
            while self._write_more():
                pass
        except BinlogError as error:
            self.fail(error)
        except Exception as error:  # noqa: BLE001 - nobody sees what a thread raises, and all who append are told of this
            self.fail(InternalError(f"while writing a journal: {error!r}"))

    def _ring(self) -> None:
        """Have the thread look for work; one step, for a signal handler to come before or behind."""
        with suppress(RuntimeError):  # it rings already
            self._bell.release()

    def _write_more(self) -> bool:
        """Wait for something to write, and write it; whether there may be more."""
        self._bell.acquire()
        if not (self._waiting or self._segments or self._stopping or self.failure):
            self._bell.acquire(timeout=self._seconds)
        with self._mutex:
            self.check()
            stopping, synced = self._stopping, self._stopping or bool(self._waiting)
            self._told = False
            if self._used:
                self._cut()
            segments, self._segments = self._segments, deque()
            count, last = self.appended, self.file
            self._give_room()
        assert last is not None
        self._write(segments, last)
        if synced:
            last.sync()
            self._done(count)
        return not stopping

    def _give_room(self) -> None:
        locks, self._without_room = self._without_room, []
        for lock in locks:
            lock.release()

    def _write(self, segments: deque[_Segment], last: JournalFile) -> None:
        for number, (file, offset, data, used, records_end, record_count) in enumerate(segments):
            if used:
                end = stop = offset + used
                if file.header.layout is JournalLayout.NATIVE:
                    end = zeros_end(stop, file.file_bytes)
                zeros = bytes(end - stop)
                data[used : used + len(zeros)] = zeros
                file.write(memoryview(data)[: used + len(zeros)], offset)
            following = segments[number + 1].file if number + 1 < len(segments) else last
            if following is not file:
                file.sync()
                if file.header.layout is JournalLayout.NATIVE:
                    file.write(file.header.pack_end(records_end, record_count), JOURNAL_END.base)
                file.close()

    def _done(self, count: int) -> None:
        """So many are on the disk, and all who wait for them are told."""
        self.durable = count
        while self._waiting and self._waiting[0][0] <= count:
            _tell(self._waiting.popleft()[1], None)

    def fail(self, error: BinlogError) -> None:
        """Append nothing more, and tell so all who wait."""
        with self._mutex:
            failure = self.poison(error)
            waiting, self._waiting = self._waiting, deque()
            self._give_room()
        for _, waiter in waiting:
            _tell(waiter, failure)

    def poison(self, error: BinlogError) -> PoisonedError:
        """As `fail`, where the mutex is held; the thread tells those who wait."""
        if self.failure is None:
            failure = PoisonedError(f"nothing more is appended: {error}")
            failure.__cause__ = error
            self.failure = failure
        self._ring()
        return self.failure


def _locked() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


def _tell(waiter: threading.Lock | Future[None], failure: PoisonedError | None) -> None:
    if not isinstance(waiter, Future):
        waiter.release()
        return
    try:
        if failure is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(failure)
    except BaseException as error:  # noqa: BLE001 - a callback's `sys.exit()`, which must not end this thread
        thread = threading.current_thread()
        threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, thread)))
