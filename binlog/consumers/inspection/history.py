"""What happened in a group, and its state at a time, from the operations that its log still has.

An operation says what its member wanted, and the state decides what it did.  So the events of an operation come from
both: from its sections, and from what applying it changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from binlog.consumers.inspection.replay import Replay, folder_of, no_operation, time_of
from binlog.consumers.state.clock import GroupClock
from binlog.consumers.state.group_state import Counters, GroupState, ItemState, Outcome
from binlog.consumers.state.state_reader import StateReader
from binlog.errors import GoneError, NotFoundError
from binlog.format.consumers.operation import (
    MARK,
    NO_SEAT,
    Again,
    Delivery,
    Failure,
    Kind,
    Operation,
    Setting,
    parse_operation,
)
from binlog.format.record import Ref

_SECOND = 10**9
_OF_DELIVERIES = (Kind.DONE, Kind.RETRY, Kind.REJECT, Kind.EXTEND)
_OF_DELIVERIES_AND_BACK = (*_OF_DELIVERIES, Kind.BACK)
# The names of sections that have no entries about items, where the name is not the event.
_WORDS = {Kind.DELETED: "delete", Kind.CLOCK: "boot", Kind.DONE: "ack", Kind.RETRY: "nack"}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a group.

    place: of its operation in the group's log.  time_ns: the operation's group time; 0 before the clock was set.
    seat: of the member whose event it is; None if it is no member's.
    what: one word: `assign`, `start`, `ack`, `nack`, `reject`, `back`, `extend`, `return`, `due`, `again`, `dying`,
    `dead`, `expire`, `refuse`, `window`, `gone`, `reset`, `join`, `leave`, `death`, `create`, `set`, `boot`, `pause`,
    `resume`, `mark`, `checkpoint`, `void`, `delete`.
    sequence, delivery: of the message; None if it is about no message, or about no delivery.  detail: for people.
    """

    place: Ref
    time_ns: int
    seat: int | None
    what: str
    sequence: int | None
    delivery: int | None
    detail: str


def events(path: str | os.PathLike[str], name: str, *, item: int | None = None) -> Iterator[Event]:
    """Iterate over the events of a group of a log, oldest first, as far back as the group's log goes.

    item: the sequence of a message; only events about it.
    Raises, when it is called: NotFoundError if there is no such group; CorruptError, VersionError, AccessError.
    The iterator raises GoneError if a file of the group's log is removed before it was read.
    """
    return _events(Replay(folder_of(path, name)), item)


def state_at(path: str | os.PathLike[str], name: str, time_ns: int) -> GroupState:
    """Return the state of a group of a log after the operations up to a group time.

    Raises: NotFoundError if the group did not exist then, or does not exist; GoneError if its log does not go back
    that far; CorruptError, VersionError, AccessError.
    """
    folder = folder_of(path, name)
    with Replay(folder) as replay:
        state = replay.state
        if not replay.is_whole and state.clock_ns > time_ns:
            raise GoneError(f"{folder}: the operations of that time were removed from the group's log")
        for ref, record in replay.records():
            if time_of(record) > time_ns:
                break
            if state.apply(record) is None:
                raise no_operation(folder, ref)
    # The group's clock is set after its creation, by its first member.
    if not state.is_created or (not state.clock_ns and time_ns < replay.created_ns):
        raise NotFoundError(f"{folder}: the group did not exist then")
    return state


def clock_offset_ns(state: GroupState) -> int:
    """Return group time minus the wall clock; 0 if the group's clock was not set in this boot."""
    clock = GroupClock()
    return clock.now_ns(state) - clock.wall_ns() if clock.is_set(state) else 0


def clock_offset(path: str | os.PathLike[str], name: str) -> int:
    """Return group time minus the wall clock of a group of a log, as `clock_offset_ns`.

    Raises: NotFoundError if there is no such group; CorruptError, VersionError, AccessError.
    """
    reader = StateReader.open(folder_of(path, name))
    reader.close()
    return clock_offset_ns(reader.state)


def _events(replay: Replay, item: int | None) -> Iterator[Event]:
    with closing(replay):
        for ref, record in replay.records():
            operation = parse_operation(record, replay.seed)
            if operation is None:
                raise no_operation(replay.folder, ref)
            step = _Step(ref, operation, replay.state, item)
            applied = replay.state.apply(record)
            assert applied is not None
            yield from step.events(applied.outcome)


