"""The checker of a journal finds all damage, and reports nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from binlog.format.journal.block import HEAD_BYTES
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.names import JournalNames
from binlog.format.journal.record import JournalRecord, Kind, pack_record
from binlog.journal.inspection.inspection import check_journal, inspect_journal
from binlog.journal.loading.record_states import RecordState
from binlog.journal.options import Sync
from tests.support.journals import LAYOUTS, SMALL, files, flip, header_for, journal, records_in, reload, write_file

_SALTED = header_for(JournalLayout.NATIVE, 1)
_ADD = JournalRecord(Kind.ADD, 0, 1, 7, b"body")


def rules(path: Path) -> list[str]:
    return [problem.rule for problem in check_journal(path)]


def fill(path: Path, layout: JournalLayout, alignment: int = 1) -> None:
    """Fill a few files with records of each kind; the first files are freed or reused."""
    with journal(path, replace(SMALL, layout=layout, alignment=alignment)) as (opened, _):
        for number in range(12):
            opened.append_add(number, 1, bytes(700), sync=Sync.LATER)
        for number in range(6):
            opened.append_delete(number, sync=Sync.LATER)
        opened.append_update(7, 2, b"more")
        for tx_id in (100, 101, 102, 103):
            opened.append_add_tx(tx_id, tx_id, 3, bytes(900))
            opened.append_update_tx(tx_id, 8, 3, bytes(900))
            opened.append_delete_tx(tx_id, 9)
        opened.prepare(100, b"extra")
        opened.commit(101)
        opened.rollback(102)
        opened.reclaim()


@pytest.mark.parametrize(("layout", "alignment"), [*((layout, 1) for layout in LAYOUTS), (JournalLayout.JBM, 512)])
def test_a_sound_journal_has_no_problems(tmp_path: Path, layout: JournalLayout, alignment: int) -> None:
    fill(tmp_path, layout, alignment)
    assert check_journal(tmp_path) == []
    reload(tmp_path)
    assert check_journal(tmp_path) == []


@pytest.mark.parametrize("before", [1, 4, 5, 20])
@pytest.mark.slow
def test_each_bit_of_a_head_at_the_end_of_a_sector_matters(tmp_path: Path, before: int) -> None:
    """Of the last record, which begins this many bytes before the end of a sector: a torn one would end there."""
    with journal(tmp_path) as (opened, _):
        opened.append_add(1, 1, bytes(512 - before - JournalLayout.NATIVE.header_bytes - 21))
        opened.append_add(2, 1, bytes(200))
    file = files(tmp_path)[0]
    at = records_in(file)[1][1]
    assert at == 512 - before
    for bit in range(8 * HEAD_BYTES):
        flip(file, at + bit // 8, 1 << bit % 8)
        assert rules(tmp_path) == ["tail"], bit
        flip(file, at + bit // 8, 1 << bit % 8)
    assert rules(tmp_path) == []


@pytest.mark.slow
def test_each_bit_of_each_record_and_header_matters(tmp_path: Path) -> None:
    """In the native layout, except for the last record of the journal: see below."""
    with journal(tmp_path) as (opened, _):
        for number in range(5):
            opened.append_add(number, 1, bytes(500))
        opened.append_add_tx(9, 9, 1, b"in a transaction")
        opened.commit(9)
    for file in files(tmp_path)[:2]:
        scanned = records_in(file)
        places = [*range(64), *(at for record in scanned for at in (*range(record[1], record[1] + 30), record[2] - 1))]
        last = scanned[-1] if file == files(tmp_path)[1] else (0, len(file.read_bytes()), 0)
        for at in places:
            if at < last[1]:
                flip(file, at, 1 << at % 8)
                assert check_journal(tmp_path), f"{file.name} {at}"
                flip(file, at, 1 << at % 8)
    assert check_journal(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("body_bytes", [4, 1300])
@pytest.mark.parametrize("again", [False, True], ids=["first use", "used again"])
def test_each_bit_of_the_last_record_matters_too(tmp_path: Path, body_bytes: int, again: bool) -> None:
    header = _SALTED._replace(file_id=2)
    records = [_ADD, JournalRecord(Kind.ADD_TX, 5, 2, 7, b"x" * body_bytes)]
    file = write_file(tmp_path, header, records)
    if again:
        file = file.rename(tmp_path / "journal-1.jnl")
        data = file.read_bytes()
        used = len(data.rstrip(b"\0")) + HEAD_BYTES
        file.write_bytes(data[:used].ljust(2048, b"\x0d"))
    (_, last) = records_in(file)
    assert rules(tmp_path) == []
    for at in range(last[1], last[2]):
        for bit in range(8):
            if at < last[1] + 40 or at > last[2] - 8 or at % 97 == bit:
                flip(file, at, 1 << bit)
                assert rules(tmp_path) == ["tail"], f"{at} {bit}"
                flip(file, at, 1 << bit)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("written", [512, 1024, 1536])
def test_an_unfinished_last_record_is_not_reported(tmp_path: Path, layout: JournalLayout, written: int) -> None:
    file = write_file(tmp_path, header_for(layout, 1), [_ADD, JournalRecord(Kind.ADD, 0, 2, 7, b"x" * 1600)])
    whole = file.read_bytes()
    assert rules(tmp_path) == []
    for before in (bytes(2048), b"\x0bold" * 512):
        file.write_bytes(whole[:written] + before[written:])
        assert rules(tmp_path) == []
        journal_ = inspect_journal(tmp_path, JournalNames())
        assert journal_.files[0].columns.record_count == 1


def write_journal(path: Path, *items: list[JournalRecord | bytes], first: int = 1) -> None:
    for number, records in enumerate(items, first):
        write_file(path, _SALTED._replace(file_id=number), records)


def commit(tx_id: int, *counts: tuple[int, int]) -> JournalRecord:
    return JournalRecord(Kind.COMMIT, tx_id, counts=counts)


_JOINED = JournalRecord(Kind.ADD_TX, 5, 1, 7, b"")


def with_gap(path: Path) -> None:
    write_journal(path, [_ADD, _ADD._replace(record_id=3), _ADD._replace(record_id=2)])
    flip(path / "journal-1.jnl", 88 + len(pack_record(_ADD, _SALTED, 88)) + HEAD_BYTES)


def with_incomplete(path: Path) -> None:
    write_journal(path, [_JOINED, commit(5, (1, 2))])


def with_incomplete_prepare(path: Path) -> None:
    write_journal(path, [_ADD], [JournalRecord(Kind.PREPARE, 5, counts=((1, 1),))])


def with_update(path: Path) -> None:
    write_journal(path, [_ADD, JournalRecord(Kind.UPDATE, 0, 2, 7, b"")])


def with_delete(path: Path) -> None:
    write_journal(path, [_ADD, JournalRecord(Kind.DELETE, 0, 2)])


def with_end(path: Path) -> None:
    write_journal(path, [_ADD], [_ADD._replace(record_id=2)])
    data = bytearray((path / "journal-1.jnl").read_bytes())
    data[64:88] = _SALTED.pack_end(500, 2)
    (path / "journal-1.jnl").write_bytes(data)


def with_cut_file(path: Path) -> None:
    write_journal(path, [_ADD])
    (path / "journal-1.jnl").write_bytes((path / "journal-1.jnl").read_bytes()[:1000])


def with_overwritten(path: Path) -> None:
    """The first byte of the only record is damaged: only its offset shows that there was one."""
    write_journal(path, [_ADD])
    flip(path / "journal-1.jnl", 88, 0x80)


_DAMAGES: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "gap": (with_gap, ["gap"]),
    "incomplete": (with_incomplete, ["transaction"]),
    "incomplete in a prepare": (with_incomplete_prepare, ["transaction"]),
    "update": (with_update, ["update"]),
    "delete": (with_delete, ["delete"]),
    "end": (with_end, ["end"]),
    "cut file": (with_cut_file, ["file_bytes"]),
    "overwritten": (with_overwritten, ["tail"]),
}


@pytest.mark.parametrize("name", _DAMAGES)
def test_each_kind_of_damage_is_reported(tmp_path: Path, name: str) -> None:
    damage, expected = _DAMAGES[name]
    damage(tmp_path)
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}
    assert rules(tmp_path) == expected
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before


def test_a_delete_that_a_removed_file_explains_is_not_reported(tmp_path: Path) -> None:
    deletes = [JournalRecord(Kind.DELETE, 0, record_id) for record_id in (2, 3)]
    update = JournalRecord(Kind.UPDATE, 0, 2, 7, b"")
    write_journal(tmp_path, [_ADD, update, *deletes, commit(7, (1, 3)), JournalRecord(Kind.ROLLBACK, 8)], first=2)
    assert rules(tmp_path) == []
    write_file(tmp_path, _SALTED, [])
    assert rules(tmp_path) == ["delete", "transaction"]  # the file exists, and lacks the records


def test_a_delete_that_a_reused_file_explains_is_not_reported(tmp_path: Path) -> None:
    """A compaction keeps deletes for records of its other files; later, all files after it are freed."""
    with_delete(tmp_path)
    assert rules(tmp_path) == ["delete"]
    write_file(tmp_path, _SALTED._replace(file_id=3), [])
    assert rules(tmp_path) == []


def test_a_transaction_in_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    write_journal(tmp_path, [_JOINED], [_JOINED._replace(record_id=2), commit(5, (1, 1), (2, 1))])
    assert rules(tmp_path) == []
    flip(tmp_path / "journal-1.jnl", 30)
    assert rules(tmp_path) == ["header_crc", "transaction"]
    found = inspect_journal(tmp_path, JournalNames())
    assert set(found.states.states[0]) == {RecordState.FAILED}


@pytest.mark.parametrize("begins", [64, 512, 530])
def test_alignment_gaps_in_a_reused_file_of_jboss_messaging_are_no_damage(tmp_path: Path, begins: int) -> None:
    """With asynchronous files, JBoss Messaging skips to the next block of 512 bytes, and leaves old bytes before it."""
    header, earlier = FileHeader(JournalLayout.JBM, 9), FileHeader(JournalLayout.JBM, 3)
    old = pack_record(JournalRecord(Kind.ADD, 0, 5, 1, bytes(40)), earlier, 0)
    write_file(tmp_path, FileHeader(JournalLayout.JBM, 8), [JournalRecord(Kind.ADD, 0, 1, 1, b"before")])
    first = pack_record(JournalRecord(Kind.ADD, 0, 2, 1, bytes(begins - 26)), header, 4)
    hole = (old[-17:] + old * 20)[: -(4 + len(first)) % 512]
    file = write_file(tmp_path, header, [first, hole, JournalRecord(Kind.ADD, 0, 3, 1, b"at the next block")])
    assert check_journal(tmp_path) == []
    loaded = reload(tmp_path, replace(SMALL, layout=JournalLayout.JBM))
    assert ([record.record_id for record in loaded.records], loaded.problems) == ([1, 2, 3], [])
    for at, mask in ((4, 0x40), (4 + len(first) - 1, 1), (8, 1)):  # the kind, the check, the id of the file
        flip(file, at, mask)
        assert rules(tmp_path) == ["gap"]
        flip(file, at, mask)
