"""Followers, consumer groups and the seal of a log, as text and as JSON."""

from __future__ import annotations

import dataclasses
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from binlog.cli.amounts import count_text, duration_text, size_text, things_text, time_text
from binlog.watching import FollowerStat, GroupView, SealView

if TYPE_CHECKING:
    from binlog.consumers import GroupStat


def follower_text(follower: FollowerStat) -> str:
    """Format a follower's lag, or its problem."""
    if follower.problem is not None:
        return follower.problem
    records = "" if follower.lag_records is None else f"{things_text(follower.lag_records, 'record')}, "
    seconds = follower.lag_seconds or 0
    since = f", {duration_text(seconds)}" if seconds >= 1 else ""
    return f"lag {records}{size_text(follower.lag_bytes or 0)}{since}"


def follower_object(follower: FollowerStat) -> dict[str, object]:
    """Return a follower as --json prints it."""
    return {
        "name": PurePath(follower.name).name,
        "position": follower.name,
        "ref": None if follower.ref is None else str(follower.ref),
        "records_behind": follower.lag_records,
        "bytes_behind": follower.lag_bytes,
        "seconds_behind": None if follower.lag_seconds is None else round(follower.lag_seconds, 3),
        "problem": follower.problem,
    }


def group_text(group: GroupView) -> str:
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


def group_object(group: GroupView) -> dict[str, object]:
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


def seal_text(seal: SealView, now_ns: int) -> str:
    """Format a seal in a few words."""
    stat = seal.stat
    if stat is None:
        return seal.problem or "unreadable"
    parts = [f"{things_text(stat.size, 'record')} sealed"]
    if stat.signed_ns is not None:
        parts.append(f"signed {duration_text((now_ns - stat.signed_ns) / 1e9)} ago")
    if seal.is_cut:
        return f"the log ends before its seal at {stat.next_ref}, " + ", ".join(parts)
    if seal.unsealed_records is not None:
        parts.append(f"{things_text(seal.unsealed_records, 'record')} unsealed")
    for name, anchored in stat.anchored.items():
        parts.append(f"{name} {duration_text(now_ns / 1e9 - anchored.seconds)} ago")
    return ", ".join(parts)


def seal_object(seal: SealView) -> dict[str, object]:
    """Return a seal as --json prints it."""
    stat = seal.stat
    if stat is None:
        return {"problem": seal.problem}
    return {
        "origin": stat.origin,
        "size": stat.size,
        "unsealed_records": seal.unsealed_records,
        "unsealed_bytes": stat.unsealed_bytes,
        "signed": None if stat.signed_ns is None else time_text(stat.signed_ns),
        "is_cut": seal.is_cut,
        "anchors": [{"name": name, **anchored._asdict()} for name, anchored in stat.anchored.items()],
        "problem": None,
    }
