"""GroupStat: what a consumer group has done and has yet to do, read without changing anything."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass

from binlog.consumers.retention import GROUPS, group_names
from binlog.consumers.state import Counters, GroupState, ItemState
from binlog.consumers.state_reader import StateReader
from binlog.consumers.waking.seats import FifoSeats
from binlog.errors import NotFoundError
from binlog.log.maintain.stat import stat
from binlog.storage.directory import Directory


@dataclass(frozen=True, kw_only=True)
class MemberStat:
    """A member of a group.

    seat, generation: of the member.  in_hand: the sequences of its items.  hint: what it said about its process.
    is_alive: False if its process is gone, and no other member has noticed yet.
    """

    seat: int
    generation: int
    in_hand: tuple[int, ...]
    hint: str
    is_alive: bool


@dataclass(frozen=True, kw_only=True)
class GroupStat:
    """A consumer group.

    floor: the sequence of the first message that is not done.  next: that of the first one never delivered.
    lag: how many messages are not done; None if the log does not know its count.
    ready, delayed, blocked, in_hand, dying: how many items are in each state.
    dead_letters: messages that became dead letters.  counters: of everything since the group was created.
    """

    name: str
    floor: int
    next: int
    lag: int | None
    ready: int
    delayed: int
    blocked: int
    in_hand: int
    dying: int
    is_paused: bool
    members: tuple[MemberStat, ...]
    counters: Counters

    @property
    def dead_letters(self) -> int:
        """How many messages became dead letters."""
        return self.counters.dead


def stat_group(path: str | os.PathLike[str], name: str) -> GroupStat:
    """Return the state of a consumer group of a log.

    Raises: NotFoundError if there is no such group; AccessError, CorruptError, VersionError.
    """
    folder = os.path.join(path, GROUPS, name)
    if name not in group_names(path):
        raise NotFoundError(f"{os.fspath(path)} has no consumer group {name!r}")
    reader = StateReader.open(folder)
    reader.close()
    state = reader.state
    if not state.is_created:
        raise NotFoundError(f"{folder}: the group was not created completely")
    end = stat(path).end_sequence
    items = state.items()
    states = Counter(item.state for item in items if not item.letter)
    return GroupStat(
        name=name,
        floor=state.floor,
        next=state.next,
        lag=None if end is None else end - state.next + sum(1 for each in items if each.sequence < state.next),
        ready=states[ItemState.READY],
        delayed=states[ItemState.DELAYED],
        blocked=states[ItemState.BLOCKED],
        in_hand=states[ItemState.HELD] + states[ItemState.STARTED],
        dying=sum(1 for item in items if item.letter),
        is_paused=state.is_paused,
        members=_members(folder, state),
        counters=state.counters,
    )


def _members(folder: str, state: GroupState) -> tuple[MemberStat, ...]:
    with Directory(os.path.join(folder, "members")) as members:
        seats = FifoSeats(members)
        return tuple(
            MemberStat(
                seat=number,
                generation=seat.generation,
                in_hand=tuple(seat.held),
                hint=seat.hint,
                is_alive=not seats.is_free(number),
            )
            for number, seat in sorted(state.seats.items())
        )
