"""The states of records, against the plain replay."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog._codec import journal_states
from binlog.format.journal.compiled import ColumnScan, scan_file
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.record import JournalRecord, Kind
from binlog.journal.inspection.inspection import check_journal
from binlog.journal.loading.record_states import RecordState, RecordStates, StatesInput, Symptom, record_states
from binlog.journal.options import FILE_BYTES_MIN
from binlog.journal.record import Deleted, Record, TransactionContent
from tests.support.examples import examples
from tests.support.journals import files, header_for, header_of, reload, write_file
from tests.support.plain_journal import PlainReplay, Row, rows_of

_FILES = 3
_RULES = {
    Symptom.UPDATE_WITHOUT_RECORD: "update",
    Symptom.DELETE_WITHOUT_RECORD: "delete",
    Symptom.INCOMPLETE_TRANSACTION: "transaction",
}


@dataclass
class Both:
    """Some files with columns, states and the plain replay.  The body of a record is its number."""

    headers: list[FileHeader]
    columns: list[ColumnScan]
    states: RecordStates
    plain: PlainReplay

    def __post_init__(self) -> None:
        ids = [header.file_id for header in self.headers]
        self.locations = {(ids[place], each.offset_of(index)): (place, index) for place, each in enumerate(self.columns)
                       for index in range(each.record_count)}  # fmt: skip

    def place(self, row: Row) -> tuple[int, int]:
        return self.locations[row["file_id"], row["offset"]]


def write_files(path: Path, layout: JournalLayout, items: list[list[JournalRecord]]) -> None:
    for file_id, records in enumerate(items, 1):
        write_file(path, header_for(layout, file_id), records, FILE_BYTES_MIN)


def both(path: Path, layout: JournalLayout, items: list[list[JournalRecord]]) -> Both:
    write_files(path, layout, items)
    plain = PlainReplay()
    given, headers = [], []
    for file in files(path):
        header = header_of(file, layout)
        plain.files.add(header.file_id)
        for record, row in rows_of(file, header):
            plain.replay(record, row)
        given.append(StatesInput(header.record_id, scan_file(file.read_bytes(), header, Record), header.file_id))
        headers.append(header)
    return Both(headers, [each.columns for each in given], record_states(given), plain)


@st.composite
def journals(draw: st.DrawFn) -> list[list[JournalRecord]]:
    """Draw records of a few ids in a few transactions; most counts of commits are right."""
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
            reported: tuple[tuple[int, int], ...] = ()
            if kind in (Kind.PREPARE, Kind.COMMIT):
                reported = tuple({**counts, **draw(_WRONG)}.items()) + draw(_TWICE)
            if kind in (Kind.COMMIT, Kind.ROLLBACK):
                true.pop(tx_id)
            body = b"%d" % next(numbers) if kind not in (Kind.DELETE, Kind.COMMIT, Kind.ROLLBACK) else b""
            plain = kind in (Kind.ADD, Kind.UPDATE, Kind.DELETE)
            records.append(JournalRecord(kind, 0 if plain else tx_id, record_id, 7, body, reported))
        items.append(records)
    return items


_WRONG = st.just({}) | st.dictionaries(st.integers(1, _FILES + 2), st.integers(-1, 4), max_size=2)
_TWICE = st.just(()) | st.just(()) | st.tuples(st.tuples(st.integers(1, _FILES), st.integers(1, 2)))
_LAYOUTS = st.sampled_from([JournalLayout.NATIVE, JournalLayout.JBM])


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(200))
@given(_LAYOUTS, journals())
def test_states_equal_those_of_the_plain_replay(layout: JournalLayout, items: list[list[JournalRecord]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = both(Path(folder), layout, items)
    states, plain = found.states, found.plain
    for row in plain.rows:
        place, index = found.place(row)
        assert RecordState(states.states[place][index]).name.lower() == row["state"], row
    assert sum(map(len, states.states)) == len(plain.rows)
    live = [row for row in plain.order if row["state"] in ("live", "updated")]
    for place in range(_FILES):
        sizes = [row["record_bytes"] for row in live if row["file_id"] == place + 1]
        assert (states.live_count(place), states.live_bytes[place]) == (len(sizes), sum(sizes))
        assert states.is_incomplete[place] == (place + 1 in plain.incomplete)
    numbers = memoryview(states.order).cast("I")
    order = [found.place(row) for row in plain.order if row["state"] != "deleted"]
    assert list(zip(numbers[::2], numbers[1::2], strict=True)) == order
    assert {(one + 1, other + 1) for one, other in states.must_outlive} == plain.must_outlive
    assert sorted({(_RULES[each.symptom], each.file, each.index) for each in states.missing_records}) == sorted(
        {(rule, *found.place(row)) for rule, row in plain.symptoms}
    )
    transactions = {
        (each.tx_id, each.has_commit): [place[:2] for place in each.content] for each in states.transactions
    }
    assert transactions == {
        **{(tx_id, False): list(map(found.place, rows)) for tx_id, rows in plain.open.items()},
        **{(tx_id, True): list(map(found.place, rows)) for tx_id, rows in plain.failed.items()},
    }
    assert states.id_max == max((max(row["id"] or 0, row["transaction"] or 0) for row in plain.rows), default=0)
    assert [record.body for record in states.records] == [row["data"] for row in live]
    places: dict[int, list[int]] = {}
    for row in live:
        places.setdefault(row["id"], []).append(row["file_id"] << 32 | row["record_bytes"])
    assert states.locations == {each: found[0] if len(found) == 1 else found for each, found in places.items()}


@pytest.mark.slow
@settings(deadline=None)
@given(_LAYOUTS, journals())
def test_a_load_and_a_check_agree_with_the_plain_replay(
    layout: JournalLayout, items: list[list[JournalRecord]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        plain = both(path, layout, items).plain
        problems = [problem for problem in check_journal(path) if problem.rule in ("update", "transaction")]
        loaded = reload(path)
        again = reload(path)
    live = [row for row in plain.order if row["state"] in ("live", "updated")]
    assert loaded.records == list(map(_record, live))
    assert sorted(loaded.prepared) == sorted(
        _content(tx_id, rows) for tx_id, rows in plain.open.items() if rows[-1]["state"] == "prepared"
    )
    left = [(tx_id, rows) for tx_id, rows in plain.open.items() if rows[-1]["state"] != "prepared"]
    assert sorted(loaded.failed) == sorted(_content(*each) for each in (*left, *plain.failed.items()))
    missing = {
        (rule, row["file"], row["offset"]) for rule, row in plain.symptoms if rule == "transaction" or row in live
    }
    assert {(each.rule, Path(each.path).name, each.offset) for each in problems} == missing - {
        each for each in missing if each[0] == "delete"
    }
    assert [each for each in loaded.problems if each.rule in ("update", "transaction")] == problems
    # If an id is reused after its transaction failed, one rollback ends only the later one; the next load ends the
    # other.
    is_used_again = plain.failed.keys() & plain.open.keys() or any(
        sum(row["kind"] == "commit" for row in rows) > 1 for rows in plain.failed.values()
    )
    if not is_used_again:
        assert (again.records, sorted(again.prepared), again.failed) == (loaded.records, sorted(loaded.prepared), [])


def _record(row: Row) -> Record:
    return Record(row["id"], row["user_type"], row["data"], row["kind"].startswith("update"))


def _content(tx_id: int, rows: list[Row]) -> TransactionContent:
    extra = [row["data"] for row in rows if row["kind"] == "prepare"]
    records = [_record(row) for row in rows if row["kind"] in ("add_tx", "update_tx")]
    deletes = [Deleted(row["id"], row["data"]) for row in rows if row["kind"] == "delete_tx"]
    return TransactionContent(tx_id, extra[-1] if extra else b"", records, deletes)


def states_of(path: Path, *records: JournalRecord) -> list[RecordState]:
    found = both(path, JournalLayout.NATIVE, [list(records)])
    return [RecordState(state) for state in found.states.states[0]]


def test_each_state(tmp_path: Path) -> None:
    add, update, delete = (JournalRecord(kind, 0, 1, 7, b"") for kind in (Kind.ADD, Kind.UPDATE, Kind.DELETE))
    s = RecordState

    def check(records: list[JournalRecord], expected: list[RecordState]) -> None:
        assert states_of(tmp_path, *records) == expected

    check([add], [s.LIVE])
    check([add, update], [s.UPDATED, s.LIVE])
    check([add, update, update], [s.UPDATED, s.UPDATED, s.LIVE])
    check([add, update, delete, add], [s.DELETED, s.DELETED, s.DONE, s.LIVE])
    check([delete, update], [s.VOID, s.LIVE])
    joined = [JournalRecord(kind, 5, 1, 7, b"") for kind in (Kind.ADD_TX, Kind.UPDATE_TX, Kind.DELETE_TX)]
    check(joined, [s.OPEN] * 3)
    prepare, commit = (JournalRecord(kind, 5, counts=((1, 3),)) for kind in (Kind.PREPARE, Kind.COMMIT))
    rollback = JournalRecord(Kind.ROLLBACK, 5)
    check([*joined, prepare], [s.PREPARED] * 4)
    check([*joined, prepare, commit], [s.DELETED, s.DELETED, s.DONE, s.DONE, s.DONE])
    check([*joined, commit, commit], [s.DELETED, s.DELETED, s.DONE, s.DONE, s.FAILED])
    check([*joined, prepare, rollback], [s.ROLLED_BACK] * 4 + [s.DONE])
    check([*joined, prepare, prepare], [s.PREPARED] * 3 + [s.VOID, s.PREPARED])
    check([*joined, prepare, prepare, prepare, commit], [s.DELETED, s.DELETED, s.DONE, s.VOID, s.VOID, s.DONE, s.DONE])
    check([*joined[:2], prepare], [s.FAILED] * 3)
    check([*joined[:2], commit], [s.FAILED] * 3)
    check([joined[1], JournalRecord(Kind.COMMIT, 5, counts=((1, 1),))], [s.VOID, s.DONE])
    check(
        [joined[0], joined[0], JournalRecord(Kind.COMMIT, 5, counts=((1, 1),))],
        [s.ROLLED_BACK, s.LIVE, s.DONE],
    )


def test_the_object_of_a_dead_record_is_released_at_once() -> None:
    def columns(*ids: int) -> tuple[Any, ...]:
        kinds = bytes(Kind.ADD if each > 0 else Kind.DELETE for each in ids)
        numbers = b"".join(abs(each).to_bytes(8, "little") for each in ids)
        return (1, kinds, bytes(8 * len(ids)), numbers, numbers, [])

    objects: list[Any] = [(1,), (2,), None]

    def given() -> Any:
        yield columns(1, 2, -1), 1, objects
        assert objects == [None, (2,), None]
        yield columns(-2), 2, [None]
        assert objects == [None, None, None]

    assert journal_states(given(), (), ())[-2:] == ([], {})


def test_an_exception_of_the_file_iterator_is_raised() -> None:
    def given() -> Any:
        yield (1, b"\x0b", bytes(8), bytes(8), bytes(8), []), -1, None
        raise OSError("no such file")

    with pytest.raises(OSError, match="no such file"):
        journal_states(given(), (), ())


def test_a_commit_may_count_records_in_a_file_without_a_header(tmp_path: Path) -> None:
    records = [JournalRecord(Kind.ADD_TX, 5, 1, 7, b""), JournalRecord(Kind.COMMIT, 5, counts=((3, 2), (4, 1)))]
    file = write_file(tmp_path, header_for(JournalLayout.NATIVE, 4), records)
    columns = scan_file(file.read_bytes(), header_of(file))
    for unknown, doubt in [((), None), ((5,), None), ((9, 3), (1, 0, 1)), ((2**32 - 1,), (0, 0, 1))]:
        assert record_states([StatesInput(4, columns)], headerless_ids=unknown).suspect_commit == doubt
    alone = columns._replace(
        **{name: getattr(columns, name)[-len(getattr(columns, name)) // 2 :]
           for name in ("kind", "tx_id", "record_id", "record_bytes")}
    )  # fmt: skip
    assert record_states([StatesInput(4, alone)], headerless_ids=(3,)).suspect_commit is None


def test_columns_of_different_lengths_are_refused() -> None:
    def refused(kind: bytes, sizes: tuple[int, int, int], counts: list[Any], objects: list[Any] | None = None) -> None:
        journal_states([((1, kind, *map(bytes, sizes), counts), -1, objects)], (), ())

    for kind, tx_id, record_id, size in [(1, 8, 8, 0), (1, 0, 8, 8), (2, 8, 8, 8)]:
        with pytest.raises(ValueError, match="differ in length"):
            refused(bytes(kind), (tx_id, record_id, size), [])
    with pytest.raises(ValueError, match="differ in length"):
        refused(b"\x0b", (8, 8, 8), [], [])
    with pytest.raises(IndexError):
        refused(b"\x12", (8, 8, 8), [])
    with pytest.raises(TypeError):
        refused(b"\x12", (8, 8, 8), ["text"])


_I64 = st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)
_HostileFile = tuple[int, bytes, bytes, bytes, bytes, list[bytes]]


@st.composite
def hostile_files(draw: st.DrawFn) -> list[_HostileFile]:
    """Draw arbitrary columns, with packed counts that may be for any file, of any number, and cut off anywhere."""
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
        file_id = draw(st.integers(0, 2**32 - 1) | st.integers(1, 3))
        files.append((file_id, bytes(kinds), columns[0], columns[1], columns[2], counts))
    return files


@pytest.mark.slow
@given(hostile_files(), st.lists(st.integers(0, 5), max_size=2), st.lists(st.integers(0, 5), max_size=2))
def test_each_record_of_arbitrary_columns_has_a_state(
    given_files: list[_HostileFile], lost: list[int], unknown: list[int]
) -> None:
    found, missing, order, must_outlive, *_ = journal_states(
        ((each, number, None) for number, each in enumerate(given_files)), tuple(lost), tuple(unknown)
    )
    assert [len(states) for states, _, _ in found] == [len(kind) for _, kind, *_ in given_files]
    assert set(b"".join(states for states, _, _ in found)) <= set(RecordState)
    for _, file, index, other, _ in missing:
        assert index < len(given_files[file][1])
        assert -len(lost) <= other < len(given_files)
    numbers = memoryview(order).cast("I")
    for file, index in zip(numbers[::2], numbers[1::2], strict=True):
        assert index < len(given_files[file][1])
    assert all(0 <= each < len(given_files) for pair in must_outlive for each in pair)
