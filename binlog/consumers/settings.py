"""The settings of a consumer group, which are in its log and hold for all members."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace

from binlog.format.consumers.operation import Setting

RULES = 1
"""The version of the rules of binlog/consumers/state.py."""


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
class Settings:
    """The settings of a group.

    deliveries_max: after this many deliveries without an ack a message becomes a dead letter; 0 for no limit.
    first_ns, most_ns: how long a message waits after its second death, and at most; the wait doubles with each death.
    outstanding_max: no new message is delivered while this many were delivered, or wait for a retry, and are not done.
    in_hand_max: no message is delivered while the members have this many; 0 for no limit.
    """

    rules: int = RULES
    deliveries_max: int = 10
    first_ns: int = 1_000_000_000
    most_ns: int = 3_600_000_000_000
    order: Order = Order.NONE
    on_expiry: OnExpiry = OnExpiry.DEAD_LETTER
    outstanding_max: int = 65_536
    in_hand_max: int = 0

    def as_values(self) -> dict[int, int]:
        """Return the entries of a section `settings`, without the start."""
        return {
            Setting.RULES: self.rules,
            Setting.DELIVERIES_MAX: self.deliveries_max,
            Setting.FIRST_NS: self.first_ns,
            Setting.MOST_NS: self.most_ns,
            Setting.ORDER: _ORDERS.index(self.order),
            Setting.ON_EXPIRY: _ON_EXPIRY.index(self.on_expiry),
            Setting.OUTSTANDING_MAX: self.outstanding_max,
            Setting.IN_HAND_MAX: self.in_hand_max,
        }

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


_NUMBERS = {
    int(each): each.name.lower()
    for each in Setting
    if each not in (Setting.START, Setting.ORDER, Setting.ON_EXPIRY)
}  # fmt: skip
