"""Recognition of the layouts of JBoss Messaging and HornetQ by their records; ambiguous ones are refused unchanged."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from binlog.errors import CorruptError
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.record import JournalRecord, Kind
from binlog.journal.compaction.maintenance import MaintenanceThread
from binlog.journal.inspection.inspection import check_journal
from binlog.journal.inspection.record_reader import read_records
from binlog.journal.inspection.stat import stat_journal
from tests.support.journals import SMALL, files, ids, journal, reload, write_file

TX, ADDED = "0000000000000055", "0000000000000021"
# An ADD and an ADD_TX, which are the same in all layouts.
FOUR_BYTE_LAYOUTS = f"""
    0b 00000001 0000000000000011 00000001 07 41 00000017
    0d 00000001 {TX} {ADDED} 00000001 07 42 0000001f
"""
COMMIT = f"12 00000001 {TX} 00000001 00000001 00000001 0000001d"
# As HornetQ 2.0.0.BETA5 and that of July 2009 write them: one count.
HORNETQ = {
    "commit": f"12 00000001 {TX} 00000001 00000015",
    "prepare": f"11 00000001 {TX} 00000001 00000003 584944 0000001c",
}
# As JBoss Messaging wrote them before September 2008.
OLD = {
    "prepare": f"11 00000001 {TX} 00000001 00000001 00000001 0000001d",
    "empty prepare": "11 00000001 0000000000000056 00000000 00000015",
    "delete": "0f 00000001 0000000000000011 00000011",
    "delete in a transaction": f"10 00000001 {TX} 0000000000000011 00000019",
}
NEW = {
    "delete": "10 00000001 0000000000000011 00000011",
    "delete in a transaction": f"0f 00000001 {TX} 0000000000000011 00000001 58 0000001e",
}


def _made(path: Path, *records: str) -> Path:
    path.mkdir()
    data = bytes.fromhex("00000001" + "".join(records))
    (path / "journal-1.jnl").write_bytes(data.ljust(2048, b"J"))
    (path / "journal-2.jnl").write_bytes(bytes.fromhex("00000002").ljust(2048, b"J"))
    return path


def _hashed(path: Path) -> dict[str, str]:
    return {
        str(each.relative_to(path)): hashlib.sha256(each.read_bytes()).hexdigest()
        for each in path.rglob("*")
        if each.is_file() and each.name != "journal.lock"
    }


def _refused(path: Path, layout: JournalLayout | None, match: str) -> None:
    before = _hashed(path)
    with pytest.raises(CorruptError, match=match) as caught:
        reload(path, replace(SMALL, layout=layout))
    assert caught.value.rule == "layout"
    assert _hashed(path) == before


@pytest.mark.parametrize("record", HORNETQ.values(), ids=HORNETQ)
@pytest.mark.parametrize("layout", [None, JournalLayout.JBM, JournalLayout.JBM_2008_07])
def test_a_journal_of_hornetq_2_0_is_refused_by_name_and_unchanged(
    tmp_path: Path, layout: JournalLayout | None, record: str
) -> None:
    """Even if one of its records follows zeros up to the next block, and if other records follow."""
    for number, gap in enumerate(("", "00" * (512 - 58))):
        path = _made(tmp_path / str(number), FOUR_BYTE_LAYOUTS, gap, record, "13 00000001 0000000000000057 00000011")
        _refused(path, layout, "hornetq-2.0")
        with pytest.raises(CorruptError, match="hornetq-2"):
            read_records(path, layout=layout)
        with pytest.raises(CorruptError, match="hornetq-2"):
            stat_journal(path, layout=layout)
        assert [problem.rule for problem in check_journal(path, layout=layout)] == ["layout"]


@pytest.mark.parametrize("version", ["00000001", "00000002"])
@pytest.mark.parametrize("layout", [None, JournalLayout.JBM])
def test_a_journal_of_hornetq_2_1_or_artemis_is_refused_by_name_and_unchanged(
    tmp_path: Path, layout: JournalLayout | None, version: str
) -> None:
    data = bytes.fromhex(f"{version} 00000001 0000000000000005 0b 00000005 00 0000000000000011 00000001 07 41 00000018")
    (tmp_path / "journal-3.jnl").write_bytes(data.ljust(2048, b"J"))
    _refused(tmp_path, layout, "hornetq-2.1")


@pytest.mark.parametrize("name", OLD)
def test_a_record_of_only_the_oldest_layout_identifies_it(tmp_path: Path, name: str) -> None:
    path = _made(tmp_path / "j", FOUR_BYTE_LAYOUTS, OLD[name])
    _refused(path, JournalLayout.JBM, "jbm-2008-07")
    assert read_records(path).layout is JournalLayout.JBM_2008_07
    assert check_journal(path) == []
    is_prepare = "prepare" in name
    if not is_prepare:  # for six days in September 2008 deletes were the same, and prepares were not
        _refused(path, None, "say which")
    options = replace(SMALL, layout=None if is_prepare else JournalLayout.JBM_2008_07)
    with journal(path, options) as (opened, loaded):
        assert opened._files.layout is JournalLayout.JBM_2008_07
        assert loaded.problems == []
        assert len(loaded.prepared) == is_prepare


def test_a_prepared_transaction_of_the_oldest_layout_is_not_rolled_back(tmp_path: Path) -> None:
    path = _made(tmp_path / "j", FOUR_BYTE_LAYOUTS, OLD["prepare"])
    with journal(path, SMALL) as (opened, loaded):
        assert [(each.tx_id, [record.record_id for record in each.records]) for each in loaded.prepared] == [
            (0x55, [0x21])
        ]
        opened.commit(0x55)
    assert ids(reload(path, SMALL)) == [0x11, 0x21]


def test_an_ambiguous_layout_must_be_named_before_anything_is_written(tmp_path: Path) -> None:
    for number, records in enumerate(
        ((FOUR_BYTE_LAYOUTS,), (FOUR_BYTE_LAYOUTS, COMMIT), (FOUR_BYTE_LAYOUTS, NEW["delete"]), ())
    ):
        path = _made(tmp_path / str(number), *records)
        _refused(path, None, "say which")
        assert read_records(path).layout is JournalLayout.JBM
        reload(path, replace(SMALL, layout=JournalLayout.JBM))
    path = _made(tmp_path / "sure", FOUR_BYTE_LAYOUTS, COMMIT, NEW["delete"])
    with journal(path, SMALL) as (opened, loaded):
        assert opened._files.layout is JournalLayout.JBM
        assert (ids(loaded), loaded.problems) == ([0x21], [])


@pytest.mark.parametrize("mask", [1 << bit for bit in range(8)])
def test_one_damaged_record_does_not_contradict_a_named_layout(tmp_path: Path, mask: int) -> None:
    """An empty PREPARE with one flipped bit is a DELETE_TX of the oldest layout; other records show the damage."""
    empty = "11 00000001 0000000000000058 00000000 00000000 00000019"
    path = _made(tmp_path / "j", FOUR_BYTE_LAYOUTS, COMMIT, NEW["delete"], empty)
    data = bytearray((path / "journal-1.jnl").read_bytes())
    data[data.index(bytes.fromhex(empty))] ^= mask
    (path / "journal-1.jnl").write_bytes(data)
    assert ids(reload(path, replace(SMALL, layout=JournalLayout.JBM))) == [0x21]


def test_the_body_of_a_damaged_record_is_no_evidence(tmp_path: Path) -> None:
    forged = bytes.fromhex(HORNETQ["commit"])
    header = FileHeader(JournalLayout.JBM, 1)
    file = write_file(
        tmp_path, header, [JournalRecord(Kind.ADD, 0, 1, 1, b"?" + forged), JournalRecord(Kind.ADD, 0, 2, 1, b"next")]
    )
    data = bytearray(file.read_bytes())
    data[4] ^= 0x40
    file.write_bytes(data)
    loaded = reload(tmp_path, replace(SMALL, layout=JournalLayout.JBM))
    assert ids(loaded) == [2]
    assert [problem.rule for problem in loaded.problems] == ["gap"]


def test_the_oldest_layout_is_written_if_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Append transactions, deletes and prepares over several files, and again after a load."""
    monkeypatch.setattr(MaintenanceThread, "wake", lambda _: None)  # no file is freed before `reclaim` is called
    options = replace(SMALL, layout=JournalLayout.JBM_2008_07)
    with journal(tmp_path, options) as (opened, _):
        for number in range(10):
            opened.append_add(number, 1, bytes(500))
        opened.append_delete(0)
        opened.append_add_tx(100, 20, 1, bytes(1500))
        opened.append_update_tx(100, 1, 2, b"updated")
        opened.append_delete_tx(100, 2)
        opened.commit(100)
        opened.append_add_tx(101, 21, 1, b"waits")
        opened.append_delete_tx(101, 3)
        with pytest.raises(ValueError, match="PREPARE has no body"):
            opened.prepare(101, b"extra")
        with pytest.raises(ValueError, match="DELETE_TX has no body"):
            opened.append_delete_tx(101, 4, b"body")
        opened.prepare(101)
        with pytest.raises(ValueError, match="out of range"):
            opened.append_add(1 << 63, 1, b"")
    assert check_journal(tmp_path) == []
    data = b"".join(file.read_bytes() for file in files(tmp_path))
    assert bytes.fromhex("0000000000000065 00000001") in data
    for _ in range(2):
        with journal(tmp_path, SMALL) as (opened, loaded):  # the layout is recognised by its prepares
            assert sorted(set(ids(loaded))) == [1, 3, 4, 5, 6, 7, 8, 9, 20]
            assert [each.tx_id for each in loaded.prepared] == [101]
            assert (loaded.failed, loaded.problems) == ([], [])
    with journal(tmp_path, options) as (opened, _):
        opened.commit(101)
        opened.append_delete(21)
        for number in (1, 4, 5, 6, 7, 8, 9):
            opened.append_delete(number)
        opened.append_add(50, 1, bytes(1500))
        assert opened.reclaim() > 0
    assert ids(reload(tmp_path, options)) == [20, 50]
