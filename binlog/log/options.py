"""The options of a writer, and the limits that close its open file automatically.

The limits are checked by
- The append that reaches the limit in bytes.  It has its place by then, so an error of the cutover cannot undo it.
- The background thread, for both limits, so that the file of an idle log is closed in time, and also a file filled by
  writers without limits.  If the file is too old, the thread makes the next append cut over, because busy appends may
  hardly leave it the mutex.

Invariants
- `offset` is a plain number that any thread may read or set at any time.  A wrong value costs one useless check, or a
  delay until the background thread's next one.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from binlog.format.values import coerce_options
from binlog.log.append.writable_file import PREPARE_BYTES_FIRST
from binlog.storage.files import FileSystem
from binlog.storage.mode import Mode

if TYPE_CHECKING:
    from binlog.format.log_header import LogHeader


_NEVER = sys.maxsize
_CHECK_SECONDS_MAX = 0.2


class WriterSealer(Protocol):
    """A thread that a writer starts to seal the log; `binlog.seal.ElectedSealer` is one."""

    def start(self, path: str) -> None:
        """Start for the log in a directory."""

    def stop(self) -> None:
        """Stop, after the writer's last record is durable."""


class Limits:
    """The limits of one writer, and its knowledge of the open file.

    file_bytes, seconds: the limits; None for none.
    """

    def __init__(self, *, file_bytes: int | None, seconds: float | None) -> None:
        self._file_bytes = _NEVER if file_bytes is None else file_bytes
        self._seconds_ns = _NEVER if seconds is None else round(seconds * 1e9)
        self._number = 0
        self._created_ns = 0
        self.offset = self._file_bytes  # an append that ends at this offset or later has reached a limit

    def track(self, header: LogHeader) -> None:
        """Remember which file is open."""
        if header.number != self._number:
            self._number, self._created_ns = header.number, header.created_ns
            self.offset = self._file_bytes

    def disarm(self) -> None:
        """Stop appends from checking this file: one of them has tried to cut over."""
        self.offset = _NEVER

    def require_cutover_if_too_old(self) -> None:
        """Make the next append cut over if the open file is too old."""
        if self._too_old(self._created_ns, self._seconds_ns):
            self.offset = 0

    def reached(self, header: LogHeader) -> bool:
        """Whether the open file has reached a limit.  A file without records never has."""
        return self._beyond(header, 1, 1)

    def near(self, header: LogHeader) -> bool:
        """Whether the open file has used three quarters of a limit."""
        return self._beyond(header, 3, 4)

    @property
    def check_seconds(self) -> float:
        """The interval of the background thread's checks."""
        return min(_CHECK_SECONDS_MAX, self._seconds_ns / 4e9)

    def _beyond(self, header: LogHeader, part: int, whole: int) -> bool:
        if header.tail <= header.first_offset:
            return False
        if header.tail >= self._file_bytes * part // whole:
            return True
        return self._too_old(header.created_ns, self._seconds_ns * part // whole)

    def _too_old(self, created_ns: int, age_ns: int) -> bool:
        # The file of another program does not record when it was made.  A time far in the future is no information
        # either: the file is closed, and the next one is made by the clock as it is now.
        return self._seconds_ns != _NEVER and created_ns > 0 and abs(time.time_ns() - created_ns) >= age_ns


@dataclass(frozen=True, kw_only=True)
class Background:
    """The intervals of a writer's background thread, which handles records that no caller waits for.

    flush_seconds: a staged record is flushed to the file after this time at the latest.
    sync_seconds: a flushed record is synced after this time at the latest.
    """

    flush_seconds: float = 0.2
    sync_seconds: float = 0.5

    def __post_init__(self) -> None:
        coerce_options(self)
        for name in ("flush_seconds", "sync_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is more than 0, not {getattr(self, name)}")


@dataclass(frozen=True, kw_only=True)
class WriterOptions:
    """See Writer."""

    mode: Mode = Mode.SYNC
    strict: bool = False
    background: Background = field(default_factory=Background)
    record_bytes_max: int = 64 << 20
    prepare_bytes: int = 64 << 20
    cutover_bytes: int | None = None
    cutover_seconds: float | None = None
    lock_timeout: float | None = None
    permissions: int | None = None
    file_system: FileSystem = FileSystem.LOCAL

    @property
    def limited(self) -> bool:
        """Whether the writer closes the open file automatically."""
        return self.cutover_bytes is not None or self.cutover_seconds is not None

    def limits(self) -> Limits | None:
        """Return the limits that close the open file automatically, if there are any."""
        if not self.limited:
            return None
        return Limits(file_bytes=self.cutover_bytes, seconds=self.cutover_seconds)

    @property
    def file_bytes_first(self) -> int:
        """The space that a new file gets before it has a name."""
        return min(PREPARE_BYTES_FIRST, self.prepare_bytes)
