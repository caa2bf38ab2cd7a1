"""A transaction with a damaged record is all or nothing, in every load, whichever byte is damaged."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from binlog.errors import CorruptError, PoisonedError
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.record import JournalRecord, Kind
from binlog.journal.inspection.inspection import check_journal
from binlog.journal.journal import Journal
from binlog.journal.options import Sync
from binlog.journal.record import Loaded
from tests.support.failing import raising
from tests.support.journals import LAYOUTS, SMALL, files, flip, header_of, ids, journal, records_in, reload, write_file

_PARTS = {b"a"[0], b"b"[0]}
_BODY_STEP = 97  # step within bodies, whose bytes are all the same


@pytest.fixture
def tmp_path(in_memory: Path) -> Path:
    """Use a folder in memory: these tests inject failures at each call, and do not test the disk."""
    return in_memory


def _spread(opened: Journal) -> None:
    """Append transaction 50: one file has only its first record, and the next one its second record and the commit."""
    opened.append_add(1, 1, b"1" * 700)
    opened.append_add_tx(50, 10, 1, b"a" * 700)
    opened.append_add_tx(50, 11, 1, b"b" * 300)
    opened.commit(50)
    opened.append_add(2, 1, b"2" * 300)


def _parts(loaded: Loaded) -> set[int]:
    """Return which of the two records were loaded, even with one damaged byte."""
    bodies = [record.body for record in loaded.records if record.body]
    return {max(set(body), key=body.count) for body in bodies} & _PARTS


def _places(file: Path) -> list[int]:
    """Return the offset of each byte of the heads and checks of records, and some offsets in bodies."""
    found: list[int] = []
    for _, start, end, _, _, _, body, _ in records_in(file):
        tail = end - 4
        body_at = tail - len(body)
        found += range(start, body_at)
        found += range(body_at, tail, _BODY_STEP if len(body) > _BODY_STEP else 1)
        found += range(tail, end)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layout", "mask"),
    [
        (JournalLayout.JBM, 0x01),
        (JournalLayout.JBM, 0x02),
        (JournalLayout.JBM, 0xFF),
        (JournalLayout.NATIVE, 0x01),
    ],
)
def test_a_transaction_is_all_or_nothing_with_any_damaged_byte(
    tmp_path: Path, layout: JournalLayout, mask: int
) -> None:
    options = replace(SMALL, layout=layout, file_bytes=1024)
    with journal(tmp_path / "sound", options) as (opened, _):
        _spread(opened)
    used = [file for file in files(tmp_path / "sound") if records_in(file)]
    assert [len(records_in(file)) for file in used] == [1, 1, 3]
    lost = 0
    for number, file in enumerate(used[1:]):
        for at in _places(file):
            path = tmp_path / f"{number}-{at}"
            shutil.copytree(tmp_path / "sound", path)
            flip(path / file.name, at, mask)
            first, *later = [reload(path, options) for _ in range(3)]
            assert _parts(first) in (set(), _PARTS), (file.name, at)
            assert [each.records for each in later] == [first.records] * 2, (file.name, at)
            lost += not _parts(first)
            shutil.rmtree(path)
    assert lost > 60


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("end", [Kind.COMMIT, Kind.PREPARE])
def test_a_file_that_shows_missing_records_stays_and_is_quarantined_later(
    tmp_path: Path, layout: JournalLayout, end: Kind
) -> None:
    """Although it has no valid record any more."""
    options = replace(SMALL, layout=layout, file_bytes=1024)
    with journal(tmp_path, options) as (opened, _):
        _spread(opened)
        if end is Kind.PREPARE:
            opened.append_add_tx(51, 12, 1, b"c" * 700)
            opened.append_add(3, 1, b"3" * 700)
            opened.append_add_tx(51, 13, 1, b"d")
            opened.prepare(51)
    tx_id = 51 if end is Kind.PREPARE else 50
    (incomplete,) = [
        file for file in files(tmp_path) for each in records_in(file) if each[3] == tx_id and len(each[6]) == 700
    ]
    flip(incomplete, records_in(incomplete)[0][1], 0x40)
    damaged, file_id = incomplete.read_bytes(), header_of(incomplete).file_id
    with journal(tmp_path, options) as (opened, loaded):
        live = ids(loaded)
        assert [each.tx_id for each in loaded.failed] == [tx_id]
        assert incomplete.read_bytes() == damaged
        assert any(incomplete.name in (kept.name, *kept.must_outlive) for kept in opened.file_pins())
        for record_id in live:
            opened.append_delete(record_id)
        for number in range(100, 110):
            opened.append_add(number, 1, bytes(700))
        for _ in range(3):
            opened.reclaim()
        assert not incomplete.exists() or header_of(incomplete).file_id != file_id
    assert ids(reload(tmp_path, options)) == list(range(100, 110))
    assert damaged in [file.read_bytes() for file in (tmp_path / "quarantine").iterdir()]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("left", [0, 3])
@pytest.mark.parametrize("end", [Journal.commit, Journal.prepare])
def test_a_file_without_a_header_does_not_leave_a_part_of_a_transaction(
    tmp_path: Path, layout: JournalLayout, left: int, end: Callable[[Journal, int], None]
) -> None:
    """Nothing shows that the file was not reused, so the rest of the transaction must not count as all of it."""
    options = replace(SMALL, layout=layout, file_bytes=1024)
    with journal(tmp_path, options) as (opened, _):
        opened.append_add_tx(50, 10, 1, b"a" * 700)
        opened.append_add_tx(50, 11, 1, b"b" * 600)
        end(opened, 50)
    (cut,) = [file for file in files(tmp_path) for each in records_in(file) if each[4] == 10]
    whole = cut.read_bytes()
    cut.write_bytes(whole[:left])
    (tmp_path / "journal-10.jnl").write_bytes(b"")  # a file without any use, to which no record can refer
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    for _ in range(2):
        with pytest.raises(CorruptError, match="the transaction 50") as caught:
            reload(tmp_path, options)
        assert (caught.value.path, caught.value.rule) == (str(cut), "short")
        assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before
    cut.write_bytes(whole)
    loaded = reload(tmp_path, options)
    assert ids(loaded) == ([10, 11] if end is Journal.commit else [])
    assert [each.tx_id for each in loaded.prepared] == ([] if end is Journal.commit else [50])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_later_file_without_a_header_does_not_affect_a_transaction(tmp_path: Path, layout: JournalLayout) -> None:
    """The first use of the file was later than the transaction, whose other records were in a reused file."""
    options = replace(SMALL, layout=layout, file_bytes=1024)
    with journal(tmp_path, options) as (opened, _):
        opened.append_add_tx(50, 10, 1, b"a" * 700)
        opened.append_add_tx(50, 11, 1, b"b" * 600)
        opened.commit(50)
        opened.append_delete(10)
        opened.reclaim()
    assert 1 not in [header_of(file).file_id for file in files(tmp_path)]
    (tmp_path / "journal-99.jnl").write_bytes(b"")
    loaded = reload(tmp_path, options)
    assert (ids(loaded), [problem.rule for problem in loaded.problems]) == ([11], ["short"])


def _mostly_dead(opened: Journal) -> None:
    for number in range(100, 160):
        opened.append_add(number, 1, bytes(300), sync=Sync.LATER)
        opened.append_delete(number, sync=Sync.LATER)
    opened.append_add(200, 1, b"last")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_compaction_skips_files_that_show_missing_records(tmp_path: Path, layout: JournalLayout) -> None:
    options = replace(SMALL, layout=layout, file_bytes=1024)
    with journal(tmp_path, options) as (opened, _):
        opened.append_add(1, 1, b"1")
        opened.append_add(9, 1, b"9" * 700)
        opened.append_add(4, 1, b"4" * 300)
        opened.append_add(3, 1, b"beside")
        opened.append_add_tx(50, 10, 1, b"a" * 300)  # the last record of its file; no scan continues after it
        opened.append_add_tx(50, 11, 1, b"b" * 400)
        opened.commit(50)
        opened.prepare(60)  # so that the file is not compacted
        opened.append_add(2, 1, b"2" * 300)
        opened.append_delete(9)
    ((incomplete, at),) = [(file, each[1]) for file in files(tmp_path) for each in records_in(file) if each[4] == 10]
    flip(incomplete, at, 0x40)
    for number in range(3):
        with journal(tmp_path, options) as (opened, loaded):
            assert set(ids(loaded)) == {1, 2, 3, 4} | ({200} if number else set())
            _mostly_dead(opened) if not number else None
            opened.compact()
    assert _parts(reload(tmp_path, options)) == set()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_load_that_ends_before_the_rollback_does_not_commit_a_prepared_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: JournalLayout
) -> None:
    options = replace(SMALL, layout=layout, file_bytes=1024)
    with journal(tmp_path, options) as (opened, _):
        opened.append_add_tx(50, 10, 1, b"a" * 700)
        opened.append_add_tx(50, 11, 1, b"b" * 600)
        opened.prepare(50)
    (incomplete,) = [file for file in files(tmp_path) for each in records_in(file) if each[4] == 10]
    flip(incomplete, records_in(incomplete)[0][1], 0x40)

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "_roll_back", raising(PoisonedError("the process ends here")))
        with pytest.raises(PoisonedError):
            reload(tmp_path, options)
    loaded = reload(tmp_path, options)
    assert (loaded.records, loaded.prepared) == ([], [])
    assert [each.tx_id for each in loaded.failed] == [50]


def _two_files(counts: tuple[tuple[int, int], ...]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        first, second = (FileHeader(JournalLayout.JBM, number) for number in (2, 3))
        write_file(path, first, [JournalRecord(Kind.ADD_TX, 5, 10, 1, b"a")])
        records = [JournalRecord(Kind.ADD_TX, 5, 11, 1, b"b"), JournalRecord(Kind.COMMIT, 5, counts=counts)]
        write_file(path, second, records)

    return write


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param(((0, 1), (3, 1)), id="a file before those that are left out"),
        pytest.param(((9, 1), (3, 1)), id="a file that came later"),
        pytest.param(((3, 1), (3, 1)), id="a file twice"),
        pytest.param(((2, 0), (3, 1)), id="none of a file"),
        pytest.param(((2, 1), (2, 1)), id="not the file of the commit"),
    ],
)
def test_a_commit_with_impossible_counts_is_damaged(tmp_path: Path, counts: tuple[tuple[int, int], ...]) -> None:
    path = tmp_path / "journal"
    _two_files(counts)(path)
    reported = {problem.rule: problem.text for problem in check_journal(path)}
    for number in range(3):
        loaded = reload(path, replace(SMALL, layout=JournalLayout.JBM))
        assert loaded.records == []
        assert [each.tx_id for each in loaded.failed] == ([] if number else [5])
        if number == 0:  # later, its files may be gone
            texts = [problem.text for problem in loaded.problems if problem.rule == "transaction"]
            assert texts == [reported["transaction"]]
