"""Appends with a time limit: the caller waits for an outcome, and a thread leads.

Nothing can interrupt a sync that hangs in the kernel.  So the caller of an append with a time limit makes no system
call on the log's file, and takes no lock of the writer.  It stages its record in the writer's ring, notifies the
thread, and waits with a time limit.  The thread leads, or waits until another writer has led.  When the time is up, the
caller withdraws its record from the ring, unless a leader has taken it.

A record that cannot be staged (too large, no shared memory, a file of another program, or a forked child that has not
opened the log yet) is appended by the thread, under the file's lock.  Then the thread, just before it appends, and the
caller, when it gives up, both try to claim the call, and only the first one succeeds.

docs/decisions/0049 has the alternatives, and what this costs.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress

from binlog.errors import BusyError, ClosedError, StateError, UnknownOutcomeError
from binlog.format.record import LENGTH_BYTES, frame
from binlog.log.append.session import Session
from binlog.storage.commit_file import RECORD_BYTES_COPIED, Append
from binlog.storage.mode import Mode
from binlog.storage.native import fork_generation, lib
from binlog.storage.waiting.worker import Worker

Place = tuple[int, int]


class _Call:
    """An append that a caller waits for.

    is_direct: the thread appends it, because it cannot be staged.
    place: where the thread has appended it.  error: why the thread could not lead, or not append it.
    """

    def __init__(self, append: Append, mode: Mode, deadline: float, *, is_direct: bool) -> None:
        self.append = append
        self.mode = mode
        self._deadline = deadline
        self.is_direct = is_direct
        self.place: Place | None = None
        self.error: Exception | None = None
        self._claim = threading.Lock()
        self._until_woken = threading.Lock()
        self._until_woken.acquire()

    def claim(self) -> bool:
        """Claim a direct call for good; return False if it is claimed already."""
        return self._claim.acquire(blocking=False)

    def begin(self) -> bool:
        """Claim a direct call for the thread that appends it; return False if its caller has given up."""
        begun = self.claim()
        if begun:
            self.error = None  # of an earlier attempt, which had not begun
        return begun

    @property
    def is_claimed(self) -> bool:
        """Whether the thread must not append it, or not again."""
        return self._claim.locked()

    @property
    def seconds_left(self) -> float:
        """The time until its deadline, 0 after it."""
        return max(self._deadline - time.monotonic(), 0)

    def wait(self) -> bool:
        """Wait until `wake`, and return True; return False after the deadline."""
        return self._until_woken.acquire(timeout=self.seconds_left)

    def wake(self) -> None:
        """Let `wait` return, now or when it is next called."""
        with suppress(RuntimeError):  # it was woken before
            self._until_woken.release()


class LeadingThread:
    """Leads for the calls of one writer that have a time limit.

    open_session: returns the session after opening the log, if necessary, and starting the background thread, if its
        argument is true.  It must not keep the writer alive.
    """

    def __init__(self, open_session: Callable[[bool], Session]) -> None:
        self.generation = fork_generation()
        self._open_session = open_session
        self._calls: set[_Call] = set()
        self._last: tuple[Place, int] | None = None  # the append that may have brought the file to a limit
        here = weakref.ref(self)  # while the thread waits, it must not keep a dropped writer alive

        def work() -> None:
            leading = here()
            if leading is not None:
                leading._work()

        self._worker = Worker(work)
        self._worker.start()

    def append(
        self,
        session: Session | None,
        data: bytes | memoryview,
        record_count: int,
        mode: Mode,
        *,
        framed: bool,
        timeout: float,
    ) -> Place:
        """Append, and return the place of the first record, in at most `timeout` seconds.

        session: None if it is not open in this process.
        Raises: BusyError if the time is up, and the records will not be in the log; UnknownOutcomeError if they may be;
        otherwise as Session.append.
        """
        begun_ns = time.monotonic_ns()
        deadline = time.monotonic() + timeout
        if lib.binlog_is_holding() or (session is not None and session.fast_path.owner == threading.get_ident()):
            raise StateError("the writer was entered again from within one of its own calls")
        size = len(data) + (0 if framed else LENGTH_BYTES)
        can_stage = session is not None and session.can_stage and size <= RECORD_BYTES_COPIED + LENGTH_BYTES
        append = Append()
        if can_stage or framed:
            append.fill(data, record_count, mode, framed=framed)
        else:
            append.fill(frame(bytes(data)), record_count, mode, framed=True)
        call = _Call(append, mode, deadline, is_direct=not can_stage)
        self._calls.add(call)
        try:
            if self._worker.stopping.is_set():
                raise ClosedError("the writer is closed")  # `stop` ends only the calls that it finds
            place = self._finish(call, session)
        finally:
            self._calls.discard(call)
            if session is not None:
                session.fast_path.count_wait(time.monotonic_ns() - begun_ns)
            # After Ctrl-C, unless the record was taken or begun.
            if call.is_direct:
                call.claim()
            else:
                append.withdraw()
        if session is not None and session.is_at_limit(place, size):
            self._last = place, size
            self._worker.notify()
        return place

    def _finish(self, call: _Call, session: Session | None) -> Place:
        if call.is_direct or session is None:
            return self._finish_direct(call)
        append, is_staged, is_woken = call.append, False, True
        while is_woken and call.error is None:
            if not is_staged:  # or there was no room in the ring, and the thread has made some since
                is_staged = session.stage(append)
                self._worker.notify()
            is_woken = call.wait()
            if append.has_outcome():
                append.check_outcome(session.directory.path)
                return append.place
        if not append.withdraw():
            raise _unknown() from call.error
        raise call.error or _busy()

    def _finish_direct(self, call: _Call) -> Place:
        self._worker.notify()
        while call.wait() and call.place is None and call.error is None:
            pass
        if call.place is None and call.claim():
            raise call.error or _busy()
        if call.place is not None:
            return call.place
        raise call.error or _unknown()

    def stop(self) -> None:
        """Stop the thread, after the session was closed; the calls that still wait raise ClosedError."""
        if self.generation == fork_generation():
            self._worker.stop()
            self._end(list(self._calls), ClosedError("the writer is closed"))

    def _work(self) -> None:
        """Lead for the calls that wait now.  In the thread."""
        calls = list(self._calls)
        try:
            session = self._open_session(any(call.mode is not Mode.SYNC for call in calls))
        except Exception as error:  # noqa: BLE001 - the callers raise it
            self._end(calls, error)
            return
        staged = [call for call in calls if not call.is_direct]
        if staged:
            seconds = max(call.seconds_left for call in staged)
            self._end(staged, _failure(lambda: session.lead(seconds)))
        for call in calls:
            if call.is_direct and not call.is_claimed:
                self._append(session, call)
        last, self._last = self._last, None
        if last is not None:
            _failure(lambda: session.cut_over_at_limit(*last))  # the next call meets the same error

    def _append(self, session: Session, call: _Call) -> None:
        def append() -> None:
            call.place = session.append_if(call.append, call.begin, call.seconds_left)

        self._end([call], _failure(append))

    def _end(self, calls: list[_Call], error: Exception | None) -> None:
        for call in calls:
            call.error = error
            call.wake()


def _failure(work: Callable[[], object]) -> Exception | None:
    """Return the exception that ended the work, for a caller to raise."""
    try:
        work()
    except Exception as error:  # noqa: BLE001 - see above
        return error
    return None


def _busy() -> BusyError:
    return BusyError("the log was locked, or a write or sync took too long; the record was not appended")


def _unknown() -> UnknownOutcomeError:
    text = "a write or sync that may include this record has not ended in time"
    return UnknownOutcomeError(f"{text}; read the log before you append it again")
