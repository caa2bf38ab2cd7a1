"""Waiting: an idle member sleeps until an item may be available, and no more members wake than there are items.

Of the idle members, one is the listener: it waits for new messages and for due times too, so that no other has to.  A
second one, the deputy, does the same and lets the listener go first: if the listener's process is stopped, the deputy
takes the items a moment later.  Each has a lock on a file, which the kernel frees when its process dies; the others try
the locks each time they wait.  When the listener gets an item, the deputy takes its place, or an idle member does.
"""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from binlog.consumers.state.group_state import GroupState
from binlog.consumers.waking.wakeups import Wakeups
from binlog.format.consumers.operation import NO_SEAT
from binlog.storage.descriptors import Descriptor
from binlog.storage.directory import Directory
from binlog.storage.locking.locks import try_lock, unlock
from binlog.storage.waiting.bell_watcher import Bell

LATE_SECONDS = 0.01
"""How long the deputy waits for the listener."""

_CHECK_SECONDS = 5.0


class Role(enum.Enum):
    """What an idle member waits for: its own wake-up alone; or new messages and due times too, first or second."""

    NONE = ""
    LISTENER = "listener"
    DEPUTY = "deputy"


_ROLES = (Role.LISTENER, Role.DEPUTY)


class Waiting:
    """The waiting of one member, in a group's open directory."""

    def __init__(self, directory: Directory) -> None:
        self._wakeups = Wakeups(directory)
        self._locks: dict[Role, Descriptor] = {}
        for role in _ROLES:
            if not directory.has(role.value):
                directory.make(role.value)
            self._locks[role] = Descriptor(directory.fd, role.value, directory.file_path(role.value))
        self._role = Role.NONE
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

    def role(self, seat: int) -> Role:
        """Take the first role that no other member has, and return the member's role."""
        for role in _ROLES:
            if self._role is role:
                break
            if try_lock(self._locks[role].fd):
                if self._role is not Role.NONE:
                    unlock(self._locks[self._role].fd)  # the deputy becomes the listener
                self._role = role
                self._wakeups.set_role(role.value, seat)
                break
        return self._role

    def wake_listener(self) -> None:
        """Wake the members with a role, because a due time is earlier than the one for which they wait."""
        self._wakeups.wake(self._wakeups.with_role(role.value) for role in _ROLES)

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
        """Wake as many idle members as there are items for them, and one more, in case one of them is stopped.

        but: the seat of one that is not idle.
        """
        if state.member_count <= (but != NO_SEAT):
            return  # there is no other member
        available = state.available
        if available and self._wakeups.idle() and not state.is_paused and (idle := self._idle_seats(state, but)):
            self._wakeups.wake(idle[: available + 1])

    def wake_all(self, state: GroupState) -> None:
        """Wake all members after a death: for the dead one's items, and for its role.

        The dead one may have died while it woke another one, which then sleeps, but no longer seems idle.
        """
        self._wakeups.wake(state.seats)

    def hand_over(self, state: GroupState, own: int) -> None:
        """Give up the role, because the member is not idle; the deputy, or an idle member, becomes the listener."""
        role = self._role
        if role is Role.NONE:
            return
        self._role = Role.NONE
        unlock(self._locks[role].fd)
        if role is Role.LISTENER:
            idle = self._idle_seats(state, own)
            deputy = self._wakeups.with_role(Role.DEPUTY.value)
            self._wakeups.wake([deputy] if deputy in idle else idle[:1])

    def _idle_seats(self, state: GroupState, but: int) -> list[int]:
        idle = self._wakeups.idle()
        # A member that died while it was idle still seems idle.
        living = state.seats if idle else {}
        return [seat for seat in idle if seat != but and seat in living]

    def close(self) -> None:
        """Close the files, which frees the locks of the roles."""
        for lock in self._locks.values():
            lock.close()
        self._wakeups.close()
