"""The thread that puts into the file what is staged, and syncs what is in the file, for records no caller waits for.

It belongs to one writer, and starts with the first record of that kind; for a writer with limits on the open file,
which it keeps as well, at once.  If it meets an error, such as a full disk, a failed sync or a directory that was
removed, it tries again, and no record is staged meanwhile: so the writer's next call meets the same error, and raises
it.  The interpreter prints an error at its end.  As it has the time, the thread also sweeps away the shared memory of
writers that were killed.

`threading.Event` and `threading.Thread` are written in Python, and a lock of theirs stays locked if a signal handler
raises within them.  So one call of C starts the thread, and locks of C tell it to stop and others that it has ended.
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

# While so much waits for a sync, the kernel is told so often to begin writing it.  docs/decisions/0017 has the figures.
_WRITTEN_OUT_BYTES = 4 << 20
_WRITTEN_OUT_SECONDS = 0.05


class BackgroundThread:
    """Works until it is stopped, or its session is gone."""

    def __init__(self, session: Session, intervals: Background) -> None:
        self._session = weakref.ref(session)
        self._intervals = intervals
        self._is_stopped = False
        self._until_stopped = threading.Lock()
        self._until_stopped.acquire()
        self._running = threading.Lock()  # until the thread ends, also before it begins
        self._running.acquire()
        self._ident = 0
        self._generation = fork_generation()
        self._start()
        _running.add(self)

    def _start(self) -> None:
        """Raises: StateError where it cannot be started, or the process would be aborted because of it."""
        if sys.version_info < (3, 12) and _in_a_subinterpreter():
            text = "Python 3.11 aborts the process if a subinterpreter ends with a thread.  All but Mode.SYNC needs one"
            raise StateError(f"{text}, and so do limits on the open file; use Mode.SYNC without limits, or Python 3.12")
        try:
            self._ident = _thread.start_new_thread(self._run, ())
        except RuntimeError as error:
            raise StateError(f"all but Mode.SYNC needs a thread, and so do limits on the open file: {error}") from error

    def stop(self) -> None:
        """End the thread, once it has finished what it is at."""
        if self._generation == fork_generation():
            self._is_stopped = True
            with suppress(RuntimeError):  # it was stopped before
                self._until_stopped.release()
            if self._ident != threading.get_ident():
                with self._running:
                    pass

    def finish(self) -> None:
        """Stop, and put everything into the file and have it synced: the interpreter ends."""
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
        """Wait until it is stopped, or for so long; whether it is."""
        return self._until_stopped.acquire(timeout=seconds) or self._is_stopped

    def _work(self) -> None:
        sweep()
        intervals = self._intervals
        limits_due = time.monotonic()
        flush_due, sync_due = limits_due + intervals.flush_seconds, limits_due + intervals.sync_seconds
        much, seen = False, 0  # waits for a sync
        while not self._wait(self._seconds_to(min(flush_due, sync_due, limits_due), much=much)):
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
                much, seen = _WRITTEN_OUT_BYTES <= unconfirmed != seen, unconfirmed
                if much:
                    _write_out(session, wait=now >= sync_due)
                if now >= sync_due:
                    sync_due = now + intervals.sync_seconds
                    if unconfirmed:
                        _drain(session, confirm=True)
                if now >= limits_due:
                    limits_due = now + session.limits_look_seconds
                    _keep_limits(session)
            except ClosedError:
                return
            del session  # while it waits, nothing here keeps a writer alive that was dropped

    def _seconds_to(self, due: float, *, much: bool) -> float:
        seconds = max(due - time.monotonic(), 0)
        return min(seconds, _WRITTEN_OUT_SECONDS) if much else seconds


def _pending(session: Session) -> tuple[int, int]:
    try:
        return session.pending_bytes()
    except ClosedError:
        raise
    except BinlogError:
        return sys.maxsize, sys.maxsize  # there may be something, and whoever tries to commit it meets the same


def _write_out(session: Session, *, wait: bool) -> None:
    with suppress(BinlogError):  # the sync that follows meets the same
        session.write_out(wait=wait)


def _drain(session: Session, *, confirm: bool) -> None:
    try:
        session.drain(confirm=confirm)
    except ClosedError:
        raise
    except BusyError:
        return  # tried again; nothing is wrong
    except BinlogError:
        session.stage_no_more()


def _keep_limits(session: Session) -> None:
    try:
        session.keep_limits()
    except ClosedError:
        raise
    except BinlogError:
        return  # the same


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
        # The interpreter prints it: no caller is left who could be told.
        text = "; ".join(map(str, failed))
        raise PoisonedError(f"records that were staged or flushed may be lost with this process: {text}") from failed[0]