class _Step:
    """An operation, and what it concerns as that was before the operation took effect.

    item: the only message whose events count; None for all.
    """

    def __init__(self, ref: Ref, operation: Operation, state: GroupState, item: int | None) -> None:
        self._ref, self._operation, self._state, self._only = ref, operation, state, item
        self._was_created, self._counters, self._known_end = state.is_created, state.counters, state.known_end
        self._time_ns = max(operation.group_time_ns, state.clock_ns)
        self._lost = self._items_of_leaving_members()
        due_ns = state.next_due_ns
        concerned = set(_sequences(operation)) | {each for held in self._lost.values() for each in held}
        if due_ns is not None and due_ns <= self._time_ns:
            concerned.update(each.sequence for each in state.items() if 0 < each.due_ns <= self._time_ns)
        if item is not None:
            concerned = {item}
        self._before = {each: found for each in concerned if (found := state.find(each)) is not None}

    def _items_of_leaving_members(self) -> dict[int, list[int]]:
        """Return what each member has that this operation removes, by seat."""
        operation, lost = self._operation, dict[int, list[int]]()
        for kind, entries in operation.sections:
            if kind in (Kind.LEAVE, Kind.DEATH):
                seats = self._state.seats
                leaving = [(operation.seat, operation.generation)] if kind is Kind.LEAVE else entries
                for number, generation in leaving:
                    if number in seats and seats[number].generation == generation:
                        lost[number] = list(seats[number].held)
        return lost

    def _event(
        self, what: str, sequence: int | None = None, delivery: int | None = None, detail: str = "", seat: int = NO_SEAT
    ) -> Event:
        if seat == NO_SEAT:
            seat = self._operation.seat
        number = None if seat == NO_SEAT else seat
        return Event(self._ref, self._time_ns, number, what, sequence, delivery, detail)

    def _concerns(self, sequence: int) -> bool:
        return self._only in (None, sequence)

    def events(self, outcome: Outcome) -> Iterator[Event]:
        """Yield the events, after the operation was applied."""
        if not outcome.counted:
            yield from self._void()
            return
        yield from self._due()
        for kind, entries in self._operation.sections:
            if kind in _OF_DELIVERIES:
                yield from self._of_deliveries(kind, entries, set(outcome.refused))
            elif kind is Kind.START:
                yield from self._of_sequences(kind, entries, outcome.started)
            elif kind is Kind.BACK:
                yield from self._of_sequences(kind, [entry.sequence for entry in entries], ())
            elif kind is Kind.AGAIN:
                yield from self._again(entries)
            elif kind in (Kind.LEAVE, Kind.DEATH):
                yield from self._of_leaving_members(kind)
            elif kind in (Kind.WINDOW, Kind.GONE, Kind.RESET):
                yield from self._of_messages(kind, entries)
            elif self._only is None:
                yield self._of_the_group(kind, entries)
        if self._operation.flags & MARK and self._only is None:
            yield self._event("mark")
        for each in outcome.assigned:
            if self._concerns(each.sequence):
                detail = "to make it a dead letter" if each.letter else ""
                delivery = each.delivery if each.is_started else None
                yield self._event("start" if each.is_started else "assign", each.sequence, delivery, detail)
        yield from self._dying(self._state.counters)

    def _void(self) -> Iterator[Event]:
        """An operation that had no effect."""
        named = [each for each in _sequences(self._operation) if self._concerns(each)]
        if self._only is None or named:
            sections = ", ".join(_word(kind) for kind, _ in self._operation.sections) or "want"
            yield self._event("void", named[0] if len(named) == 1 else self._only, None, f"{sections}: no effect")

    def _due(self) -> Iterator[Event]:
        for item in sorted(self._before.values()):
            if not 0 < item.due_ns <= self._time_ns or item.state not in (ItemState.DELAYED, ItemState.STARTED):
                continue
            if item.state is ItemState.DELAYED:
                yield Event(self._ref, self._time_ns, None, "due", item.sequence, None, "")
            else:
                yield self._event("return", item.sequence, item.delivery, "its lease ended", item.seat)

    def _of_deliveries(self, kind: Kind, entries: Iterable[Any], refused: set[Delivery]) -> Iterator[Event]:
        for entry in entries:
            sequence, delivery = entry[0], entry[1]
            if not self._concerns(sequence):
                continue
            item, what, detail = self._before.get(sequence), _word(kind), ""
            if Delivery(sequence, delivery) in refused:
                what, detail = "refuse", f"{what}: another delivery began, or it is done"
            elif kind is Kind.DONE and item is not None and item.letter:
                what, delivery, detail = "dead", None, item.reason
            elif kind is Kind.EXTEND:
                detail = f"for {_seconds(entry.deadline_ns - self._time_ns)}"
            elif kind in (Kind.RETRY, Kind.REJECT):
                detail = self._failure(kind, entry)
            yield self._event(what, sequence, delivery, detail)

    def _failure(self, kind: Kind, failure: Failure) -> str:
        wait_ns, after = failure.due_ns - self._time_ns, self._state.find(failure.sequence)
        is_over = kind is Kind.REJECT or (after is not None and after.letter)
        again = "" if is_over else f"again after {_seconds(wait_ns)}" if wait_ns > 0 else "again at once"
        return ": ".join(part for part in (again, failure.reason) if part)

    def _of_sequences(self, kind: Kind, entries: Iterable[int], started: Iterable[Delivery]) -> Iterator[Event]:
        deliveries = dict(started)
        for sequence in filter(self._concerns, entries):
            item = self._before.get(sequence)
            has_it = item is not None and item.seat == self._operation.seat
            if kind is Kind.START and sequence in deliveries:
                yield self._event("start", sequence, deliveries[sequence])
            elif kind is Kind.BACK and has_it:
                yield self._event("back", sequence)
            else:
                yield self._event("refuse", sequence, None, f"{_word(kind)}: the member does not have it")

    def _again(self, entries: Iterable[Again]) -> Iterator[Event]:
        for entry in entries:
            if not self._concerns(entry.sequence):
                continue
            item = self._before.get(entry.sequence)
            if item is not None and item.state is ItemState.DELAYED:
                yield self._event("again", entry.sequence, None, "it was delayed")
            elif item is None and self._state.find(entry.sequence) is not None:
                yield self._event("again", entry.sequence, None, "it was done, or a dead letter")
            else:
                yield self._event("refuse", entry.sequence, None, "again: it is not delayed, or not known")

    def _of_leaving_members(self, kind: Kind) -> Iterator[Event]:
        for seat, held in self._lost.items():
            if self._only is None:
                yield self._event(_word(kind), seat=seat)
            for sequence in filter(self._concerns, held):
                item = self._before.get(sequence)
                is_started = item is not None and item.state is ItemState.STARTED
                delivery = item.delivery if item is not None and is_started else None
                yield self._event("return", sequence, delivery, f"its member {_ENDS[kind]}", seat)

    def _of_messages(self, kind: Kind, entries: Any) -> Iterator[Event]:
        """Of ranges of messages: the event is about the first one, or about the only one that counts."""
        if kind is Kind.RESET:
            detail = "earlier items stay" if entries.keeps else "earlier items are done"
            if self._only is None or self._only >= entries.to or not entries.keeps:
                yield self._event("reset", entries.to, None, detail)
            return
        ranges = entries
        if kind is Kind.WINDOW:
            end = entries.first + entries.message_count
            ranges = [(self._known_end, end)] if entries.first <= self._known_end < end else []
        for first, end in ranges:
            if self._only is None or first <= self._only < end:
                detail = f"{end - first} message{'' if end - first == 1 else 's'} from {first} on"
                yield self._event(_word(kind), first if self._only is None else self._only, None, detail)

    def _of_the_group(self, kind: Kind, entries: Any) -> Event:
        match kind:
            case Kind.SETTINGS:
                is_in_vain = self._was_created and Setting.START in entries
                detail = "no effect: the group exists" if is_in_vain else _settings_text(entries)
                return self._event("set" if self._was_created else "create", detail=detail)
            case Kind.CLOCK:
                return self._event(_word(kind), detail=f"boot id {entries.boot.hex()}")
            case Kind.JOIN:
                lease = f"lease {_seconds(entries.lease_ns)}" if entries.lease_ns else ""
                return self._event(_word(kind), detail=", ".join(part for part in (entries.hint, lease) if part))
            case Kind.CHECKPOINT:
                return self._event(_word(kind), detail=f"{len(entries)} bytes")
        return self._event(_word(kind))

    def _dying(self, counters: Counters) -> Iterator[Event]:
        """Items that began to die, and messages that expired before a member had them."""
        count = 0
        for sequence, item in sorted(self._before.items()):
            after = self._state.find(sequence)
            if after is not None and after.letter and not item.letter:
                count += after.reason == "expired"
                yield self._event("dying", sequence, None, after.reason)
        expired = counters.expired - self._counters.expired - count
        if expired and self._only is None:
            yield self._event("expire", detail=f"{expired} message{'' if expired == 1 else 's'}")
        after = None if self._only is None or self._only in self._before else self._state.find(self._only)
        if after is not None and after.letter:
            yield self._event("dying", after.sequence, None, after.reason)


_ENDS = {Kind.LEAVE: "left", Kind.DEATH: "died"}


def _word(kind: Kind) -> str:
    return _WORDS.get(kind) or kind.name.lower()


def _seconds(time_ns: int) -> str:
    return f"{max(time_ns, 0) / _SECOND:.3f} s"


def _settings_text(values: dict[int, int]) -> str:
    known = {int(each): each.name.lower() for each in Setting}
    return ", ".join(f"{known.get(number, number)} {value}" for number, value in values.items())


def _sequences(operation: Operation) -> Iterator[int]:
    """Yield the sequence of each item that a section names."""
    for kind, entries in operation.sections:
        if kind in _OF_DELIVERIES_AND_BACK:
            yield from (entry[0] for entry in entries)
        elif kind is Kind.START:
            yield from entries
        elif kind is Kind.AGAIN:
            yield from (entry.sequence for entry in entries)
