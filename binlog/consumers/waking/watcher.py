"""The thread that notices the death of other members, and records it in the group's log.

It sleeps in poll(2) on the FIFOs of all living members.  The kernel frees a dead member's lock before the FIFO hangs
up, so the lock is free then.  Of several processes that notice a death, the one that gets the seat's lock records it.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from binlog.consumers.waking.seats import CHECK_SECONDS, FifoSeats
from binlog.errors import AccessError, FullError
from binlog.storage.descriptors import FifoDescriptor
from binlog.storage.locking.locks import is_locked

_CHECK_MS = int(CHECK_SECONDS * 1000)
_AGAIN_MS = 20
_RETRY_MS = 500
_CHECKS = 50


class WatchingMember(Protocol):
    """The member for which a watcher works."""

    def others(self) -> Mapping[int, int]:
        """Return the generation of each living seat but the member's own."""

    def record_deaths(self, dead: list[tuple[int, int]]) -> None:
        """Record the deaths of seats with their generations."""

    def restore_seat(self) -> None:
        """Make the file of the member's own seat again if it was removed."""


class Watcher:
    """Watches the seats of other members.

    at_end: called by the thread when it ends after `end`.
    """

    def __init__(self, seats: FifoSeats, member: WatchingMember, at_end: Callable[[], None]) -> None:
        self._seats, self._member, self._at_end = seats, member, at_end
        self._watched: dict[int, FifoDescriptor] = {}
        self._hung_up: dict[int, int] = {}  # how many more checks follow soon
        # Held while the descriptor is used or closed: its number may then be another file's.  The garbage collector may
        # call `end` in the thread that holds it.
        self._using_fd = threading.RLock()
        self._wake_fd: int | None = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._is_stopped = self._is_ended = False
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="binlog-members", daemon=True)
        self._thread.start()

    def refresh(self) -> None:
        """Watch the members that are alive now."""
        with self._using_fd:
            if self._wake_fd is not None:
                os.eventfd_write(self._wake_fd, 1)

    def _close_fd(self) -> None:
        with self._using_fd:
            fd, self._wake_fd = self._wake_fd, None
            if fd is not None:
                os.close(fd)

    @property
    def is_running(self) -> bool:
        """Whether the thread has not ended."""
        return self._thread.is_alive()

    def end(self) -> None:
        """Let the thread end, and close everything then.  The garbage collector may call it in any thread."""
        self._is_ended = self._is_stopped = True
        self.refresh()

    def stop(self) -> None:
        """End the thread, and close all descriptors."""
        self._is_stopped = True
        self.refresh()
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._close_fd()

    def abandon(self) -> None:
        """In a forked child, which does not have the thread: close the descriptor that woke it."""
        self._using_fd = threading.RLock()  # another thread of the parent may have held it
        self._close_fd()

    def _run(self) -> None:
        try:
            while not self._is_stopped:
                try:
                    self._member.restore_seat()
                    dead = self._watch_living()
                    if dead:
                        self._member.record_deaths(dead)
                    pause_ms = _AGAIN_MS if dead or self._hung_up else _CHECK_MS
                except (FullError, AccessError):
                    pause_ms = _RETRY_MS  # the disk is full, or the process has no free descriptor
                if not self._is_stopped:
                    self._sleep(pause_ms)
        except BaseException as error:  # noqa: BLE001 - the next call of the group raises it
            self.failure = error
        finally:
            for fifo in self._watched.values():
                fifo.close()
            if self._is_ended:
                self._at_end()

    def _watch_living(self) -> list[tuple[int, int]]:
        """Open the FIFOs of new members, close those of gone ones, and return the members whose lock is free."""
        living = self._member.others()
        for seat in [each for each in self._watched if each not in living]:
            self._watched.pop(seat).close()
        # A member may hang up a moment before its lock is free; then another check follows soon.
        self._hung_up = {seat: checks - 1 for seat, checks in self._hung_up.items() if checks and seat in living}
        return [(seat, generation) for seat, generation in living.items() if self._is_dead(seat)]

    def _is_dead(self, seat: int) -> bool:
        if seat not in self._watched:
            fifo = self._seats.watch(seat)
            if fifo is None:
                return self._seats.is_free(seat)
            self._watched[seat] = fifo
        # Opened first, then checked: a member that dies after the check hangs up.
        return not is_locked(self._watched[seat].fd)

    def _sleep(self, timeout_ms: int) -> None:
        wake_fd = self._wake_fd
        assert wake_fd is not None  # this thread, or one that waits for its end, closes it
        poll = select.poll()
        poll.register(wake_fd, select.POLLIN)
        for fifo in self._watched.values():
            poll.register(fifo.fd, 0)  # POLLHUP always counts
        for fd, _ in poll.poll(timeout_ms):
            if fd == wake_fd:
                os.eventfd_read(fd)
            else:
                self._forget(fd)

    def _forget(self, fd: int) -> None:
        """Close a FIFO that hung up; it is opened again if its member is alive."""
        for seat in [seat for seat, fifo in self._watched.items() if fifo.fd == fd]:
            self._watched.pop(seat).close()
            self._hung_up[seat] = _CHECKS
