"""Messages that identify themselves, and the marks of processes that put and acknowledge them."""

from __future__ import annotations

import enum
import random
import struct
import zlib
from typing import NamedTuple

_HEAD = struct.Struct(">HHQ")
_SIZE_MAX = 3000


class MarkKind(enum.IntEnum):
    """The kind of a mark.  The second number of a transaction's marks is its own; otherwise it is the message's."""

    OPENED = 0
    PUT_TRIED = 1
    PUT_DONE = 2
    GOT = 3
    ACK_TRIED = 4
    ACK_DONE = 5
    # Of a transaction: each message that it puts or acknowledges, then its outcome.
    TX_PUT = 6
    TX_ACK = 7
    TX_TRIED = 8
    TX_DONE = 9
    TX_DROPPED = 10
    # Everything that the process put, or acknowledged, is durable and must survive a power cut.
    PUTS_SYNCED = 11
    ACKS_SYNCED = 12
    # An error said that nothing was done; for a transaction, TX_DROPPED says so.
    PUT_REFUSED = 13
    ACK_REFUSED = 14
    # This message is durable, but not necessarily those put before it.
    MESSAGE_SYNCED = 15
    # A backup, whose number is the message's.
    BACKUP_TRIED = 16
    BACKUP_DONE = 17


class Identity(NamedTuple):
    """A message: the process and thread that put it, and its index there."""

    process: int
    producer: int
    number: int


class Mark(NamedTuple):
    """A mark.  process, thread: of the process that made it.  tx: a number of that thread, 0 for none."""

    kind: MarkKind
    process: int
    thread: int
    tx: int
    message: Identity


def mark_of(values: tuple[int, ...]) -> Mark:
    """Return the mark with these values."""
    kind, process_number, thread, tx, its_life, producer, number, *_ = values
    return Mark(MarkKind(kind), process_number, thread, tx, Identity(its_life, producer, number))


def message_of(identity: Identity) -> bytes:
    """Return the body of a message, always the same for one identity."""
    chance = random.Random(_HEAD.pack(*identity))
    return _of_size(identity, chance.randrange(_SIZE_MAX) if chance.random() < 0.2 else chance.randrange(100))


def short_message_of(identity: Identity) -> bytes:
    """Return a body of at most some 400 bytes, for pages of few sectors."""
    return _of_size(identity, random.Random(_HEAD.pack(*identity)).randrange(400))


def _of_size(identity: Identity, size: int) -> bytes:
    head = _HEAD.pack(*identity)
    body = head + random.Random(head).randbytes(size)
    return body + zlib.crc32(body).to_bytes(4, "big")


def identity_of(message: bytes) -> Identity:
    """Return the identity of a message.  Raises: ValueError, if it was never put."""
    identity = Identity(*_HEAD.unpack_from(message))
    if message not in (message_of(identity), short_message_of(identity)):
        raise ValueError(f"{message[:40]!r} was never put")
    return identity
