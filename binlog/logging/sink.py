"""Appends texts with a level, for the handler and all adapters: chooses the mode, and cuts long ones."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from binlog import Mode
from binlog.errors import BinlogError
from binlog.format.values import count_of, member
from binlog.logging.delivery import Counters, Delivery, Full, Losses
from binlog.logging.events import EventEncoder
from binlog.logging.truncation import RECORD_BYTES_MIN, cut

MODES: Mapping[int | str, Mode | str] = {
    logging.NOTSET: Mode.STAGE,
    logging.WARNING: Mode.FLUSH,
    logging.CRITICAL: Mode.SYNC,
}
"""The mode of a record by its level: that of the highest level which the record reaches."""

LOSSES_EVENT = "binlog.losses"
"""The `event` of the record that says how many records were dropped."""


class Sink:
    """Appends texts to a log: see Handler for the arguments.

    report: makes the text that says how many records were dropped; by default an event.
    Raises: as binlog.Writer, except BusyError; TypeError and ValueError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        modes: Mapping[Any, Mode | str] | None = None,
        wait: object = 0.25,
        full: Full | str = Full.DROP,
        record_bytes_max: int = 65536,
        in_loop: Mode | str = Mode.FLUSH,
        fallback: TextIO | None = None,
        report: Callable[[Losses], str] | None = None,
        **writer_options: Any,
    ) -> None:
        self._bytes_max = count_of(record_bytes_max, "record_bytes_max", RECORD_BYTES_MIN, 1 << 30)
        self._in_loop = member(Mode, in_loop, "in_loop")
        self._modes = _by_level(MODES if modes is None else modes)
        self._modes_of_levels: dict[int, tuple[Mode, Mode]] = {}
        self._delivery = Delivery(
            path,
            wait=wait,
            full=full,
            fallback=fallback,
            report=_losses_event if report is None else report,
            writer_options=writer_options,
        )

    def append(self, text: str, level: int, deadline: float | None = None) -> None:
        """Append a record of a level of `logging`.

        deadline: see Delivery.append.
        Blocks: for `wait` seconds at most; without limit if `wait` is None, or with Full.BLOCK.
        Raises: BinlogError with Full.RAISE only.
        """
        data = text.encode("utf-8", "backslashreplace")
        if len(data) > self._bytes_max:
            data = cut(data, self._bytes_max)
            self._delivery.cut.increment()
        mode, in_loop = self._modes_of_levels.get(level) or self._modes_of(level)
        if mode is not in_loop and _is_in_loop():
            mode = in_loop
        self._delivery.append(data, mode, deadline)

    def deadline(self) -> float | None:
        """Return the time at which a call that begins now must end; None if there is no limit."""
        return self._delivery.deadline()

    def drop(self, reason: str) -> None:
        """Count a record as dropped."""
        self._delivery.drop(reason)

    def count_deferred(self) -> None:
        """Count a record as deferred."""
        self._delivery.deferred.increment()

    @property
    def counters(self) -> Counters:
        """The numbers of records so far, in this process."""
        return self._delivery.counters

    def sync(self) -> None:
        """Make everything appended so far durable.

        Blocks: until it is.  Raises: as binlog.Writer.sync.
        """
        self._delivery.sync()

    def flush(self) -> None:
        """Do the same; a failure is written to the fallback stream, because `logging.shutdown` would stop at it."""
        try:
            self._delivery.sync()
        except BinlogError as error:
            self._delivery.complain(error)

    def close(self) -> None:
        """Make everything durable, and close the log.  A later record is synced.  Raises: nothing."""
        self._delivery.close()

    def _modes_of(self, level: int) -> tuple[Mode, Mode]:
        """Return the modes of a level, outside and inside of an event loop."""
        reached = [mode for least, mode in self._modes if least <= level]
        mode = reached[-1] if reached else self._modes[0][1]
        found = self._modes_of_levels[level] = (mode, max(mode, self._in_loop))
        return found


def _losses_event(losses: Losses) -> str:
    encoder = EventEncoder()
    return encoder.line(
        time.time(), logging.WARNING, "WARNING", "binlog.logging", str(losses), losses.attributes, event=LOSSES_EVENT
    )


def _by_level(modes: Mapping[Any, Mode | str]) -> list[tuple[int, Mode]]:
    """Return the modes by rising level.  Raises: TypeError, ValueError."""
    if not modes:
        raise ValueError("modes is empty; it is a mode for each level, such as {'NOTSET': 'stage'}")
    return sorted((_level(level), member(Mode, mode, "a mode")) for level, mode in modes.items())


def _level(level: object) -> int:
    if isinstance(level, int) and not isinstance(level, bool):
        return level
    names = logging.getLevelNamesMapping()
    for name in (level, level.upper()) if isinstance(level, str) else ():
        if name in names:
            return names[name]
    raise ValueError(f"a level is a number, or one of {', '.join(names)}, not {level!r}")


def _is_in_loop() -> bool:
    # Another thread may be importing asyncio.
    running_loop = getattr(sys.modules.get("asyncio.events"), "_get_running_loop", None)
    return running_loop is not None and running_loop() is not None
