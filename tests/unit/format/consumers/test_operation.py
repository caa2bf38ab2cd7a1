"""The operations of a group's log: every one survives packing, and no other bytes pass for one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog.format.consumers.group_layouts import REASON_BYTES_MAX
from binlog.format.consumers.operation import (
    NO_SEAT,
    SEATS_MAX,
    Again,
    Clock,
    Delivery,
    Extension,
    Failure,
    Join,
    Kind,
    MessageFacts,
    Operation,
    Reset,
    Window,
    group_seed,
    pack_operation,
    parse_operation,
)

_SEED = group_seed(b"0123456789abcdef")
_u16, _u32, _u64 = (st.integers(0, (1 << bits) - 1) for bits in (16, 32, 64))
_facts = st.builds(MessageFacts, _u64, _u64, _u64)
_reasons = st.text(max_size=REASON_BYTES_MAX // 4)


@st.composite
def _windows(draw: st.DrawFn) -> Window:
    facts = tuple(draw(st.lists(_facts, max_size=3)))
    count = len(facts) or draw(_u32)
    return Window(draw(_u64), count, (draw(_u32), draw(_u64)), draw(_u32), facts)


_entries: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.SETTINGS: st.dictionaries(_u16, _u64, max_size=3),
    Kind.CLOCK: st.builds(Clock, st.binary(min_size=16, max_size=16), st.integers(-(1 << 63), (1 << 63) - 1)),
    Kind.JOIN: st.builds(Join, _u64, st.text(max_size=20)),
    Kind.RESET: st.builds(Reset, _u64, st.booleans()),
    **dict.fromkeys((Kind.LEAVE, Kind.PAUSE, Kind.RESUME, Kind.DELETED), st.none()),
    Kind.DEATH: st.lists(st.tuples(_u16, _u32), max_size=3),
    **dict.fromkeys((Kind.DONE, Kind.BACK), st.lists(st.builds(Delivery, _u64, _u32), max_size=3)),
    Kind.START: st.lists(_u64, max_size=3),
    **dict.fromkeys((Kind.RETRY, Kind.REJECT), st.lists(st.builds(Failure, _u64, _u32, _u64, _reasons), max_size=3)),
    Kind.EXTEND: st.lists(st.builds(Extension, _u64, _u32, _u64), max_size=3),
    Kind.WINDOW: _windows(),
    Kind.AGAIN: st.lists(st.builds(Again, _u64, _u32, _u64), max_size=3),
    Kind.GONE: st.lists(st.tuples(_u64, _u64), max_size=3),
    Kind.CHECKPOINT: st.binary(max_size=20),
}
_sections = st.one_of([st.tuples(st.just(kind), entries) for kind, entries in _entries.items()])


@st.composite
def _operations(draw: st.DrawFn) -> Operation:
    sections = draw(st.lists(_sections, max_size=4))
    # A checkpoint goes to the end of the record.
    sections.sort(key=lambda section: section[0] is Kind.CHECKPOINT)
    while [kind for kind, _ in sections].count(Kind.CHECKPOINT) > 1:
        sections.pop()
    seats = st.integers(0, SEATS_MAX - 1) | st.just(NO_SEAT)
    head = [draw(each) for each in (seats, _u32, _u32, _u64, _u32, _u16, st.integers(0, 255))]
    return Operation(*head, sections)


def test_every_kind_is_tested() -> None:
    assert set(_entries) == set(Kind)


@given(_operations())
def test_an_operation_survives(operation: Operation) -> None:
    assert parse_operation(pack_operation(operation, _SEED), _SEED) == operation


@given(_operations(), st.data())
def test_other_bytes_are_no_operation(operation: Operation, data: st.DataObject) -> None:
    record = bytearray(pack_operation(operation, _SEED))
    assert parse_operation(bytes(record), group_seed(b"another group's")) is None
    bit = data.draw(st.integers(0, 8 * len(record) - 1))
    record[bit // 8] ^= 1 << bit % 8
    assert parse_operation(bytes(record), _SEED) is None
    assert parse_operation(bytes(record[: data.draw(st.integers(0, len(record) - 1))]), _SEED) is None


def test_a_long_reason_is_cut_between_characters() -> None:
    record = pack_operation(Operation(sections=[(Kind.RETRY, [Failure(1, 1, 0, "é" * 300)])]), _SEED)
    parsed = parse_operation(record, _SEED)
    assert parsed is not None
    assert parsed.sections[0][1][0].reason == "é" * (REASON_BYTES_MAX // 2)


def test_too_many_entries_are_refused() -> None:
    with pytest.raises(ValueError, match="at most"):
        pack_operation(Operation(sections=[(Kind.START, list(range(70_000)))]), _SEED)
