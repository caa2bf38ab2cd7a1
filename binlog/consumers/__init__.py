"""Consumer groups: each message of a log goes to one of a group's members, until one of them has acknowledged it.

Begin with `state`: it applies the operations of a group's log, in order, and that decides which member gets a message.
Every process applies the same operations and has the same state, so no process has to ask another.

`group` is the public object; `open_group` has its parts in one process, and it hands out an `item` or an `item_batch`.
A process that asks for messages is a member (`members`), and sleeps while there are none (`waking`).  `asynchronous`
and `working` are loops over items, `control` is for operators, `inspection` reads without changing anything, and
`retention` says which messages a group still needs.  `producer` appends messages.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from binlog.consumers.control import GroupControl
    from binlog.consumers.group import ConsumerGroup
    from binlog.consumers.inspection.check import check_group
    from binlog.consumers.inspection.history import Event, clock_offset, events, state_at
    from binlog.consumers.inspection.letters import DeadLetter, drop_dead_letters, read_dead_letters
    from binlog.consumers.inspection.peek import PeekedItem, Status, peek
    from binlog.consumers.inspection.stat import GroupStat, MemberStat, OldestInHand, groups, stat_group
    from binlog.consumers.item import Item
    from binlog.consumers.retention import group_names
    from binlog.consumers.state.settings import OnExpiry, Order, Retry, Settings

__all__ = [
    "ConsumerGroup",
    "DeadLetter",
    "Event",
    "GroupControl",
    "GroupStat",
    "Item",
    "MemberStat",
    "OldestInHand",
    "OnExpiry",
    "Order",
    "PeekedItem",
    "Retry",
    "Settings",
    "Status",
    "check_group",
    "clock_offset",
    "read_dead_letters",
    "drop_dead_letters",
    "events",
    "group_names",
    "groups",
    "peek",
    "stat_group",
    "state_at",
]

# The module of each name, imported on first use: retention needs one of them, and most programs need few.
_MODULES = {
    "control": ("GroupControl",),
    "group": ("ConsumerGroup",),
    "inspection.check": ("check_group",),
    "inspection.history": ("Event", "clock_offset", "events", "state_at"),
    "inspection.letters": ("DeadLetter", "read_dead_letters", "drop_dead_letters"),
    "inspection.peek": ("PeekedItem", "Status", "peek"),
    "item": ("Item",),
    "retention": ("group_names",),
    "state.settings": ("OnExpiry", "Order", "Retry", "Settings"),
    "inspection.stat": ("GroupStat", "MemberStat", "OldestInHand", "groups", "stat_group"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
