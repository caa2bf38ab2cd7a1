"""Waiting: an idle member sleeps until an item may be available, and no more members wake than there are items.

One of the idle members is the listener: it waits for new messages and for due times too, so that no other has to.  The
listener has a lock on a file, which the kernel frees when its process dies; the others try the lock each time they
wait.  When the listener gets an item, it wakes an idle member, which then listens.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from binlog.consumers.state import GroupState
from binlog.consumers.waking.wakeups import Wakeups
from binlog.storage.descriptors import Descriptor
from binlog.storage.directory import Directory
from binlog.storage.locking.locks import try_lock, unlock
from binlog.storage.waiting.bell_watcher import Bell

_LISTENER = "listener"
_CHECK_SECONDS = 5.0


class Waiting:
    """The waiting of one member, in a group's open directory."""

    def __init__(self, directory: Directory) -> None:
        self._wakeups = Wakeups(directory)
        if not directory.has(_LISTENER):
            directory.make(_LISTENER)
        self._lock = Descriptor(directory.fd, _LISTENER, directory.file_path(_LISTENER))
        self._is_listener = False
        self._mutex = threading.Lock()
        self._idle_threads = 0
        self._check_at = time.monotonic() + _CHECK_SECONDS

    def begin(self, seat: int) -> None:
        """Take a seat, whose last member may have died while it was idle."""
        self._wakeups.set_idle(seat, False)

    @contextmanager
    def idle(self, seat: int) -> Iterator[int]:
        """Say for a block that a thread of the member is idle; yields the value of its doorbell before that."""
        seen = self._wakeups.value(seat)
        with self._mutex:
            self._idle_threads += 1
            self._wakeups.set_idle(seat, True)
        try:
            yield seen
        finally:
            with self._mutex:
                self._idle_threads -= 1
                if not self._idle_threads:
                    self._wakeups.set_idle(seat, False)

    def listens(self, seat: int) -> bool:
        """Become the listener, if no other member is; return whether this member is."""
        if not self._is_listener and try_lock(self._lock.fd):
            self._is_listener = True
            self._wakeups.set_listener(seat)
        return self._is_listener

    def wake_listener(self) -> None:
        """Wake the listener, because a due time is earlier than the one for which it waits."""
        self._wakeups.wake([self._wakeups.listener()])

    def wake(self, seat: int) -> None:
        """Wake all threads of a member."""
        self._wakeups.wake([seat])

    def wait(self, seat: int, seen: int, timeout: float, bell: tuple[Bell, int] | None) -> None:
        """Wait until the member is woken, or the other doorbell rings, for `timeout` seconds; may return early."""
        self._wakeups.wait(seat, seen, timeout, bell)

    def is_check_due(self) -> bool:
        """Return, every few seconds, that the member should check for dead ones, in case no watcher noticed."""
        now = time.monotonic()
        if now < self._check_at:
            return False
        self._check_at = now + _CHECK_SECONDS
        return True

    def wake_for_items(self, state: GroupState, *, but: int) -> None:
        """Wake as many idle members as there are items for them.  but: the seat of one that is not idle."""
        available = state.available
        if available and not state.is_paused:
            self._wakeups.wake(self._idle_seats(state, but)[:available])

    def hand_over(self, state: GroupState, own: int) -> None:
        """Let an idle member listen, if this one did."""
        if self._is_listener:
            self._is_listener = False
            unlock(self._lock.fd)
            self._wakeups.wake(self._idle_seats(state, own)[:1])

    def _idle_seats(self, state: GroupState, but: int) -> list[int]:
        idle = self._wakeups.idle()
        # A member that died while it was idle still seems idle.
        living = state.seats if idle else {}
        return [seat for seat in idle if seat != but and seat in living]

    def close(self) -> None:
        """Close the files, which frees the listener's lock."""
        self._lock.close()
        self._wakeups.close()
