"""The background thread of a writer: flushes and syncs records that no caller waits for.

A writer starts it with the first such record; a writer with limits on the open file starts it at once, because the
thread enforces them as well.  If the thread meets an error, such as a full disk, a failed sync or a removed directory,
it retries, and disables staging meanwhile.  So the writer's next call meets the same error and raises it.  At its end,
the interpreter prints the error.  When idle, the thread also removes the shared memory of killed writers.

`threading.Event` and `threading.Thread` are written in Python, and their locks stay locked if a signal handler raises
within them.  So one call of C starts the thread, and locks of C tell it to stop and report that it has ended.
"""

from __future__ import annotations

import _thread
import atexit
import sys
import threading
import time
import weakref
from contextlib import suppress

from binlog.errors import BinlogError, BusyError, ClosedError, PoisonedError, StateError
from binlog.log.append.session import Session
from binlog.log.options import Background
from binlog.storage.native import fork_generation
from binlog.storage.staging_area import sweep

# While at least this much waits for a sync, the thread asks the kernel at this interval to start writing it.
# docs/decisions/0017 has the figures.
_WRITE_OUT_BYTES = 4 << 20
_WRITE_OUT_SECONDS = 0.05


class BackgroundThread:
    """Works until it is stopped, or its session is gone."""

    def __init__(self, session: Session, intervals: Background) -> None:
        self._session = weakref.ref(session)
        self._intervals = intervals
        self._is_stopped = False
        self._until_stopped = threading.Lock()
        self._until_stopped.acquire()
        self._running = threading.Lock()  # held until the thread ends, also before it begins
        self._running.acquire()
        self._ident = 0
        self._generation = fork_generation()
        self._start()
        _running.add(self)

    def _start(self) -> None:
        """Start the thread.  Raises: StateError if it cannot start, or if the process would abort because of it."""
        if sys.version_info < (3, 12) and _in_a_subinterpreter():
            text = "Python 3.11 aborts the process if a subinterpreter ends with a thread.  All but Mode.SYNC needs one"
            raise StateError(f"{text}, and so do limits on the open file; use Mode.SYNC without limits, or Python 3.12")
        try:
            self._ident = _thread.start_new_thread(self._run, ())
        except RuntimeError as error:
            raise StateError(f"all but Mode.SYNC needs a thread, and so do limits on the open file: {error}") from error

    def stop(self) -> None:
        """Stop the thread, after it has finished its current step."""
        if self._generation == fork_generation():
            self._is_stopped = True
            with suppress(RuntimeError):  # it was stopped before
                self._until_stopped.release()
            if self._ident != threading.get_ident():
                with self._running:
                    pass

    def finish(self) -> None:
        """Stop, commit everything staged, and sync it, because the interpreter ends."""
        self.stop()
        session = self._session()
        if session is not None and self._generation == fork_generation():
            session.drain(confirm=True)

    def _run(self) -> None:
        try:
            if not self._is_stopped:
                self._work()
        finally:
            self._running.release()

    def _wait(self, seconds: float) -> bool:
        """Wait until the thread is stopped, or for this time; return whether it is stopped."""
        return self._until_stopped.acquire(timeout=seconds) or self._is_stopped

    def _work(self) -> None:
        sweep()
        intervals = self._intervals
        limits_due = time.monotonic()
        flush_due, sync_due = limits_due + intervals.flush_seconds, limits_due + intervals.sync_seconds
        writes_out, seen = False, 0  # about the bytes that wait for a sync
        while not self._wait(self._seconds_to(min(flush_due, sync_due, limits_due), writes_out=writes_out)):
            session = self._session()
            if session is None:
                return
            now = time.monotonic()
            try:
                staged, unconfirmed = _pending(session)
                if now >= flush_due:
                    flush_due = now + intervals.flush_seconds
                    if staged:
                        _drain(session, confirm=False)
                writes_out, seen = _WRITE_OUT_BYTES <= unconfirmed != seen, unconfirmed
                if writes_out:
                    _write_out(session, wait=now >= sync_due)
                if now >= sync_due:
                    sync_due = now + intervals.sync_seconds
                    if unconfirmed:
                        _drain(session, confirm=True)
                if now >= limits_due:
                    limits_due = now + session.limits_check_seconds
                    _keep_limits(session)
            except ClosedError:
                return
            del session  # while the thread waits, it must not keep a dropped writer alive

    def _seconds_to(self, due: float, *, writes_out: bool) -> float:
        seconds = max(due - time.monotonic(), 0)
        return min(seconds, _WRITE_OUT_SECONDS) if writes_out else seconds


def _pending(session: Session) -> tuple[int, int]:
    try:
        return session.pending_bytes()
    except ClosedError:
        raise
    except BinlogError:
        return sys.maxsize, sys.maxsize  # there may be some, and the commit will meet the same error


def _write_out(session: Session, *, wait: bool) -> None:
    with suppress(BinlogError):  # the sync that follows meets the same error
        session.write_out(wait=wait)


def _drain(session: Session, *, confirm: bool) -> None:
    try:
        session.drain(confirm=confirm)
    except ClosedError:
        raise
    except BusyError:
        return  # nothing is wrong; it retries
    except BinlogError:
        session.stop_staging()


def _keep_limits(session: Session) -> None:
    try:
        session.keep_limits()
    except ClosedError:
        raise
    except BinlogError:
        return  # the writer's next call meets the same error


def _in_a_subinterpreter() -> bool:
    try:
        import _xxsubinterpreters as interpreters  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return False
    return bool(interpreters.get_current() != interpreters.get_main())


_running: weakref.WeakSet[BackgroundThread] = weakref.WeakSet()


@atexit.register
def _finish_all() -> None:
    failed: list[BinlogError] = []
    for thread in list(_running):
        try:
            thread.finish()
        except ClosedError:
            continue
        except BinlogError as error:
            failed.append(error)
    if failed:
        # The interpreter prints it: no caller is left to raise to.
        text = "; ".join(map(str, failed))
        raise PoisonedError(f"records that were staged or flushed may be lost with this process: {text}") from failed[0]
