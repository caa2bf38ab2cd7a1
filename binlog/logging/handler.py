"""The handler: records of `logging` into a log that many processes share.

`logging` puts a lock around each handler, and keeps it while the handler formats and writes.  This handler has none,
because a writer has its own, and because that lock can hang in a signal handler, a finalizer or a forked child.

A thread that handles a record is marked.  A record that it logs meanwhile, from a `__str__`, a filter, a signal handler
or a finalizer, is deferred: it is handled after the first one is appended.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Mapping
from typing import Any, TextIO

from binlog import Mode
from binlog.logging.delivery import DEFERRED_MAX, Counters, Full, Losses
from binlog.logging.json_formatter import JsonFormatter, attributes_of
from binlog.logging.rendering import message_of, safe_text
from binlog.logging.sink import LOSSES_EVENT, Sink

# A record that is logged while one is rendered that was itself deferred has depth 2, and so on.
_DEPTH_MAX = 8


class _ThreadState(threading.local):
    """depth: 0 if the thread handles no record.  deferred: records logged meanwhile, with their depths.
    deadline: of the deferred ones, which share one time limit; None before the first one.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.deferred: deque[tuple[logging.LogRecord, int]] = deque()
        self.deadline: float | None = None


class Handler(logging.Handler):
    """Appends records of `logging` to the log in a directory.  Any number of processes may do so.

    path: the directory; it is created if it is missing, in a parent that exists.  A relative one is resolved now.
    level: the least level, as a number or a name.
    modes: how far a record is when the call that logs it returns, by level: {"NOTSET": "stage", "CRITICAL": "sync"};
        by default MODES.
    wait: seconds that a call may wait for a full ring, another process or the disk; None for no limit.
    full: the policy for a record that the log cannot take in time: "drop", "block", "raise" or "fallback"; see Full.
        Afterwards one record says how many were dropped.
    formatter: by default JsonFormatter(static=static).
    record_bytes_max: a longer record is cut, and says how long it was.
    in_loop: the strongest mode within a running event loop of asyncio, because its other tasks would wait as well.
    fallback: a stream of text for Full.FALLBACK and for failures at the end, which must not log; None for
        sys.__stderr__.
    writer_options: of binlog.Writer, such as cutover_bytes="100M".

    A record survives the death of the process as soon as the call that logs it has returned, in every mode, unless it
    is deferred: logged within another logging call, in a signal handler or a finalizer.
    A handler is pickled as its arguments, and both sides of a fork may use it.
    Raises: as binlog.Writer; TypeError and ValueError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        level: int | str = logging.NOTSET,
        modes: Mapping[Any, Mode | str] | None = None,
        wait: object = 0.25,
        full: Full | str = Full.DROP,
        formatter: logging.Formatter | None = None,
        static: Mapping[str, object] | None = None,
        record_bytes_max: int = 65536,
        in_loop: Mode | str = Mode.FLUSH,
        fallback: TextIO | None = None,
        **writer_options: Any,
    ) -> None:
        static = None if static is None else dict(static)
        self._arguments: dict[str, Any] = {
            **writer_options,
            "path": os.path.abspath(path),
            # Copies, because dictConfig passes dictionaries that refer to all other handlers.
            "modes": None if modes is None else dict(modes),
            "wait": wait,
            "full": full,
            "static": static,
            "record_bytes_max": record_bytes_max,
            "in_loop": in_loop,
            "fallback": fallback,
        }
        self._state = _ThreadState()
        self._sink = Sink(
            path,
            modes=modes,
            wait=wait,
            full=full,
            record_bytes_max=record_bytes_max,
            in_loop=in_loop,
            fallback=fallback,
            report=self._format_losses,
            **writer_options,
        )
        super().__init__(level)  # last: from here on, logging.shutdown flushes this handler
        self.formatter = formatter if formatter is not None else JsonFormatter(static=static)
        _handlers.add(self)

    def createLock(self) -> None:  # noqa: N802 - a name of logging
        """Create no lock: see the module."""
        self.lock = None

    def handle(self, record: logging.LogRecord) -> Any:
        """Append a record, if the filters let it pass; return whether they did.

        Blocks: for `wait` seconds at most; without limit if `wait` is None, or with Full.BLOCK.
        Raises: BinlogError with Full.RAISE, and the errors of filters.
        """
        state = self._state
        if state.depth:
            return self._defer(state, record)
        state.depth = 1
        try:
            return self._append_filtered(record)
        finally:
            state.depth = 0
            if state.deferred:
                self._handle_deferred(state)

    def emit(self, record: logging.LogRecord) -> None:
        """Append a record, without the filters.  Blocks and raises: as `handle`."""
        state = self._state
        if state.depth:
            self._defer(state, record)
            return
        state.depth = 1
        try:
            self._append(record)
        finally:
            state.depth = 0
            if state.deferred:
                self._handle_deferred(state)

    def flush(self) -> None:
        """Make everything logged so far durable; a failure is written to the fallback stream.

        Blocks: until it is durable.
        """
        self._sink.flush()

    async def synced(self) -> None:
        """Wait until everything logged so far is durable, without blocking the event loop.

        Raises: as binlog.Writer.sync.
        """
        import asyncio  # takes longer to import than the rest of this package

        await asyncio.get_running_loop().run_in_executor(None, self._sink.sync)

    def close(self) -> None:
        """Make everything durable, and close the log.  A later record is still appended, and synced."""
        state = self._state
        if state.deferred and not state.depth:
            self._handle_deferred(state)
        self._sink.close()
        super().close()

    @property
    def counters(self) -> Counters:
        """The numbers of records written, dropped, of unknown outcome, deferred and cut, in this process."""
        return self._sink.counters

    def __reduce__(self) -> tuple[object, ...]:
        own = (self.level, self.name, self.filters)
        return _handler, ({**self._arguments, "formatter": self.formatter}, own)

    def __repr__(self) -> str:
        return f"<binlog.logging.Handler {os.fspath(self._arguments['path'])!r} ({logging.getLevelName(self.level)})>"

    def _append_filtered(self, record: logging.LogRecord) -> Any:
        """Append a record, if the filters let it pass; return whether they did."""
        if self.filters:
            passed: Any = self.filter(record)
            if not passed:
                return passed
            if isinstance(passed, logging.LogRecord):  # from Python 3.12 on a filter may replace it
                record = passed
        self._append(record)
        return True

    def _append(self, record: logging.LogRecord) -> None:
        text = self._format(record)
        state = self._state
        state.depth = 1  # a record that is logged from here on was not caused by this one
        self._sink.append(text, record.levelno, state.deadline)

    def _format(self, record: logging.LogRecord) -> str:
        try:
            text = self.formatter.format(record)  # type: ignore[union-attr]
            if isinstance(text, str):
                return text
            raise TypeError(f"the formatter returned {type(text).__name__}, not str")
        except Exception as error:  # noqa: BLE001 - a formatter of the caller may raise anything
            return self._format_in_spite_of(error, record)

    def _format_in_spite_of(self, error: Exception, record: logging.LogRecord) -> str:
        name = safe_text(record.name)  # of a record that another program made, it may be None
        plain = logging.LogRecord(name, record.levelno, record.pathname, record.lineno, message_of(record), (), None)
        if isinstance(record.created, float):
            plain.created = record.created
        plain.__dict__.update(attributes_of(record))
        plain.format_error = f"{type(error).__name__}: {safe_text(error)}"
        return JsonFormatter(static=self._arguments["static"]).format(plain)

    def _defer(self, state: _ThreadState, record: logging.LogRecord) -> bool:
        if len(state.deferred) >= DEFERRED_MAX or state.depth > _DEPTH_MAX:
            self._sink.drop("too many records were logged within a logging call")
            return False
        self._sink.count_deferred()
        if state.deadline is None:
            state.deadline = self._sink.deadline()
        state.deferred.append((record, state.depth))
        return True

    def _handle_deferred(self, state: _ThreadState) -> None:
        if state.deadline is None:
            state.deadline = self._sink.deadline()
        try:
            while state.deferred and not state.depth:
                try:
                    record, depth = state.deferred.popleft()
                except IndexError:
                    return  # a signal handler has logged since, and its call has handled the last one
                state.depth = depth + 1
                try:
                    self._append_filtered(record)
                finally:
                    state.depth = 0
        finally:
            state.deadline = None

    def _format_losses(self, losses: Losses) -> str:
        record = logging.LogRecord("binlog.logging", logging.WARNING, __file__, 0, str(losses), (), None)
        record.event = LOSSES_EVENT
        record.__dict__.update(losses.attributes)
        return self._format(record)


_handlers: weakref.WeakSet[Handler] = weakref.WeakSet()


def _begin_child() -> None:
    """In a forked child: the fork may be in a signal handler that interrupted a logging call, and may never return."""
    for handler in list(_handlers):
        handler._state.depth = 0
        handler._state.deferred.clear()  # the parent appends them


os.register_at_fork(after_in_child=_begin_child)


def _handler(arguments: dict[str, Any], own: tuple[int, str | None, list[Any]]) -> Handler:
    handler = Handler(**arguments)
    handler.level, handler.name, handler.filters = own
    return handler
