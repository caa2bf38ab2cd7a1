"""Seats: a member's place in its group, which the kernel frees when the member's process dies.

A seat is a FIFO in the folder `members`.  Its member has the FIFO open for writing, and an exclusive lock on it.  The
other members have it open for reading.  When the member's process dies, the kernel frees the lock, and then tells the
readers (poll(2), POLLHUP).  So no process id is needed, and it works between containers that share the directory.

A missing FIFO does not prove that its member is dead: it may have been removed, and a living member makes it again
within seconds.  So no other process makes a FIFO for a seat whose member is alive by the group's log, and its member is
taken for dead only after a while.

Facts relied on:
- fcntl(2): a lock of an open file description works on a FIFO, and is freed with the last descriptor of it.
- poll(2): a reader gets POLLHUP if it had the FIFO open while a writer had.  So a reader opens it first, and then
  checks the lock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from binlog.errors import BusyError, NotFoundError
from binlog.format.consumers.operation import SEATS_MAX
from binlog.storage.descriptors import FifoDescriptor
from binlog.storage.directory import Directory
from binlog.storage.failures import own_errors
from binlog.storage.file_access import access_of_directory, give_access
from binlog.storage.locking.locks import is_locked, try_lock

CHECK_SECONDS = 5.0
"""How often a member checks that its FIFO still has its name."""

_MISSING_SECONDS = 3 * CHECK_SECONDS
_FOLDER = "members"


def seat_name(number: int) -> str:
    """Return the name of a seat's FIFO in the folder `members`."""
    return f"{number:02x}"


class TakenSeat(Protocol):
    """A seat that this process has taken; it is freed when it is closed, and when the process dies."""

    number: int

    def restore(self) -> None:
        """Make the seat's file again if it was removed."""

    def close(self) -> None:
        """Free the seat."""


class SeatFolder(Protocol):
    """The seats of a group."""

    def take(self, is_living: Callable[[int], bool]) -> TakenSeat:
        """Take a free seat.  is_living: whether a seat has a member by the group's log.

        Raises: BusyError if all are taken; AccessError.
        """

    def take_dead(self, number: int) -> TakenSeat | None:
        """Take the seat of a member that seems dead; None if a living process has it."""

    def is_free(self, number: int) -> bool:
        """Return whether no living process has the seat."""

    def is_gone(self, number: int) -> bool:
        """Return as `is_free`, for a seat of an earlier boot, whose file may be missing."""


class _FifoSeat:
    """A taken seat: the FIFO, open for writing and locked."""

    def __init__(self, seats: FifoSeats, number: int, fifo: FifoDescriptor) -> None:
        self._seats, self.number, self._fifo = seats, number, fifo

    def restore(self) -> None:
        """Make the FIFO again if it was removed, or another file has its name."""
        if self._fifo.inherited or self._seats.has(self.number, self._fifo):
            return
        fifo = self._seats.make(self.number)
        if try_lock(fifo.fd):
            before, self._fifo = self._fifo, fifo
            before.close()
        else:
            fifo.close()  # another process checks the seat at this moment; the next call tries again

    def close(self) -> None:
        """Free the seat."""
        self._fifo.close()


class FifoSeats:
    """The seats of a group: FIFOs in a folder of its directory.  Threads may share it."""

    def __init__(self, group: Directory) -> None:
        self._group = group
        self._folder = group.subfolder(_FOLDER)
        self._missing: dict[int, float] = {}

    def take(self, is_living: Callable[[int], bool]) -> TakenSeat:
        """Take a free seat.  is_living: whether a seat has a member by the group's log.

        Raises: BusyError if all are taken; AccessError.
        """
        self._renew()
        first, existing = int.from_bytes(os.urandom(4)) % SEATS_MAX, set(self._folder.names())
        for number in sorted(
            range(SEATS_MAX), key=lambda each: (seat_name(each) not in existing, (each - first) % SEATS_MAX)
        ):
            if (fifo := self._open(number)) is None:
                if is_living(number):
                    continue
                fifo = self.make(number)
            if try_lock(fifo.fd):
                return _FifoSeat(self, number, fifo)
            fifo.close()
        raise BusyError(f"{self._folder.path}: all {SEATS_MAX} seats of the group are taken")

    def take_dead(self, number: int) -> TakenSeat | None:
        """Take the seat of a member that seems dead; None if a living process has it."""
        fifo = self._open(number) or self.make(number)
        if try_lock(fifo.fd):
            return _FifoSeat(self, number, fifo)
        fifo.close()
        return None

    def watch(self, number: int) -> FifoDescriptor | None:
        """Open a seat's FIFO, which hangs up when its member dies; None if it is missing."""
        return self._open(number, writable=False)

    def is_free(self, number: int) -> bool:
        """Return whether no living process has the seat."""
        fifo = self._open(number, writable=False)
        if fifo is None:
            since = self._missing.setdefault(number, time.monotonic())
            return time.monotonic() - since > _MISSING_SECONDS
        self._missing.pop(number, None)
        try:
            return not is_locked(fifo.fd)
        finally:
            fifo.close()

    def is_gone(self, number: int) -> bool:
        """Return as `is_free`, for a seat of an earlier boot, whose file may be missing."""
        return not self._folder.has(seat_name(number)) or self.is_free(number)

    def has(self, number: int, fifo: FifoDescriptor) -> bool:
        """Return whether a seat's name still leads to this FIFO."""
        self._renew()
        status = self._folder.status(seat_name(number))
        return status is not None and (status.st_dev, status.st_ino) == fifo.identity

    def make(self, number: int) -> FifoDescriptor:
        """Make a seat's FIFO if it is missing, and open it for writing."""
        self._renew()
        name, folder = seat_name(number), self._folder
        path = folder.file_path(name)
        with own_errors(path, "making the FIFO"):
            with suppress(FileExistsError):
                os.mkfifo(name, 0o600, dir_fd=folder.fd)
            fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder.fd)
            try:
                give_access(fd, access_of_directory(folder.fd), path)
            finally:
                os.close(fd)
        return FifoDescriptor(folder.fd, name, path, writable=True)

    def _open(self, number: int, *, writable: bool = True) -> FifoDescriptor | None:
        for _ in range(2):
            name, folder = seat_name(number), self._folder
            with suppress(NotFoundError):
                return FifoDescriptor(folder.fd, name, folder.file_path(name), writable=writable)
            self._renew()
            if self._folder is folder:
                break
        return None

    def _renew(self) -> None:
        """Open the folder again if it was removed and another one was made."""
        if os.fstat(self._folder.fd).st_nlink:
            return
        before, self._folder = self._folder, self._group.subfolder(_FOLDER)
        before.close()

    def close(self) -> None:
        """Close the folder."""
        self._folder.close()
