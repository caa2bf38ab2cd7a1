"""Delivers encoded records to a writer, within a time limit, and by a policy if the writer cannot take them.

Any thread, signal handler and finalizer may deliver.  No call waits for a lock without a limit, because a signal
handler could wait for its own thread, and a forked child for a thread that it does not have.  Instead, each shared
value changes in one call of C: a counter, a deque, or a list that only one thread can pop.

Invariants
- A record is counted once: as written, dropped or uncertain, or in the end as one of them if it was deferred.
- `_opening` is held while a thread opens the log; every wait for it has a time limit.
- `_told` is empty while one thread reports dropped records; no other thread does so meanwhile.
"""

from __future__ import annotations

import _thread
import enum
import itertools
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TextIO

from binlog import Mode, Writer
from binlog.errors import (
    BinlogError,
    BusyError,
    ClosedError,
    GoneError,
    PoisonedError,
    StateError,
    TimedOutError,
    UnknownOutcomeError,
)
from binlog.format.values import duration_of, member
from binlog.logging.rendering import to_bytes

DEFERRED_MAX = 1000
"""How many records may wait until the call that they interrupted has ended."""

_REOPEN_SECONDS = _REPORT_SECONDS = 1.0  # at least, between two
# For the threads that append deferred records, if there is no time limit.
_CLOSE_SECONDS = 10.0
_PAUSE_SECONDS_MIN, _PAUSE_SECONDS_MAX = 0.01, 1.0


class Full(enum.Enum):
    """The policy for a record that the log cannot take in time: the disk is full, the log is busy or poisoned."""

    DROP = "drop"  # count it, and report the number in one record afterwards
    BLOCK = "block"  # wait for as long as it takes
    RAISE = "raise"  # raise the error to the code that logs
    FALLBACK = "fallback"  # count it, and write it to another stream


class Counter:
    """A number that any thread or signal handler can increment without a lock."""

    def __init__(self) -> None:
        self._count = itertools.count()
        self.increment = self._count.__next__

    @property
    def value(self) -> int:
        """The present number."""
        return int(repr(self._count)[len("count(") : -1])


@dataclass(frozen=True)
class Counters:
    """The number of records of a handler, in this process.

    written: the log has them.  dropped: the log does not have them.  uncertain: the log may have them, because the
    outcome was unknown when the time was over.  deferred: logged within a logging call, and appended after it.
    cut: longer than record_bytes_max.
    """

    written: int
    dropped: int
    uncertain: int
    deferred: int
    cut: int


@dataclass(frozen=True)
class Losses:
    """The contents of a report about losses.  since: when the first one was, in seconds since 1970."""

    dropped: int
    uncertain: int
    since: float
    reason: str

    @property
    def attributes(self) -> dict[str, object]:
        """The attributes of the report."""
        return {"dropped": self.dropped, "uncertain": self.uncertain, "reason": self.reason}

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.since))
        parts = []
        if self.dropped:
            parts.append(f"{_records(self.dropped)} dropped")
        if self.uncertain:
            parts.append(f"{_records(self.uncertain)} of unknown outcome")
        return f"{' and '.join(parts)} since {since}"


def _records(count: int) -> str:
    return f"{count} record{'s' if count != 1 else ''}"


