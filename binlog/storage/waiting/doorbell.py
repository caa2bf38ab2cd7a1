"""The doorbell: a futex word in a file's first page, on which readers in any process wait.

native/shared/doorbell.c has the facts.  No wake-up is lost if all keep to this order.  A waiter reads the doorbell,
then the data that it announces, then waits for the doorbell to differ from the value read.  A writer writes the data,
then the doorbell, then wakes the waiters.  The first two may be one write, if the doorbell is its last word.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from functools import partial

from binlog.storage.native import ffi, fork_generation, lib, wait_and_read
from binlog.storage.waiting.bell_watcher import GREEN_SECONDS, green_hub, green_sleep, kernel_word, watch_in_hub

_POLL_SECONDS_FIRST = 0.001
_POLL_SECONDS_MOST = 0.05

_NO_WORD = frozenset((-errno.EFAULT, -errno.ENOSYS, -errno.EINVAL))


Wait = Callable[[], tuple[int, bytes, bytes, int] | int | None]
"""Waits, and returns records as `read_records` (native/log/read.c), or the reason why there are none."""


class Doorbell:
    """The doorbell at an offset of a file.  It needs no permission to write.

    If the file cannot be mapped, or the kernel lacks such futexes, `is_mapped` is False and waiting polls.
    Under gevent and eventlet a thread waits, and other greenlets run.
    """

    _bell = ffi.NULL  # an exception can end `__init__` before the word is mapped

    def __init__(self, fd: int, offset: int) -> None:
        self._fd = fd
        self._offset = offset
        self._generation = fork_generation()
        self._pause = _POLL_SECONDS_FIRST
        self.closed = False
        self.wakes = 0
        self._bell = lib.binlog_bell_map(fd, offset)
        self.is_mapped = self._bell != ffi.NULL

    def wait(self, seen: int, timeout: float) -> None:
        """Wait until the doorbell differs from `seen` or a writer wakes its waiters, for `timeout` seconds at most.

        It may return early, for example after a signal, so callers check again.
        """
        bell = self.address()
        if bell is None:
            self._poll(timeout)
        elif (hub := green_hub()) is not None:
            watch_in_hub(self, seen, timeout, hub)
        else:
            self.end_wait(lib.binlog_bell_wait(bell, kernel_word(seen), int(timeout * 1e9)))

    def prepare_wait(self, known: int, seen: int, timeout: float, offset: int, record_bytes_max: int) -> Wait:
        """Return a callable that waits like `wait`, and then reads the records from `offset` on
        (native/log/wait_and_read.c).

        It is one C call if possible, because the caches are cold after a wake-up, and then each step in Python takes
        microseconds.  If it returns no records, pass the result to `end_wait`.
        known: the address of a `struct binlog_header_cache`, which has the value `seen`, and gets the new header.
        """
        bell = self.address()
        if bell is None or green_sleep() is not None:
            return partial(self.wait, seen, timeout)
        address = int(ffi.cast("uintptr_t", bell))
        return partial(wait_and_read, known, address, int(timeout * 1e9), offset, record_bytes_max)

    def end_wait(self, result: int | None) -> None:
        """Take the result of a wait without records; poll from now on if the kernel cannot wait on the word."""
        if result in _NO_WORD:
            self._pause = _POLL_SECONDS_FIRST
            self.is_mapped = False

    def _poll(self, timeout: float) -> None:
        sleep = green_sleep()
        if sleep is not None:
            sleep(min(timeout, GREEN_SECONDS))
            return
        time.sleep(min(timeout, self._pause))
        self._pause = min(2 * self._pause, _POLL_SECONDS_MOST)

    def wake(self) -> None:
        """Wake every waiter, in every process."""
        self.wakes += 1
        bell = self.address()
        if bell is not None:
            lib.binlog_bell_wake(bell)

    def address(self) -> object | None:
        """Return the pointer to the word, or None if waiting must poll."""
        if not self.is_mapped:
            return None
        if self._generation != fork_generation():
            # A forked child does not inherit the mapping.
            self._bell = lib.binlog_bell_map(self._fd, self._offset)
            self._generation = fork_generation()
            self.is_mapped = self._bell != ffi.NULL
        return self._bell if self.is_mapped else None

    def value(self) -> int:
        """Read the doorbell's value from the file."""
        return int.from_bytes(os.pread(self._fd, 4, self._offset), "big")

    def close(self) -> None:
        """Unmap the word."""
        bell, self._bell = self._bell, ffi.NULL
        self.is_mapped = False
        self.closed = True
        if bell != ffi.NULL and self._generation == fork_generation():
            lib.binlog_bell_wake(bell)  # wakes the thread of bell_watcher.py, which then notices `closed`
            lib.binlog_bell_unmap(bell, self._offset)

    def __del__(self) -> None:
        self.close()
