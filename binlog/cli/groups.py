"""The consumer groups of a log: their stats, as text and as JSON."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from binlog.cli.amounts import count_text, duration_text, size_text, things_text, time_text
from binlog.errors import BinlogError, NotFoundError

if TYPE_CHECKING:
    from binlog.consumers import GroupStat


class NamedGroup(NamedTuple):
    """A group of a log: its stat, or why it has none."""

    name: str
    stat: GroupStat | None
    problem: str | None


def groups_of(directory: str) -> list[NamedGroup]:
    """Return the groups of a log, in the order of their names; those that are being made or removed are left out."""
    if not os.path.isdir(os.path.join(directory, "groups")):
        return []
    # Imported here, because most logs have no group.
    from binlog.consumers import group_names, stat_group

    groups = []
    for name in group_names(directory):
        try:
            groups.append(NamedGroup(name, stat_group(directory, name), None))
        except NotFoundError:
            continue
        except BinlogError as error:
            groups.append(NamedGroup(name, None, str(error)))
    return groups


def group_text(group: NamedGroup) -> str:
    """Format a group in a few words, without its name."""
    stat = group.stat
    if stat is None:
        return group.problem or "unreadable"
    parts = [f"lag {'unknown' if stat.lag is None else things_text(stat.lag, 'message')}"]
    if stat.lag and stat.lag_seconds is not None:
        parts.append(duration_text(stat.lag_seconds))
    parts += [things_text(len(stat.members), "member"), f"{count_text(stat.in_hand)} in hand"]
    if stat.delayed:
        parts.append(f"{count_text(stat.delayed)} delayed")
    if stat.dead_letters:
        parts.append(things_text(stat.dead_letters, "dead letter"))
    if stat.held_bytes:
        parts.append(f"holds {size_text(stat.held_bytes)}")
    if stat.is_paused:
        parts.append("paused")
    return ", ".join(parts)


def group_object(group: NamedGroup) -> dict[str, object]:
    """Return a group as --json prints it."""
    if group.stat is None:
        return {"name": group.name, "problem": group.problem}
    return {**stat_object(group.stat), "problem": None}


def stat_object(stat: GroupStat) -> dict[str, Any]:
    """Return the stat of a group as --json prints it."""
    settings = {**dataclasses.asdict(stat.settings), "order": stat.settings.order.value}
    return {
        **dataclasses.asdict(stat),
        "dead_letters": stat.dead_letters,
        "next_due": None if stat.next_due_ns is None else time_text(stat.next_due_ns),
        "settings": {**settings, "on_expiry": stat.settings.on_expiry.value},
    }
