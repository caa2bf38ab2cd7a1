"""Checkpoints: a state and its checkpoint behave alike, whatever the members did before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog.consumers.state.group_state import ItemState
from binlog.consumers.state.settings import OnExpiry, Order, Settings
from binlog.format.consumers.operation import NO_SEAT, Extension, Failure, Kind, MessageFacts, Reset, Window
from stress.group_model.plain_checkpoint import pack_state, parse_state
from stress.group_model.plain_state import PlainState
from tests.support.group_operations import GroupOperations

_SEATS = 3
_SECOND = 1_000_000_000

_steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["take", "take", "take", "start", "done", "done", "fail", "reject", "back", "produce", "produce", "kill",
             "leave", "wait", "extend", "gone", "pause", "resume", "reset", "again", "again"]
        ),
        st.integers(0, _SEATS - 1),
        st.integers(0, 5),
        st.integers(0, 3),
    ),
    max_size=60,
)  # fmt: skip
_settings = st.builds(
    Settings,
    order=st.sampled_from(Order),
    deliveries_max=st.integers(0, 3),
    outstanding_max=st.integers(1, 8),
    in_hand_max=st.integers(0, 4),
    on_expiry=st.sampled_from(OnExpiry),
    factor_percent=st.integers(100, 300),
    holds_ns=st.integers(0, 2),
)


def _step(group: GroupOperations, kind: str, seat: int, number: int, more: int) -> Any:
    state = group.state
    if kind in ("take", "start", "done", "fail", "reject", "back", "extend", "leave") and seat not in state.seats:
        group.join(seat, lease_ns=more * _SECOND)
    items = sorted(state.items)
    sequence = items[number % len(items)] if items else 0
    match kind:
        case "take":
            return group.assign(seat, number + 1)
        case "start":
            return group.start(seat, sequence)
        case "done" if items:
            return group.ack(seat, sequence)
        case "fail" if items:
            return group.fail(seat, sequence, after_ns=more * _SECOND)
        case "reject" if items:
            return group.apply(seat, (Kind.REJECT, [Failure(*group.last(sequence), 0, "no")])).refused
        case "back" if items:
            return group.apply(seat, (Kind.BACK, [group.last(sequence)]))
        case "extend" if items:
            deadline_ns = state.clock_ns + more * _SECOND
            return group.apply(seat, (Kind.EXTEND, [Extension(*group.last(sequence), deadline_ns)])).refused
        case "produce":
            facts = MessageFacts(number % 3, state.clock_ns + more * _SECOND if number == 5 else 0,
                                 state.clock_ns + 2 * _SECOND if more == 3 else 0)  # fmt: skip
            return group.apply(
                NO_SEAT, (Kind.WINDOW, Window(state.known_end, more + 1, (1, 9), 0, (facts,) * (more + 1)))
            )
        case "kill" if seat in state.seats:
            return group.kill(seat)
        case "leave":
            return group.apply(seat, (Kind.LEAVE, None))
        case "wait":
            group.now_ns += more * _SECOND
            return group.apply(NO_SEAT)
        case "gone":
            return group.apply(NO_SEAT, (Kind.GONE, [(state.floor, state.floor + more)])) if number == 0 else None
        case "again":
            other = sequence if more == 3 else number
            return group.again(other, delivery=more and more + 3, key_hash=number % 3)
        case "pause" | "resume":
            return group.apply(NO_SEAT, (Kind[kind.upper()], None))
        case "reset" if number == 0:
            return group.apply(NO_SEAT, (Kind.RESET, Reset(max(state.next - more, 0), bool(more & 1))))
    return None


def _check_invariants(state: PlainState) -> None:
    in_hand = [each for each in state.items.values() if each.state in (ItemState.HELD, ItemState.STARTED)]
    assert {each.sequence for each in in_hand} == {each for seat in state.seats.values() for each in seat.held}
    assert sum(len(seat.held) for seat in state.seats.values()) == state.in_hand == len(in_hand)
    assert all(each.sequence in state.seats[each.seat].held for each in in_hand)
    assert sum(bool(each.letter) for each in in_hand) <= 1
    assert all(each.seat == NO_SEAT for each in state.items.values() if each not in in_hand)
    assert state.next <= state.known_end
    if state.settings.order is not Order.NONE:
        keys = [each.key_hash for each in in_hand if each.key_hash]
        assert len(keys) == len(set(keys))
        free = [each for each in state.items.values() if each.state is ItemState.BLOCKED]
        heads = {each.key_hash for each in state.items.values() if each.state is not ItemState.BLOCKED}
        assert {each.key_hash for each in free} <= heads
    assert state.available >= 0


@given(_settings, _steps)
@pytest.mark.slow
def test_a_state_and_its_checkpoint_behave_alike(settings: Settings, steps: list[tuple[str, int, int, int]]) -> None:
    group = GroupOperations(settings)
    for step in steps:
        data = pack_state(group.state)
        copy = GroupOperations(settings, parse_state(data), group.now_ns)
        assert pack_state(copy.state) == data
        assert _step(copy, *step) == _step(group, *step)
        assert pack_state(copy.state) == pack_state(group.state)
        _check_invariants(group.state)


@given(st.binary(max_size=200))
def test_other_bytes_are_no_checkpoint(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of codecs, or our own
        parse_state(data)
