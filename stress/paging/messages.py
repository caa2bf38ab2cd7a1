"""Messages of which everything is known from their first bytes."""

from __future__ import annotations

import random
import struct
import zlib

from stress.paging.ledger import Identity

_HEAD = struct.Struct(">HHQ")
_SIZE_MAX = 3000


def message_of(identity: Identity) -> bytes:
    """The message of an identity, always the same."""
    chance = random.Random(_HEAD.pack(*identity))
    return _of_size(identity, chance.randrange(_SIZE_MAX) if chance.random() < 0.2 else chance.randrange(100))


def short_message_of(identity: Identity) -> bytes:
    """The same with no more than some 400 bytes, for pages of few sectors."""
    return _of_size(identity, random.Random(_HEAD.pack(*identity)).randrange(400))


def _of_size(identity: Identity, size: int) -> bytes:
    head = _HEAD.pack(*identity)
    body = head + random.Random(head).randbytes(size)
    return body + zlib.crc32(body).to_bytes(4, "big")


def identity_of(message: bytes) -> Identity:
    """Whose it is.  Raises: ValueError where it is not what was put."""
    identity = Identity(*_HEAD.unpack_from(message))
    if message not in (message_of(identity), short_message_of(identity)):
        raise ValueError(f"{message[:40]!r} was never put")
    return identity
