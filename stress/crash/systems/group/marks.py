"""The marks of processes that append messages, and of members and operators of a consumer group."""

from __future__ import annotations

import enum
from typing import NamedTuple

from binlog import Message
from stress.crash import records
from stress.crash.marks import Values

_KEYED_EVERY, _KEYS = 3, 2


class MarkKind(enum.IntEnum):
    """The kind of a mark.  An item's end is marked before its call, and the call's outcome after it."""

    OPENED = 0  # delivery: the process's id
    PUT_TRIED = 1
    PUT_REFUSED = 2  # an error said that it was not appended
    PUT_DONE = 3  # durable: whether a power cut leaves it
    PUTS_SYNCED = 4  # all messages of the process are durable
    GOT = 5
    ACK_TRIED = 6
    NACK_TRIED = 7
    REJECT_TRIED = 8
    BACK_TRIED = 9
    END_REFUSED = 10  # an error said that the process still has the item
    ENDED = 11  # the call returned, and counted; durable: whether a power cut leaves it
    LOST = 12  # LeaseLostError
    CLOSED = 13  # the process has left the group, and all that it did is durable
    RELEASE_TRIED = 14  # delivery: the id of the process whose items are given to others
    RESET_TRIED = 15
    RESET_DONE = 16
    AGAIN_TRIED = 17  # a dead letter is to be delivered again
    POWER_CUT = 18
    AGAIN_DONE = 19


ENDS = (MarkKind.ACK_TRIED, MarkKind.NACK_TRIED, MarkKind.REJECT_TRIED, MarkKind.BACK_TRIED)


class Identity(NamedTuple):
    """A message: the process that appended it, and its number there."""

    process: int
    number: int

    @property
    def key(self) -> bytes | None:
        """The key of the message."""
        return b"%d" % (self.number % _KEYS) if self.number % _KEYED_EVERY == 0 else None


NO_MESSAGE = Identity(0, 0)


class Mark(NamedTuple):
    """A mark.  process: that made it.  delivery, epoch: of an item.  sequence: of its message."""

    kind: MarkKind
    process: int
    message: Identity = NO_MESSAGE
    delivery: int = 0
    epoch: int = 0
    sequence: int = 0
    durable: int = 0


def mark_of(values: Values) -> Mark:
    """Return the mark with these values."""
    kind, process_number, of_process, number, *others = values
    return Mark(MarkKind(kind), process_number, Identity(of_process, number), *others)


def record_of(identity: Identity) -> bytes:
    """Return the record of a message: with an envelope if it has a key."""
    body = records.record_bytes(*identity)
    return body if identity.key is None else Message(body=body, key=identity.key).pack()


def identity_of(body: bytes) -> Identity:
    """Return the identity of a message.  Raises: ValueError, if it was never appended."""
    found = records.identity_of(body)
    if found is None:
        raise ValueError(f"the message {body[:40]!r} was never appended")
    return Identity(*found)
