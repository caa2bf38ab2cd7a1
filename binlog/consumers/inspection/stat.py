"""GroupStat: what a consumer group has done and has yet to do, read without changing anything."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass

from binlog.consumers.group_folder import finish_deletions
from binlog.consumers.inspection.history import clock_offset_ns, state_at
from binlog.consumers.inspection.replay import folder_of, started_times
from binlog.consumers.retention import group_names, holds_messages
from binlog.consumers.state.group_state import Counters, GroupState, Item, ItemState
from binlog.consumers.state.settings import Settings
from binlog.consumers.state.state_reader import StateReader
from binlog.consumers.waking.seats import seat_name
from binlog.errors import AccessError, BinlogError, NotFoundError
from binlog.log.maintain.stat import LogStat, stat
from binlog.log.read.start import Sequence
from binlog.log.reader import Reader
from binlog.storage.descriptors import FifoDescriptor
from binlog.storage.directory import Directory
from binlog.storage.locking.locks import is_locked

_NS = 10**9


@dataclass(frozen=True, kw_only=True)
class MemberStat:
    """A member of a group.

    seat, generation: of the member.  in_hand: the sequences of its items.  hint: what it said about its process.
    is_alive: False if its process is gone, and no other member has noticed yet; None for a time in the past, or if
    this process may not check it.
    """

    seat: int
    generation: int
    in_hand: tuple[int, ...]
    hint: str
    is_alive: bool | None


@dataclass(frozen=True, kw_only=True)
class OldestInHand:
    """The message that a member has had for longest.

    delivery: which one it is.  since_ns: when it began, nanoseconds since 1970 by the wall clock; None if it was before
    the newest checkpoint of the group's log.
    """

    sequence: int
    seat: int
    delivery: int
    since_ns: int | None


@dataclass(frozen=True, kw_only=True)
class GroupStat:
    """A consumer group, now or at a time in the past.

    floor: the sequence of the first message that is not done.  next: that of the first one that is new to the group.
    lag: how many messages are not done, of those that the log has; in the past, of those that the group knew; None if
    the log does not know its count.  lag_seconds: how long the first of them has been in the log; None if not known.
    ready, delayed, blocked, in_hand, dying: how many items are in each state.
    next_due_ns: when the next of them is due, or its lease ends, nanoseconds since 1970 by the wall clock, or None.
    held_bytes: of closed files on the disk that retention keeps for the group; None if not known.
    epoch: how often the group was reset.  counters: of everything since the group was created.
    """

    name: str
    floor: int
    next: int
    lag: int | None
    lag_seconds: float | None
    ready: int
    delayed: int
    blocked: int
    in_hand: int
    dying: int
    oldest_in_hand: OldestInHand | None
    next_due_ns: int | None
    held_bytes: int | None
    epoch: int
    is_paused: bool
    members: tuple[MemberStat, ...]
    counters: Counters
    settings: Settings

    @property
    def dead_letters(self) -> int:
        """How many messages became dead letters."""
        return self.counters.dead


def stat_group(
    path: str | os.PathLike[str], name: str, *, at_ns: int | None = None, log: LogStat | None = None
) -> GroupStat:
    """Return the state of a consumer group of a log.

    at_ns: as it was at this time, nanoseconds since 1970 by the wall clock; None for now.
    log: as `binlog.stat` returned it just now; it is read again if it is not given, which takes long for a log of
    thousands of files.
    Raises: NotFoundError if there is no such group, or was none then; GoneError if the group's log does not go back
    that far; AccessError, CorruptError, VersionError.
    """
    folder = folder_of(path, name)
    reader = StateReader.open(folder)
    reader.close()
    state = reader.state
    if not state.is_created:
        raise NotFoundError(f"{folder}: the group was not created completely")
    if state.is_deleted:
        raise NotFoundError(f"{folder}: the group was deleted")
    offset_ns = clock_offset_ns(state)
    if at_ns is not None:
        state = state_at(path, name, at_ns + offset_ns)
    log = None if at_ns is not None else log or stat(path)
    items = state.items()
    states = Counter(item.state for item in items if not item.letter)
    end = state.known_end if log is None else log.end_sequence
    due_ns = state.next_due_ns
    return GroupStat(
        name=name,
        floor=state.floor,
        next=state.next,
        lag=None if end is None else end - state.next + sum(1 for each in items if each.sequence < state.next),
        lag_seconds=None if log is None else _lag_seconds(path, log, state.floor),
        ready=states[ItemState.READY],
        delayed=states[ItemState.DELAYED],
        blocked=states[ItemState.BLOCKED],
        in_hand=states[ItemState.HELD] + states[ItemState.STARTED],
        dying=sum(1 for item in items if item.letter),
        oldest_in_hand=_oldest_in_hand(folder, state, items, offset_ns, is_past=log is None),
        next_due_ns=None if due_ns is None else due_ns - offset_ns,
        held_bytes=None if log is None else _held_bytes(log, state.floor) if holds_messages(path, folder, state) else 0,
        epoch=state.epoch,
        is_paused=state.is_paused,
        members=_members(folder, state, is_past=log is None),
        counters=state.counters,
        settings=state.settings,
    )


def groups(path: str | os.PathLike[str]) -> list[GroupStat]:
    """Return the state of each consumer group of a log, in the order of their names.

    Removes groups that were deleted by processes that died then, if this process may.
    Raises: AccessError, CorruptError, VersionError.
    """
    found, others = list[GroupStat](), []
    for name in group_names(path):
        try:
            found.append(stat_group(path, name))
        except NotFoundError:
            others.append(name)  # it is being made, or was deleted
    finish_deletions(os.fspath(path), others)
    return found


def _lag_seconds(path: str | os.PathLike[str], log: LogStat, floor: int) -> float | None:
    if log.end_sequence is not None and floor >= log.end_sequence:
        return 0.0
    try:
        with Reader(path, Sequence(floor)) as reader:
            entry = next(reader)
            return max(time.time() - entry.time.timestamp(), 0.0)
    except (BinlogError, ValueError, StopIteration):
        return None  # retention removed it, it is damaged, or another program made the file


def _held_bytes(log: LogStat, floor: int) -> int | None:
    holding = [file.number for file in log.files if file.first_sequence is not None and file.first_sequence <= floor]
    if not holding:
        return None
    return sum(file.disk_bytes for file in log.files if file.closed and file.number >= holding[-1])


def _oldest_in_hand(
    folder: str, state: GroupState, items: list[Item], offset_ns: int, *, is_past: bool
) -> OldestInHand | None:
    started = [item for item in items if item.state is ItemState.STARTED]
    if not started:
        return None
    times = {} if is_past else started_times(folder)
    # A start that is not among the times is older than all of them.
    oldest = min(started, key=lambda item: times.get(item.sequence, 0))
    since_ns = times.get(oldest.sequence)
    return OldestInHand(
        sequence=oldest.sequence,
        seat=oldest.seat,
        delivery=oldest.delivery - oldest.uncounted,
        since_ns=None if since_ns is None else since_ns - offset_ns,
    )


def _is_alive(folder: str, number: int) -> bool | None:
    """Return whether a living process has a seat, without making its FIFO as a member does; None if it is not known."""
    try:
        with Directory(os.path.join(folder, "members")) as members:
            name = seat_name(number)
            fifo = FifoDescriptor(members.fd, name, members.file_path(name), writable=False)
            try:
                return is_locked(fifo.fd)
            finally:
                fifo.close()
    except NotFoundError:
        return False
    except AccessError:
        return None  # this process may not read the FIFO


def _members(folder: str, state: GroupState, *, is_past: bool) -> tuple[MemberStat, ...]:
    living = sorted(state.seats.items())
    is_alive: dict[int, bool | None] = dict.fromkeys(state.seats)
    if living and not is_past:
        is_alive.update((number, _is_alive(folder, number)) for number in state.seats)
    return tuple(
        MemberStat(
            seat=number,
            generation=seat.generation,
            in_hand=tuple(seat.held),
            hint=seat.hint,
            is_alive=is_alive[number],
        )
        for number, seat in living
    )
