"""What became of each record, by columns, against the replay that a load does."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog._codec import journal_states
from binlog.format.journal.compiled import scan_records
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.record import JournalRecord, Kind, pack_record
from binlog.journal.journal_file import JournalFile
from binlog.journal.ledger import Ledger
from binlog.journal.record import TransactionContent
from binlog.journal.record_states import Event, FileColumns, RecordState, RecordStates, file_columns, record_states
from binlog.journal.replay import Replay

_THERE = {RecordState.LIVE, RecordState.UPDATED}
_FILES = 3


@dataclass
class Both:
    """Files, what a replay makes of them, and their columns with the states.  A record's body is its own number."""

    replay: Replay
    columns: list[FileColumns]
    states: RecordStates
    bodies: list[list[bytes]]
    said: list[tuple[str, int, str]]

    def with_states(self, wanted: set[RecordState], kinds: set[int]) -> set[bytes]:
        return {
            body
            for bodies, columns, states in zip(self.bodies, self.columns, self.states.states, strict=True)
            for body, kind, state in zip(bodies, columns.kind, states, strict=True)
            if state in wanted and kind in kinds
        }


def both(layout: JournalLayout, items: list[list[JournalRecord]]) -> Both:
    headers = [
        FileHeader(layout, number + 1, b"saltsalt" if layout is JournalLayout.NATIVE else b"")
        for number in range(len(items))
    ]
    files = [JournalFile("", -1, f"{header.file_id}", header, 0) for header in headers]
    replay = Replay(Ledger(), files)
    columns, bodies = [], []
    for file, records in zip(files, items, strict=True):
        data = file.header.pack()
        for record in records:
            data += pack_record(record, file.header, len(data))
        scan = scan_records(data, file.header)
        replay.go_through(file, scan.records)
        bodies.append([each[6] for each in scan.records])
        columns.append(file_columns(data, file.header))
    said = [(problem.path, problem.offset, problem.rule) for problem in replay.problems()]
    return Both(replay, columns, record_states(columns), bodies, said)


@st.composite
def journals(draw: st.DrawFn) -> list[list[JournalRecord]]:
    """Records of a few ids, in a few transactions; commits say what is right, mostly."""
    numbers = iter(range(1000))
    true: dict[int, dict[int, int]] = {}
    items: list[list[JournalRecord]] = []
    for file in range(1, _FILES + 1):
        records: list[JournalRecord] = []
        for kind in draw(st.lists(st.sampled_from(list(Kind)), max_size=12)):
            tx_id, record_id = draw(st.integers(1, 3)), draw(st.integers(1, 4))
            counts = true.setdefault(tx_id, {})
            if kind in (Kind.ADD_TX, Kind.UPDATE_TX, Kind.DELETE_TX):
                counts[file] = counts.get(file, 0) + 1
            told: tuple[tuple[int, int], ...] = ()
            if kind in (Kind.PREPARE, Kind.COMMIT):
                told = tuple({**counts, **draw(_WRONG)}.items())
            if kind in (Kind.COMMIT, Kind.ROLLBACK):
                true.pop(tx_id)
            body = b"%d" % next(numbers) if kind not in (Kind.DELETE, Kind.COMMIT, Kind.ROLLBACK) else b""
            plain = kind in (Kind.ADD, Kind.UPDATE, Kind.DELETE)
            records.append(JournalRecord(kind, 0 if plain else tx_id, record_id, 7, body, told))
        items.append(records)
    return items


_WRONG = st.just({}) | st.dictionaries(st.integers(1, _FILES + 2), st.integers(-1, 4), max_size=2)
_BODIES_OF_TX = {Kind.ADD_TX, Kind.UPDATE_TX, Kind.DELETE_TX}


def bodies_of(contents: list[TransactionContent]) -> set[bytes]:
    return {item.body for content in contents for item in (*content.records, *content.deletes)}


@pytest.mark.slow
@given(st.sampled_from([JournalLayout.NATIVE, JournalLayout.JBM]), journals())
def test_the_states_are_what_a_load_makes_of_the_records(
    layout: JournalLayout, items: list[list[JournalRecord]]
) -> None:
    found = both(layout, items)
    replay = found.replay
    adds = {Kind.ADD, Kind.UPDATE, Kind.ADD_TX, Kind.UPDATE_TX}
    assert found.with_states(_THERE, adds) == {record.body for record in replay.records()}
    assert found.with_states(_THERE, set(Kind) - adds) == set()
    assert found.with_states({RecordState.PREPARED}, _BODIES_OF_TX) == bodies_of(replay.prepared())
    left = bodies_of(replay.left())
    assert found.with_states({RecordState.OPEN}, _BODIES_OF_TX) <= left
    assert left <= found.with_states({RecordState.OPEN, RecordState.FAILED}, _BODIES_OF_TX)
    assert bodies_of(list(replay.failed.values())) <= found.with_states({RecordState.FAILED}, _BODIES_OF_TX)
    assert list(map(live_bytes, found.columns, found.states.states)) == found.states.live_bytes
    assert odd_places(found) == sorted(set(found.said))


def live_bytes(columns: FileColumns, states: bytes) -> int:
    sizes = memoryview(columns.record_bytes).cast("q")
    return sum(size for size, state in zip(sizes, states, strict=True) if state in _THERE)


