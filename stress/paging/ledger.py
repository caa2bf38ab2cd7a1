"""What the processes that are killed did, in a file that they append to: what a process wrote there survives it."""

from __future__ import annotations

import enum
import os
import struct
from pathlib import Path
from typing import NamedTuple

_MARK = struct.Struct(">BBHIIQ")


class What(enum.IntEnum):
    """What was done.  The second number of a transaction's marks is its own; else it is that of a message's."""

    OPENED = 0
    PUT_TRIED = 1
    PUT_DONE = 2
    GOT = 3
    ACK_TRIED = 4
    ACK_DONE = 5
    # Of a transaction: each message that it puts or acknowledges, then what becomes of it.
    TX_PUT = 6
    TX_ACK = 7
    TX_TRIED = 8
    TX_DONE = 9
    TX_DROPPED = 10
    # All that its process put, or acknowledged, is durable: what a power cut is not to take.
    PUTS_SYNCED = 11
    ACKS_SYNCED = 12
    # By an error that says that nothing was done; of a transaction TX_DROPPED says so.
    PUT_REFUSED = 13
    ACK_REFUSED = 14
    # It is durable, whatever was put before it is.
    MESSAGE_SYNCED = 15
    # A backup, whose number is the message's.
    BACKUP_TRIED = 16
    BACKUP_DONE = 17


class Identity(NamedTuple):
    """A message: by which process it was put, by which of its threads, and the how many-eth of that it is."""

    life: int
    producer: int
    number: int


class Mark(NamedTuple):
    """A mark.  life, thread: who made it.  tx: of its life and thread, 0 for none."""

    what: What
    life: int
    thread: int
    tx: int
    message: Identity


class Ledger:
    """The marks, of one process after the other."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def mark(self, mark: Mark) -> None:
        """Note a mark, now: one write, of which a process that dies makes all or nothing."""
        what, life, thread, tx, (its_life, producer, number) = mark
        os.write(self._fd, _MARK.pack(what, thread, life, tx, its_life << 16 | producer, number))

    def marks(self) -> list[Mark]:
        """All, in the order in which they were made."""
        data = self._path.read_bytes()
        found = []
        for what, thread, life, tx, who, number in _MARK.iter_unpack(data[: len(data) // _MARK.size * _MARK.size]):
            found.append(Mark(What(what), life, thread, tx, Identity(who >> 16, who & 0xFFFF, number)))
        return found

    @property
    def mark_count(self) -> int:
        """How many there are."""
        return self._path.stat().st_size // _MARK.size

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)
