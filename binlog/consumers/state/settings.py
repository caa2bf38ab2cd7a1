"""The settings of a consumer group, which are in its log and hold for all members."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from binlog.format.consumers.operation import Setting
from binlog.format.values import count_of, parse_bytes, seconds_of

RULES = 1
"""The version of the rules of binlog/consumers/state/group_state.py."""

OUTSTANDING_MAX = 1 << 20
"""The largest limit of outstanding items, and how many items a group has at most before new ones wait in the log."""

_NS = 10**9
_SECONDS_MAX = 10**9
_FACTOR_MAX = 1000
_COUNT_MAX = 0xFFFF_FFFF
_ALWAYS = "always"

Holds = str | float | timedelta
"""How long, or how much, a group holds: "always"; seconds, a timedelta or a text such as "7d"; or bytes, as "10G"."""


class Order(enum.Enum):
    """Which messages with the same key may be delivered at the same time, or out of order.

    NONE: any.  STRICT: a message waits until all earlier ones with its key are done or dead.  RELAXED: as STRICT, but a
    message that waits for a retry lets later ones pass.
    """

    NONE = "none"
    STRICT = "strict"
    RELAXED = "relaxed"


class OnExpiry(enum.Enum):
    """What becomes of a message that expired: a dead letter, or nothing."""

    DEAD_LETTER = "dead-letter"
    DROP = "drop"


_ORDERS, _ON_EXPIRY = tuple(Order), tuple(OnExpiry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When a message that failed is delivered again, and how often.

    deliveries_max: after this many deliveries without an ack it becomes a dead letter; None for no limit.
    first: seconds until the second delivery.  factor: each later wait is this many times longer, 1 to 1000, in steps of
    0.01.  most: seconds at most.  jitter: each wait is longer or shorter by up to this share of it, 0 to 1, in steps of
    0.01.
    """

    deliveries_max: int | None = 10
    first: float = 1.0
    factor: float = 2.0
    most: float = 3600.0
    jitter: float = 0.1

    def __post_init__(self) -> None:
        if self.deliveries_max is not None:
            count_of(self.deliveries_max, "deliveries_max", 1, _COUNT_MAX)
        for name, seconds in (("first", self.first), ("most", self.most)):
            if not 0 <= seconds <= _SECONDS_MAX:
                raise ValueError(f"{name} is 0 to {_SECONDS_MAX} seconds, not {seconds}")
        if not 1 <= self.factor <= _FACTOR_MAX:
            raise ValueError(f"factor is 1 to {_FACTOR_MAX}, not {self.factor}")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter is 0 to 1, not {self.jitter}")

    def seconds(self, delivery: int) -> float:
        """Return how long to wait after this delivery, which is counted from 1 on."""
        try:
            longer = float(self.factor) ** max(delivery - 1, 0)
        except OverflowError:
            longer = math.inf
        import random  # most messages do not fail

        wait = min(self.first * longer, self.most) if self.first else 0.0
        return wait * (1 + self.jitter * random.uniform(-1, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a group.

    deliveries_max: after this many deliveries without an ack a message becomes a dead letter; 0 for no limit.
    first_ns, most_ns: how long a message waits after its first failure, and at most.
    factor_percent: how much longer each later wait is: 200 for twice as long.  jitter_percent: by how much each wait
    may be longer or shorter.  After its second death a message waits as after its first failure; each later wait after
    a death is twice as long.
    outstanding_max: no new message is delivered while this many were delivered, or wait for a retry, and are not done.
    in_hand_max: no message is delivered while the members have this many; 0 for no limit.
    holds_ns: once the group has had no member and no operation for this long, retention may remove messages that it is
    not done with; 0 for never.  holds_bytes: the same once it lags by more bytes than this; 0 for never.
    """

    rules: int = RULES
    deliveries_max: int = 10
    first_ns: int = 1_000_000_000
    most_ns: int = 3_600_000_000_000
    order: Order = Order.NONE
    on_expiry: OnExpiry = OnExpiry.DEAD_LETTER
    outstanding_max: int = 65_536
    in_hand_max: int = 0
    factor_percent: int = 200
    jitter_percent: int = 10
    holds_ns: int = 0
    holds_bytes: int = 0

    def as_values(self) -> dict[int, int]:
        """Return the entries of a section `settings`, without the start."""
        values = {number: getattr(self, name) for number, name in _NUMBERS.items()}
        values |= {Setting.ORDER: _ORDERS.index(self.order), Setting.ON_EXPIRY: _ON_EXPIRY.index(self.on_expiry)}
        return dict(sorted(values.items()))

    def changed(self, values: Mapping[int, int]) -> Settings:
        """Return the settings with these values; unknown settings and unknown values change nothing."""
        new: dict[str, int | Order | OnExpiry] = {}
        for number, value in values.items():
            if number == Setting.ORDER:
                new["order"] = _ORDERS[value] if value < len(_ORDERS) else self.order
            elif number == Setting.ON_EXPIRY:
                new["on_expiry"] = _ON_EXPIRY[value] if value < len(_ON_EXPIRY) else self.on_expiry
            elif number in _NUMBERS:
                new[_NUMBERS[number]] = value
        return replace(self, **new)  # type: ignore[arg-type]

    @property
    def retry(self) -> Retry:
        """When a message that failed is delivered again."""
        return Retry(
            deliveries_max=self.deliveries_max or None,
            first=self.first_ns / _NS,
            factor=self.factor_percent / 100,
            most=self.most_ns / _NS,
            jitter=self.jitter_percent / 100,
        )

    def with_retry(self, retry: Retry) -> Settings:
        """Return the settings with another policy for messages that failed."""
        return replace(
            self,
            deliveries_max=retry.deliveries_max or 0,
            first_ns=round(retry.first * _NS),
            most_ns=round(retry.most * _NS),
            factor_percent=round(retry.factor * 100),
            jitter_percent=round(retry.jitter * 100),
        )

    def with_holds(self, holds: Holds) -> Settings:
        """Return the settings with another limit of held messages.  Raises: TypeError, ValueError."""
        holds_ns, holds_bytes = _parse_holds(holds)
        return replace(self, holds_ns=holds_ns, holds_bytes=holds_bytes)

    def with_limits(self, *, outstanding_max: int | None = None, in_hand_max: int | None = None) -> Settings:
        """Return the settings with other limits; None for the present one, an in_hand_max of 0 for no limit.

        Raises: ValueError.
        """
        outstanding_max = self.outstanding_max if outstanding_max is None else outstanding_max
        in_hand_max = self.in_hand_max if in_hand_max is None else in_hand_max
        count_of(outstanding_max, "outstanding_max", 1, OUTSTANDING_MAX)
        count_of(in_hand_max, "in_hand_max", 0, _COUNT_MAX)
        return replace(self, outstanding_max=outstanding_max, in_hand_max=in_hand_max)


_NUMBERS = {
    int(each): each.name.lower()
    for each in Setting
    if each not in (Setting.START, Setting.ORDER, Setting.ON_EXPIRY)
}  # fmt: skip


def _parse_holds(holds: Holds) -> tuple[int, int]:
    """Return the nanoseconds, and the bytes; 0 for no limit."""
    if holds == _ALWAYS:
        return 0, 0
    try:
        seconds = seconds_of(holds, "holds")
    except ValueError:
        try:
            size = parse_bytes(str(holds))
        except ValueError:
            text = "holds is 'always', a time such as '7d', or a number of bytes such as '10G'"
            raise ValueError(f"{text}, not {holds!r}") from None
        if size < 1:
            raise ValueError(f"holds is 1 byte or more, not {holds!r}") from None
        return 0, size
    if not 0 < seconds <= _SECONDS_MAX:
        raise ValueError(f"holds is more than 0 seconds, and {_SECONDS_MAX} at most, not {holds!r}")
    return max(round(seconds * _NS), 1), 0