def odd_places(found: Both) -> list[tuple[str, int, str]]:
    """What is odd and stays so, as a replay tells it."""
    rules = {Event.UPDATE_OF_NONE: "update", Event.LACKING: "transaction"}
    return sorted(
        {
            (
                str(found.columns[odd.file].header.file_id),
                found.columns[odd.file].offset_of(odd.index),
                rules[odd.event],
            )
            for odd in found.states.odd
            if odd.event in rules and (odd.event is Event.LACKING or found.states.states[odd.file][odd.index] in _THERE)
        }
    )


def states_of(*records: JournalRecord) -> list[RecordState]:
    found = both(JournalLayout.NATIVE, [list(records)])
    return [RecordState(state) for state in found.states.states[0]]


def test_each_state() -> None:
    add, update, delete = (JournalRecord(kind, 0, 1, 7, b"") for kind in (Kind.ADD, Kind.UPDATE, Kind.DELETE))
    s = RecordState
    assert states_of(add) == [s.LIVE]
    assert states_of(add, update) == [s.UPDATED, s.LIVE]
    assert states_of(add, update, update) == [s.UPDATED, s.UPDATED, s.LIVE]
    assert states_of(add, update, delete, add) == [s.DELETED, s.DELETED, s.DONE, s.LIVE]
    assert states_of(delete, update) == [s.VOID, s.LIVE]
    joined = [JournalRecord(kind, 5, 1, 7, b"") for kind in (Kind.ADD_TX, Kind.UPDATE_TX, Kind.DELETE_TX)]
    assert states_of(*joined) == [s.OPEN] * 3
    prepare, commit = (JournalRecord(kind, 5, counts=((1, 3),)) for kind in (Kind.PREPARE, Kind.COMMIT))
    rollback = JournalRecord(Kind.ROLLBACK, 5)
    assert states_of(*joined, prepare) == [s.PREPARED] * 4
    assert states_of(*joined, prepare, commit) == [s.DELETED, s.DELETED, s.DONE, s.DONE, s.DONE]
    assert states_of(*joined, commit, commit) == [s.DELETED, s.DELETED, s.DONE, s.DONE, s.FAILED]
    assert states_of(*joined, prepare, rollback) == [s.ROLLED_BACK] * 4 + [s.DONE]
    assert states_of(*joined, prepare, prepare) == [s.PREPARED] * 3 + [s.VOID, s.PREPARED]
    assert states_of(*joined[:2], prepare) == [s.FAILED] * 3
    assert states_of(*joined[:2], commit) == [s.FAILED] * 3
    assert states_of(joined[1], JournalRecord(Kind.COMMIT, 5, counts=((1, 1),))) == [s.VOID, s.DONE]
    assert states_of(joined[0], joined[0], JournalRecord(Kind.COMMIT, 5, counts=((1, 1),))) == [
        s.ROLLED_BACK, s.LIVE, s.DONE
    ]  # fmt: skip


def test_a_transaction_with_records_in_a_file_that_cannot_be_read_fails() -> None:
    records = [JournalRecord(Kind.ADD_TX, 5, 1, 7, b""), JournalRecord(Kind.COMMIT, 5, counts=((0, 2), (1, 1)))]
    columns = both(JournalLayout.NATIVE, [records]).columns
    assert set(record_states(columns).states[0]) == {RecordState.LIVE, RecordState.DONE}
    assert set(record_states(columns, [0]).states[0]) == {RecordState.FAILED}


def test_columns_that_do_not_go_together_are_refused() -> None:
    for kind, tx_id, record_id, size in [(1, 8, 8, 0), (1, 0, 8, 8), (2, 8, 8, 8)]:
        with pytest.raises(ValueError, match="as long as one another"):
            journal_states(((1, bytes(kind), bytes(tx_id), bytes(record_id), bytes(size), []),))
    with pytest.raises(IndexError):
        journal_states(((1, b"\x12", bytes(8), bytes(8), bytes(8), []),))
    with pytest.raises(TypeError):
        journal_states(((1, b"\x12", bytes(8), bytes(8), bytes(8), ["text"]),))  # type: ignore[list-item]


_I64 = st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)


@st.composite
def hostile_files(draw: st.DrawFn) -> tuple[tuple[int, bytes, bytes, bytes, bytes, list[bytes]], ...]:
    """Columns of any numbers, where counts are of any files, of any number, and cut anywhere."""
    files = []
    for _ in range(draw(st.integers(0, 4))):
        kinds = draw(st.lists(st.integers(11, 19) | st.integers(0, 255), max_size=40))
        columns = [
            b"".join(
                number.to_bytes(8, "little", signed=True) for number in draw(st.lists(_I64, min_size=n, max_size=n))
            )
            for n in [len(kinds)] * 3
        ]
        counts = draw(st.lists(st.binary(max_size=20) | st.just(bytes.fromhex("0000000100000001")), min_size=40))
        files.append((draw(st.integers(0, 2**32 - 1) | st.integers(1, 3)), bytes(kinds), *columns, counts))
    return tuple(files)


@pytest.mark.slow
@given(hostile_files())
def test_whatever_the_columns_say_each_record_has_a_state(
    given_files: tuple[tuple[int, bytes, bytes, bytes, bytes, list[bytes]], ...],
) -> None:
    found, odd = journal_states(given_files)
    assert [len(states) for states, _ in found] == [len(kind) for _, kind, *_ in given_files]
    assert set(b"".join(states for states, _ in found)) <= set(RecordState)
    for _, file, index, other, _ in odd:
        assert index < len(given_files[file][1])
        assert other < len(given_files)
