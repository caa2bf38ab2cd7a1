"""The file of wake-ups: a word for each seat, on which an idle member waits until another one wakes it.

Each seat has a doorbell (binlog/storage/waiting/doorbell.py), and in the second half of the file a byte that says
whether its member is idle.  The file is only a hint: without it, or with any bytes in it, members are woken late, and
nothing else is wrong.

No wake-up is lost.  A member first says that it is idle, then applies the group's log once more, and then waits.
Another member first appends to the log, and then reads which members are idle.  So one of the two sees the other.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from binlog.format.consumers.operation import SEATS_MAX
from binlog.storage.descriptors import Descriptor
from binlog.storage.directory import Directory
from binlog.storage.files import truncate
from binlog.storage.native import ffi, fork_generation, lib
from binlog.storage.waiting.bell_watcher import Bell, kernel_word

_NAME = "wakeups"
_WORD_BYTES = 4
_IDLE_AT = 2048
_ROLES_AT = {"listener": 3072, "deputy": 3074}
_BYTES = 4096
_NONE_IDLE = bytes(SEATS_MAX)
_POLL_SECONDS = 0.02
_NO_WAIT_ANY = frozenset((-errno.ENOSYS, -errno.EINVAL, -errno.EFAULT))


class Wakeups:
    """The file of wake-ups of a group, in its open directory."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        if not directory.has(_NAME):
            directory.make(_NAME)
        self._file = Descriptor(directory.fd, _NAME, directory.file_path(_NAME))
        if self._file.status.st_size < _BYTES:
            truncate(self._file.fd, _BYTES, directory.file_path(_NAME))
        self._words = lib.binlog_bell_map(self._file.fd, 0)
        self._generation = fork_generation()

    def value(self, seat: int) -> int:
        """Return a seat's doorbell."""
        return int.from_bytes(self._read(_WORD_BYTES, seat * _WORD_BYTES), "big")

    def set_idle(self, seat: int, is_idle: bool) -> None:
        """Say whether the seat's member waits to be woken."""
        self._write(is_idle.to_bytes(), _IDLE_AT + seat)

    def idle(self) -> list[int]:
        """Return the seats whose members wait to be woken."""
        try:  # as `_read`, but each message comes here
            idle = os.pread(self._file.fd, SEATS_MAX, _IDLE_AT)
        except OSError:
            return []
        return [] if idle == _NONE_IDLE else [seat for seat, is_idle in enumerate(idle) if is_idle]

    def set_role(self, role: str, seat: int) -> None:
        """Say which member took a role."""
        self._write(seat.to_bytes(2, "big"), _ROLES_AT[role])

    def with_role(self, role: str) -> int:
        """Return the seat of the member that took a role last."""
        return int.from_bytes(self._read(2, _ROLES_AT[role]), "big") % SEATS_MAX

    def wake(self, seats: Iterable[int]) -> None:
        """Wake the members of these seats, and take them for busy."""
        for seat in seats:
            # First this, because a woken member may be idle again before the next line.
            self.set_idle(seat, False)
            after = (self.value(seat) + 1) & 0xFFFFFFFF
            self._write(after.to_bytes(_WORD_BYTES, "big"), seat * _WORD_BYTES)
            if self._words != ffi.NULL:
                lib.binlog_bell_wake(ffi.cast("uint8_t *", self._words) + seat * _WORD_BYTES)

    def wait(self, seat: int, seen: int, timeout: float, bell: tuple[Bell, int] | None = None) -> None:
        """Wait until the seat's doorbell differs from `seen`, for `timeout` seconds at most; may return early.

        bell: another doorbell to wait on, and its value.
        """
        words: list[tuple[Any, int]] = []
        if self._words != ffi.NULL:
            words.append((ffi.cast("uint8_t *", self._words) + seat * _WORD_BYTES, seen))
        if bell is not None and (address := bell[0].address()) is not None:
            words.append((address, bell[1]))
        wanted = 1 + (bell is not None)
        if len(words) < wanted:
            timeout = min(timeout, _POLL_SECONDS)
        if not words:
            lib.binlog_bell_wait(ffi.new("uint32_t *"), 0, int(timeout * 1e9))
        elif len(words) == 1:
            lib.binlog_bell_wait(words[0][0], kernel_word(words[0][1]), max(0, int(timeout * 1e9)))
        else:
            addresses = ffi.new("void *[]", [address for address, _ in words])
            values = ffi.new("uint32_t[]", [kernel_word(value) for _, value in words])
            result = lib.binlog_bell_wait_any(addresses, values, len(words), max(0, int(timeout * 1e9)))
            if result in _NO_WAIT_ANY:  # before Linux 5.16
                lib.binlog_bell_wait(words[0][0], kernel_word(words[0][1]), int(min(timeout, _POLL_SECONDS) * 1e9))

    def _read(self, count: int, at: int) -> bytes:
        """Return bytes of the file; none if the disk fails."""
        try:
            return os.pread(self._file.fd, count, at)
        except OSError:
            return b""

    def _write(self, data: bytes, at: int) -> None:
        """Write to the file.  If the disk is full or fails, a member is woken late, and nothing else is wrong."""
        with suppress(OSError):
            os.pwrite(self._file.fd, data, at)

    def close(self) -> None:
        """Unmap and close the file."""
        words, self._words = self._words, ffi.NULL
        if words != ffi.NULL and self._generation == fork_generation():
            lib.binlog_bell_unmap(words, 0)
        self._file.close()
