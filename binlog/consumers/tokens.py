"""Token: a delivery of a message by a group as a text, with which any process may acknowledge it."""

from __future__ import annotations

import re
from typing import NamedTuple, Self

from binlog.format.record import COUNT_MAX

_GROUP_DIGITS = 16
_NUMBER_MAX = 0xFFFF_FFFF
_TOKEN = re.compile(rf"([0-9a-f]{{{_GROUP_DIGITS}}})-([0-9]+)-([0-9]+)-([0-9]+)", re.ASCII)


class Token(NamedTuple):
    """A delivery.  Its text is GROUP-EPOCH-SEQUENCE-DELIVERY, such as `3f2a0c9d8e7b6a51-0-17-1`.

    group: the first 16 hex digits of the UUID of the group's log.  epoch: how often the group had been reset.
    sequence: of the message.  delivery: how often the message was started by then, with uncounted deliveries.
    """

    group: str
    epoch: int
    sequence: int
    delivery: int

    @classmethod
    def of(cls, uuid: bytes, epoch: int, sequence: int, delivery: int) -> Self:
        """Return the token of a delivery.  uuid: of the group's log."""
        return cls(uuid.hex()[:_GROUP_DIGITS], epoch, sequence, delivery)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the token that a text says.  Raises: ValueError."""
        if not isinstance(text, str):
            raise TypeError(f"a token is a text, not {text!r}")
        match = _TOKEN.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"a token is GROUP-EPOCH-SEQUENCE-DELIVERY, such as 3f2a0c9d8e7b6a51-0-17-1, not {text!r}")
        group, (epoch, sequence, delivery) = match[1], map(int, match.groups()[1:])
        if epoch > _NUMBER_MAX or sequence > COUNT_MAX or delivery > _NUMBER_MAX:
            raise ValueError(f"{text!r} is no token: a number in it is too large")
        return cls(group, epoch, sequence, delivery)

    def is_of(self, uuid: bytes) -> bool:
        """Return whether the token is of the group whose log has this UUID."""
        return self.group == uuid.hex()[:_GROUP_DIGITS]

    def __str__(self) -> str:
        return "-".join(map(str, self))