class Delivery:
    """Appends to a log.

    wait: seconds after which `append` gives up; None for no limit.  full: see Full.  fallback: a stream for text; None
    for sys.stderr.  report: encodes the record that says how many were dropped.  writer_options: of binlog.Writer.
    Raises: as binlog.Writer, except BusyError: then the first append opens the log.
    """

    _append: Callable[..., object]

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        wait: object,
        full: Full | str,
        fallback: TextIO | None,
        report: Callable[[Losses], str],
        writer_options: Mapping[str, Any],
    ) -> None:
        self._path = os.path.abspath(path)  # the program may change its directory, and the log be opened again
        self._full = member(Full, full, "full")
        self._fallback = fallback
        self._report = report
        # A float, because the writer appends fastest with one.
        self.wait = None if wait is None or self._full is Full.BLOCK else float(duration_of(wait, "wait"))
        self._writer_options = {"lock_timeout": self.wait, **writer_options}
        self._closed = False
        self._reopen_at, self._open_error = 0.0, BinlogError("the log is not open")
        self._begin_process()
        self._writer: Writer[Any] | None = None
        self._append = self._append_after_opening
        with suppress(BusyError, StateError):  # StateError: in a signal handler that interrupted an append
            self._open()
        _deliveries.add(self)

    def _begin_process(self) -> None:
        """Start with nothing counted and nothing deferred, as also a forked child does."""
        self._written, self._dropped, self._uncertain = Counter(), Counter(), Counter()
        self.deferred, self.cut = Counter(), Counter()
        self._later: deque[tuple[bytes, Mode]] = deque()
        # Each is held by a thread, whose id is beside it, while that appends a deferred record.
        self._appending: deque[tuple[threading.Lock, int]] = deque()
        self._since: deque[float] = deque()
        self._told = [(0, 0)]
        self._report_at = 0.0
        self._opening: threading.Lock | None = None
        self._reason = ""
        self._needs_attention = False

    @property
    def counters(self) -> Counters:
        """The numbers of records so far."""
        return Counters(
            self._written.value, self._dropped.value, self._uncertain.value, self.deferred.value, self.cut.value
        )

    def append(self, data: bytes, mode: Mode, deadline: float | None = None) -> None:
        """Append a record; if that fails, apply the policy.

        deadline: the end of the call, if it is earlier.  After it the record is only staged, if there is space.
        Blocks: for `wait` seconds at most; without limit if `wait` is None, or with Full.BLOCK.
        Raises: BinlogError with Full.RAISE only.
        """
        timeout = self.wait
        if self._closed:
            mode = Mode.SYNC  # the interpreter may be ending: no thread would sync the record later
        elif deadline is not None:
            timeout = max(deadline - time.monotonic(), 0.0)
            mode = mode if timeout else Mode.STAGE
        try:
            self._append(data, mode=mode, timeout=timeout)
        except StateError:
            self._defer(data, mode)
        except BinlogError as error:
            self._handle(data, mode, error)
        else:
            self._written.increment()
            if self._needs_attention:
                self._attend(mode)

    def deadline(self) -> float | None:
        """Return the time at which a call that begins now must end; None if there is no limit."""
        return None if self.wait is None else time.monotonic() + self.wait

    def drop(self, reason: str) -> None:
        """Count a record that was not even encoded."""
        self._count(self._dropped, reason)

    def sync(self) -> None:
        """Sync everything appended so far, in any mode.

        Blocks: until it is durable.  Raises: as binlog.Writer.sync.
        """
        self._append_deferred()
        writer = self._writer
        if writer is not None:
            writer.sync()

    def close(self) -> None:
        """Make everything durable, and close the log.  A later append opens it again, and is synced.

        Raises nothing: a failure is written to the fallback stream, because `logging.shutdown` would stop at it.
        """
        self._closed = True
        limit = _CLOSE_SECONDS if self.wait is None else self.wait
        self.wait = None  # an append with a time limit needs a thread, which no longer starts
        try:
            self._append_deferred(without_threads=True)
            self._await_threads(limit)
            self._append_deferred(without_threads=True)  # those that the threads could not append
            if self._since:
                self._tell(Mode.SYNC)
            writer, self._writer = self._writer, None
            self._append = self._append_after_opening
            if writer is not None:
                writer.close()
        except BinlogError as error:
            self.complain(error)
        if self._since:
            self.complain(self._losses(self._told[0]))
        if self._later:
            self.complain(f"{len(self._later)} deferred records are lost")

    def complain(self, about: object) -> None:
        """Write a line to the fallback stream."""
        self._write_to_fallback(f"binlog: {self._path}: {about}")

    def _open(self) -> None:
        writer = Writer(self._path, **self._writer_options)
        self._writer = writer
        self._append = writer.append

    def _reopen(self) -> None:
        try:
            self._open()
        except BinlogError as error:
            self._open_failed(error)

    def _open_failed(self, error: BinlogError) -> None:
        self._reopen_at, self._open_error = time.monotonic() + _REOPEN_SECONDS, error

    def _open_in_thread(self) -> threading.Lock:
        """Start to open the log, and return a lock that is held until then.

        Nothing can interrupt the syncs of a recovery.  Every wait for the lock has a time limit, and so cannot hang in
        a signal handler.
        """
        opening = threading.Lock()
        opening.acquire()

        def work() -> None:
            self._reopen()
            self._opening = None
            opening.release()

        self._opening = opening
        try:
            _thread.start_new_thread(work, ())
        except RuntimeError:  # no thread can be started
            work()
        return opening

    def _append_after_opening(self, data: bytes, *, mode: Mode, timeout: float | None = None) -> None:
        """Open the log, but not more often than once a second, and append."""
        begun = time.monotonic()
        if begun < self._reopen_at:
            raise self._open_error
        if timeout is None:
            self._reopen()
        else:
            opening = self._opening or self._open_in_thread()
            if opening.acquire(timeout=timeout):
                opening.release()
            else:
                self._open_failed(BusyError("opening the log takes too long"))
        if self._append == self._append_after_opening:
            raise self._open_error
        left = None if timeout is None else max(timeout - (time.monotonic() - begun), 0.0)
        self._append(data, mode=mode, timeout=left)

    def _handle(self, data: bytes, mode: Mode, error: BinlogError) -> None:
        if isinstance(error, PoisonedError | ClosedError | GoneError):
            self._append = self._append_after_opening
            if isinstance(error, GoneError):
                self.complain(error)
            # If the writer was poisoned before, or closed by another thread, or if its log was removed, it has not
            # appended the record.
            if not isinstance(error, PoisonedError) or isinstance(error.__cause__, PoisonedError):
                try:
                    self._append(data, mode=mode, timeout=self.wait)
                except BinlogError as second:
                    error = second
                else:
                    self._written.increment()
                    return
        is_certain = not isinstance(error, PoisonedError | UnknownOutcomeError | TimedOutError)
        if self._full is Full.BLOCK and is_certain:
            self._retry(data, mode)
            return
        if self._full is Full.RAISE:
            raise error
        self._count(self._dropped if is_certain else self._uncertain, f"{type(error).__name__}: {error}")
        if self._full is Full.FALLBACK:
            self._write_to_fallback(data.decode("utf-8", "backslashreplace"))

    def _retry(self, data: bytes, mode: Mode) -> None:
        pause = _PAUSE_SECONDS_MIN
        while True:
            time.sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)
            try:
                self._append(data, mode=mode, timeout=self.wait)
            except (UnknownOutcomeError, TimedOutError) as error:
                self._count(self._uncertain, f"{type(error).__name__}: {error}")
                return
            except (PoisonedError, ClosedError, GoneError):
                self._append = self._append_after_opening
            except BinlogError:
                continue
            else:
                self._written.increment()
                return

    def _defer(self, data: bytes, mode: Mode) -> None:
        """Keep a record that a signal handler or finalizer logs within a call of a writer, until that call ends."""
        if len(self._later) >= DEFERRED_MAX:
            self._count(self._dropped, "too many records were deferred")
            return
        self.deferred.increment()
        self._later.append((data, mode))
        self._needs_attention = True
        try:
            _thread.start_new_thread(self._append_deferred, ())
        except RuntimeError:
            self._append_deferred(without_threads=True)

    def _append_deferred(self, *, without_threads: bool = False) -> None:
        """Append deferred records.

        without_threads: no thread can be started, because the interpreter ends, or the limit of the user or container
            is reached.  Mode.SYNC without a time limit needs none.
        """
        done = threading.Lock()
        done.acquire()
        this = done, threading.get_ident()
        self._appending.append(this)
        try:
            self._append_each_deferred(without_threads=without_threads)
        finally:
            self._appending.remove(this)
            done.release()

    def _await_threads(self, seconds: float) -> None:
        """Wait until all other threads have appended the deferred records that they took; some seconds at most."""
        deadline = time.monotonic() + seconds
        for done, thread in list(self._appending):
            if thread != threading.get_ident() and done.acquire(timeout=max(deadline - time.monotonic(), 0.0)):
                done.release()

    def _append_each_deferred(self, *, without_threads: bool) -> None:
        while self._later:
            try:
                data, mode = self._later.popleft()
            except IndexError:
                return  # another thread took the last one
            try:
                if without_threads:
                    self._append(data, mode=Mode.SYNC, timeout=None)
                else:
                    self._append(data, mode=mode, timeout=self.wait)
            except StateError:
                self._later.appendleft((data, mode))
                return
            except ClosedError:  # `close` ran meanwhile; as in `append`, the log is opened again
                self._append = self._append_after_opening
                self._later.appendleft((data, Mode.SYNC))
            except BinlogError as error:
                self._count(self._dropped, f"{type(error).__name__}: {error}")
            else:
                self._written.increment()

    def _count(self, counter: Counter, reason: str) -> None:
        # In this order, and the opposite one in `_tell`: no loss is counted without a report that follows.
        counter.increment()
        self._reason = reason
        if not self._since:
            self._since.append(time.time())
        self._needs_attention = True
        if self._closed:
            # There may be no later record to report it.
            self.complain(f"a record {'is' if counter is self._dropped else 'may be'} lost: {reason}")

    def _attend(self, mode: Mode) -> None:
        """Append deferred records, and report dropped ones in a mode in which the log takes records again."""
        self._needs_attention = False
        self._append_deferred()
        if self._since and time.monotonic() >= self._report_at:
            self._tell(mode)
        if self._since or self._later:
            self._needs_attention = True

    def _losses(self, told: tuple[int, int]) -> Losses:
        """Return the losses after those that were reported."""
        try:
            since = self._since[0]
            self._since.clear()
        except IndexError:
            since = time.time()
        return Losses(self._dropped.value - told[0], self._uncertain.value - told[1], since, self._reason)

    def _tell(self, mode: Mode) -> None:
        """Append the record that says how many were dropped."""
        try:
            told = self._told.pop()
        except IndexError:
            return  # another thread reports them
        try:
            losses = self._losses(told)
            if losses.dropped or losses.uncertain:
                try:
                    self._append(to_bytes(self._report(losses)), mode=mode, timeout=self.wait)
                except BinlogError:
                    self._since.appendleft(losses.since)
                else:
                    told = (told[0] + losses.dropped, told[1] + losses.uncertain)
                    self._report_at = time.monotonic() + _REPORT_SECONDS
        finally:
            self._told.append(told)

    def _write_to_fallback(self, text: str) -> None:
        # Not sys.stderr: a program may have replaced it with a stream that logs.
        stream = self._fallback if self._fallback is not None else sys.__stderr__
        if stream is not None:
            with suppress(Exception):  # a closed stream: there is no other place
                stream.write(text + "\n")
                stream.flush()


_deliveries: weakref.WeakSet[Delivery] = weakref.WeakSet()


def _begin_child() -> None:
    for delivery in list(_deliveries):
        delivery._begin_process()


os.register_at_fork(after_in_child=_begin_child)
