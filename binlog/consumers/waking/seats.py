"""Seats: a member's place in its group, which the kernel frees when the member's process dies.

A seat is a FIFO in the folder `members`.  Its member has the FIFO open for writing, and an exclusive lock on it.  The
other members have it open for reading.  When the member's process dies, the kernel frees the lock, and then tells the
readers (poll(2), POLLHUP).  So no process id is needed, and it works between containers that share the directory.

Facts relied on:
- fcntl(2): a lock of an open file description works on a FIFO, and is freed with the last descriptor of it.
- poll(2): a reader gets POLLHUP if it had the FIFO open while a writer had.  So a reader opens it first, and then
  checks the lock.
"""

from __future__ import annotations

import errno
import os
import random
from contextlib import suppress
from typing import Protocol

from binlog.errors import AccessError, BusyError, NotFoundError
from binlog.format.consumers.operation import SEATS_MAX
from binlog.storage.descriptors import FifoDescriptor
from binlog.storage.directory import Directory
from binlog.storage.failures import own_errors
from binlog.storage.file_access import access_of_directory, give_access
from binlog.storage.locking.locks import is_locked, try_lock


def _name(number: int) -> str:
    return f"{number:02x}"


class TakenSeat(Protocol):
    """A seat that this process has taken; it is freed when it is closed, and when the process dies."""

    number: int

    @property
    def is_ours(self) -> bool:
        """Whether this process has the seat: a forked child does not have its parent's."""

    def close(self) -> None:
        """Free the seat."""


class SeatFolder(Protocol):
    """The seats of a group."""

    def take(self) -> TakenSeat:
        """Take a free seat.  Raises: BusyError if all are taken; AccessError."""

    def is_free(self, number: int) -> bool:
        """Return whether no living process has the seat."""


class _FifoSeat:
    """A taken seat: the FIFO, open for writing and locked."""

    def __init__(self, number: int, fifo: FifoDescriptor) -> None:
        self.number = number
        self._fifo = fifo

    @property
    def is_ours(self) -> bool:
        """Whether this process has the seat: a forked child does not have its parent's."""
        return not self._fifo.inherited and self._fifo.intact

    def close(self) -> None:
        """Free the seat."""
        self._fifo.close()


class FifoSeats:
    """The seats of a group: FIFOs in an open folder."""

    def __init__(self, folder: Directory) -> None:
        self._folder = folder

    def take(self) -> TakenSeat:
        """Take a free seat.  Raises: BusyError if all are taken; AccessError."""
        first = random.randrange(SEATS_MAX)
        for number in sorted(
            range(SEATS_MAX), key=lambda each: (not self._folder.has(_name(each)), (each - first) % SEATS_MAX)
        ):
            fifo = self._open(number, writable=True)
            if try_lock(fifo.fd):
                return _FifoSeat(number, fifo)
            fifo.close()
        raise BusyError(f"{self._folder.path}: all {SEATS_MAX} seats of the group are taken")

    def watch(self, number: int) -> FifoDescriptor:
        """Open a seat's FIFO; its descriptor hangs up when the member dies."""
        return self._open(number, writable=False)

    def is_free(self, number: int) -> bool:
        """Return whether no living process has the seat."""
        fifo = self._open(number, writable=False)
        try:
            return not is_locked(fifo.fd)
        finally:
            fifo.close()

    def _open(self, number: int, *, writable: bool) -> FifoDescriptor:
        name = _name(number)
        path = self._folder.file_path(name)
        for _ in range(3):
            try:
                return FifoDescriptor(self._folder.fd, name, path, writable=writable)
            except NotFoundError:
                self._make(name, path)
        raise AccessError(f"{path} is removed again and again", errno=errno.ENOENT, path=path)

    def _make(self, name: str, path: str) -> None:
        with own_errors(path, "making the FIFO"):
            with suppress(FileExistsError):
                os.mkfifo(name, 0o600, dir_fd=self._folder.fd)
            fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=self._folder.fd)
            try:
                give_access(fd, access_of_directory(self._folder.fd), path)
            finally:
                os.close(fd)
