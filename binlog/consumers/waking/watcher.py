"""The thread that notices the death of other members, and records it in the group's log.

It sleeps in poll(2) on the FIFOs of all living members.  The kernel frees a dead member's lock before the FIFO hangs
up, so the lock is free then.  Several processes may record the same death; the first record counts.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Mapping

from binlog.consumers.waking.seats import FifoSeats
from binlog.errors import AccessError, FullError
from binlog.storage.descriptors import FifoDescriptor

_CHECK_MS = 5_000
_AGAIN_MS = 20
_RETRY_MS = 500
_CHECKS = 50


class Watcher:
    """Watches the seats of other members.

    living: returns the generation of each seat to watch.  bury: records the deaths of seats with their generations.
    """

    def __init__(
        self, seats: FifoSeats, living: Callable[[], Mapping[int, int]], bury: Callable[[list[tuple[int, int]]], None]
    ) -> None:
        self._seats = seats
        self._living = living
        self._bury = bury
        self._watched: dict[int, FifoDescriptor] = {}
        self._hung_up: dict[int, int] = {}  # how many more checks follow soon
        self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._stopped = False
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="binlog-members", daemon=True)
        self._thread.start()

    def refresh(self) -> None:
        """Watch the members that are alive now."""
        os.eventfd_write(self._wake_fd, 1)

    def stop(self) -> None:
        """End the thread, and close all descriptors."""
        self._stopped = True
        self.refresh()
        self._thread.join()
        os.close(self._wake_fd)

    def abandon(self) -> None:
        """In a forked child, which does not have the thread: close the descriptor that woke it."""
        os.close(self._wake_fd)

    def _run(self) -> None:
        try:
            while not self._stopped:
                try:
                    dead = self._watch_living()
                    if dead:
                        self._bury(dead)
                    pause_ms = _AGAIN_MS if dead or self._hung_up else _CHECK_MS
                except (FullError, AccessError):
                    pause_ms = _RETRY_MS  # the disk is full, or the process has no free descriptor
                self._sleep(pause_ms)
        except BaseException as error:  # noqa: BLE001 - the next call of the group raises it
            self.failure = error
        finally:
            for fifo in self._watched.values():
                fifo.close()

    def _watch_living(self) -> list[tuple[int, int]]:
        """Open the FIFOs of new members, close those of gone ones, and return the members whose lock is free."""
        living = self._living()
        for seat in [each for each in self._watched if each not in living]:
            self._watched.pop(seat).close()
        # A member may hang up a moment before its lock is free; then another check follows soon.
        self._hung_up = {seat: checks - 1 for seat, checks in self._hung_up.items() if checks and seat in living}
        dead = []
        for seat, generation in living.items():
            if seat not in self._watched:
                self._watched[seat] = self._seats.watch(seat)
            # Opened first, then checked: a member that dies after the check hangs up.
            if self._seats.is_free(seat):
                dead.append((seat, generation))
        return dead

    def _sleep(self, timeout_ms: int) -> None:
        poll = select.poll()
        poll.register(self._wake_fd, select.POLLIN)
        for fifo in self._watched.values():
            poll.register(fifo.fd, 0)  # POLLHUP always counts
        for fd, _ in poll.poll(timeout_ms):
            if fd == self._wake_fd:
                os.eventfd_read(fd)
            else:
                self._forget(fd)

    def _forget(self, fd: int) -> None:
        """Close a FIFO that hung up; it is opened again if its member is alive."""
        for seat in [seat for seat, fifo in self._watched.items() if fifo.fd == fd]:
            self._watched.pop(seat).close()
            self._hung_up[seat] = _CHECKS
