"""The settings of a consumer group, which are in its log and hold for all members."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass, fields, replace
from typing import Any


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a group.

    deliveries_max: after this many deliveries without an ack a message becomes a dead letter; 0 for no limit.
    first_ns, most_ns: how long a message waits after its second death, and at most; the wait doubles with each death.
    outstanding_max: no new message is delivered while this many were delivered, or wait for a retry, and are not done.
    in_hand_max: no message is delivered while the members have this many; 0 for no limit.
    """

    rules: int = 1
    deliveries_max: int = 10
    first_ns: int = 1_000_000_000
    most_ns: int = 3_600_000_000_000
    order: Order = Order.NONE
    on_expiry: OnExpiry = OnExpiry.DEAD_LETTER
    outstanding_max: int = 65_536
    in_hand_max: int = 0

    def as_values(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        return {name: value.value if isinstance(value, enum.Enum) else value for name, value in asdict(self).items()}

    def changed(self, values: dict[str, Any]) -> Settings:
        """Return the settings with these values; unknown names and wrong values change nothing."""
        known = {each.name: getattr(self, each.name) for each in fields(self)}
        new: dict[str, Any] = {}
        for name, value in values.items():
            old = known.get(name)
            if isinstance(old, enum.Enum):
                new[name] = next((each for each in type(old) if each.value == value), old)
            elif isinstance(old, int) and isinstance(value, int) and value >= 0:
                new[name] = value
        return replace(self, **new)
