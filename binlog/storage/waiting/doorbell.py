"""The doorbell: a futex word in a file's first page, for readers in any process to wait on.

See native/doorbell.c for the facts.  The waiter's order, which loses no
wake-up: read the bell, then what it announces, then wait on the bell as read.
The ringer's: write what is announced, then the bell, then wake.  The first
two may be one write, if the bell is its last word.
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
"""Waits; returns records as `read_records` (native/read.c) does, or why it ended without any."""


class Doorbell:
    """The bell at `offset` of the file `fd`.  Needs no permission to write.

    Where the file cannot be mapped or the kernel has no such futex, waiting polls instead: see `shared`.  Under gevent
    and eventlet a thread waits, and other greenlets run.
    """

    def __init__(self, fd: int, offset: int) -> None:
        self._fd = fd
        self._offset = offset
        self._generation = fork_generation()
        self._pause = _POLL_SECONDS_FIRST
        self.closed = False
        self.wakes = 0
        self._bell = lib.binlog_bell_map(fd, offset)
        self.shared = self._bell != ffi.NULL

    def wait(self, seen: int, timeout: float) -> None:
        """Wait until the bell is rung or no longer has the value `seen`, for `timeout` seconds at most.

        Returns early for no reason now and then, and after a signal; callers look again.
        """
        bell = self.address()
        if bell is None:
            self._poll(timeout)
        elif (hub := green_hub()) is not None:
            watch_in_hub(self, seen, timeout, hub)
        else:
            self.waited(lib.binlog_bell_wait(bell, kernel_word(seen), int(timeout * 1e9)))

    def waiting(self, known: int, seen: int, timeout: float, offset: int, record_bytes_max: int) -> Wait:
        """Return a callable that waits like `wait`, and then reads the records from `offset` on
        (native/wait_and_read.c).

        It is one C call if possible, because a reader that was just woken runs with cold caches, where each step in
        Python takes microseconds.  If it returns no records, pass what it returned to `waited`.
        known: the address of a `struct binlog_header_cache`, which has the value seen, and takes over what was found.
        """
        bell = self.address()
        if bell is None or green_sleep() is not None:
            return partial(self.wait, seen, timeout)
        address = int(ffi.cast("uintptr_t", bell))
        return partial(wait_and_read, known, address, int(timeout * 1e9), offset, record_bytes_max)

    def waited(self, result: int | None) -> None:
        """Take what a wait returned in place of records.  If the word cannot be waited on, poll from now on."""
        if result in _NO_WORD:
            self._pause = _POLL_SECONDS_FIRST
            self.shared = False

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
        """Where the word is mapped, or None where it cannot be waited on."""
        if not self.shared:
            return None
        if self._generation != fork_generation():
            # The mapping stayed with the parent.
            self._bell = lib.binlog_bell_map(self._fd, self._offset)
            self._generation = fork_generation()
            self.shared = self._bell != ffi.NULL
        return self._bell if self.shared else None

    def value(self) -> int:
        """The bell now, read from the file."""
        return int.from_bytes(os.pread(self._fd, 4, self._offset), "big")

    def close(self) -> None:
        """Give the mapping back."""
        bell, self._bell = self._bell, ffi.NULL
        self.shared = False
        self.closed = True
        if bell != ffi.NULL and self._generation == fork_generation():
            lib.binlog_bell_wake(bell)  # the thread of bell_watcher.py, which then sees that it is closed
            lib.binlog_bell_unmap(bell, self._offset)

    def __del__(self) -> None:
        self.close()
