"""Compaction changes no record, even if threads append meanwhile or the process dies at any step."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from binlog.errors import AccessError, CorruptError
from binlog.format.checksums import crc32c
from binlog.format.journal.file_header import JournalLayout
from binlog.format.journal.names import CONTROL_FILE
from binlog.format.journal.record import JournalRecord, Kind, pack_record
from binlog.journal.compaction import compactor, control_file
from binlog.journal.compaction.control_file import FileMoves, commit_control, header_crc, parse_control, write_control
from binlog.journal.files.journal_files import JournalFile
from binlog.journal.inspection.inspection import check_journal
from binlog.journal.journal import Journal
from binlog.journal.options import Sync
from binlog.journal.record import Loaded, Record
from binlog.storage import files as storage_files
from binlog.storage.directory import Directory
from tests.support.failing import raising
from tests.support.journals import FILE_BYTES, SMALL, files, flip, header_of, ids, journal, records_in, reload
from tests.support.threads import at_once

BODY = bytes(200)


def _fill(opened: Journal) -> None:
    """Append records of which few stay live, in every way, and two transactions that stay open."""
    for number in range(100):
        opened.append_add(number, 1, b"%d" % number * 40, sync=Sync.LATER)
    for number in range(0, 100, 20):
        opened.append_update(number, 2, b"updated", sync=Sync.LATER)
        opened.append_update_tx(1000 + number, number, 3, b"in a transaction")
        opened.append_add_tx(1000 + number, 200 + number, 4, b"added in one")
        opened.append_delete_tx(1000 + number, number + 1)
        opened.append_update(number, 5, b"before the commit", sync=Sync.LATER)
        opened.commit(1000 + number, sync=Sync.LATER)
    opened.append_add_tx(5000, 300, 1, b"waits")
    opened.append_delete_tx(5000, 60)
    opened.prepare(5000, b"XID")
    for number in range(2, 100):
        if number % 20 and (number - 1) % 20:
            opened.append_delete(number, sync=Sync.LATER)
    for number in range(500, 540):
        opened.append_add(number, 1, BODY, sync=Sync.LATER)
        opened.append_delete(number, sync=Sync.LATER)
    opened.append_add(600, 1, b"last")


def _before_and_after(path: Path) -> Loaded:
    """Make a journal before a compaction and a copy after it; return its records."""
    with journal(path / "before") as (opened, _):
        _fill(opened)
    live = reload(path / "before")
    shutil.copytree(path / "before", path / "after")
    with journal(path / "after") as (opened, _):
        opened.compact()
    return live


def _state(loaded: Loaded) -> tuple[object, ...]:
    return (loaded.records, loaded.prepared, loaded.failed, loaded.problems)


def test_live_records_are_unchanged_in_fewer_files(tmp_path: Path) -> None:
    with journal(tmp_path) as (opened, _):
        _fill(opened)
    before = reload(tmp_path)
    assert len(before.records) > 20
    assert [each.tx_id for each in before.prepared] == [5000]
    with journal(tmp_path) as (opened, _):
        count = len(opened._files.data)
        gone = opened.compact()
        assert gone >= 2
        assert len(opened._files.data) <= count - gone + 1
    assert _state(reload(tmp_path)) == _state(before)
    assert not list(tmp_path.glob("*.cmp"))
    with journal(tmp_path) as (opened, _):
        opened.commit(5000)
        for record_id in {record.record_id for record in before.records} - {60}:
            opened.append_delete(record_id)
        opened.append_add(700, 1, BODY * 5)
        opened.append_add(701, 1, BODY * 5)
        opened.reclaim()
        assert len(opened._files.data) <= 6
    assert ids(reload(tmp_path)) == [300, 700, 701]


TOGETHER = [{1, 2, 3}, {11, 13}, {21}, {31, 32, 33, 34}]


def _fill_together(opened: Journal) -> None:
    """Append interleaved transactions, one of which deletes a record in a file that is not compacted."""
    for record_id in (40, 41):
        opened.append_add(record_id, 1, b"outer")
    opened.append_add_tx(50, 42, 1, b"waits")
    opened.prepare(50)
    opened.append_add(43, 1, bytes(1900))  # so that the others begin in another file
    for number in range(5):
        for tx_id, ids_ in enumerate(TOGETHER):
            if number < len(ids_):
                opened.append_add_tx(tx_id, sorted(ids_)[number], 1, b"%d" % tx_id * 300)
    opened.append_update_tx(1, 40, 2, b"update")
    opened.append_delete_tx(1, 41)
    opened.append_add_tx(1, 12, 1, b"deleted later")
    for tx_id in (2, 0, 3, 1):
        opened.commit(tx_id)
    opened.append_delete(12)


def _add_and_delete(opened: Journal, turn: int) -> None:
    """Fill files in which so little stays live that a compaction removes them."""
    for number in range(100 * (turn + 1), 100 * (turn + 1) + 30):
        opened.append_add(number, 1, BODY * 2, sync=Sync.LATER)
        if number % 5:
            opened.append_delete(number, sync=Sync.LATER)


def _counted(all_: Iterable[JournalFile]) -> dict[str, tuple[int, int, set[str]]]:
    """Return the pins of each file that has any."""
    return {
        file.name: (file.pin_count, file.live_bytes, {other.name for other in file.must_outlive})
        for file in all_
        if file.pin_count or file.must_outlive
    }


def test_the_ledger_after_a_compaction_equals_that_of_a_load(tmp_path: Path) -> None:
    with journal(tmp_path / "journal") as (opened, _):
        _fill_together(opened)
        for turn in range(3):
            _add_and_delete(opened, turn)
            assert opened.compact() > 0
            opened.reclaim()  # as a load does
            counted = _counted(opened._files.data)
            after = tmp_path / "after"
            shutil.copytree(tmp_path / "journal", after)
            with journal(after) as (loaded, _):
                found = _counted(loaded._files)
            shutil.rmtree(after)
            for name, (alive, live_bytes, others) in counted.items():
                expected = found.get(name, (0, 0, set()))
                # A compaction may keep a delete although no earlier file has its record.
                assert ((alive, live_bytes), others >= expected[2]) == (expected[:2], True)
            assert found.keys() <= counted.keys()
            assert any(each[2] for each in found.values())


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
def test_a_compacted_transaction_is_all_or_nothing(tmp_path: Path, times: int) -> None:
    with journal(tmp_path / "whole") as (opened, _):
        _fill_together(opened)
    for turn in range(times):
        with journal(tmp_path / "whole") as (opened, _):
            _add_and_delete(opened, turn)
            assert opened.compact() > 0
    whole = reload(tmp_path / "whole")
    assert [number for number in ids(whole) if number < 100] == [40, 43, 21, 1, 2, 3, 31, 32, 33, 34, 11, 13, 40]
    damaged = 0
    for file in files(tmp_path / "whole"):
        for _, _, end, *_ in records_in(file):
            path = tmp_path / f"{file.name}-{end}"
            shutil.copytree(tmp_path / "whole", path)
            flip(path / file.name, end - 1)
            for _ in range(2):
                loaded = reload(path)
                live = set(ids(loaded))
                assert all(each <= live or not each & live for each in TOGETHER)
                updated = Record(40, 2, b"update", is_update=True) in loaded.records
                assert updated == (11 in live and 40 in live)
                assert not (11 in live and 41 in live)
            damaged += live != set(ids(whole))
    assert damaged > len(set().union(*TOGETHER))


@pytest.mark.slow
def test_appends_continue_during_a_compaction(tmp_path: Path) -> None:
    options = replace(SMALL, file_bytes=8192)
    done = threading.Event()
    expected: dict[int, dict[int, list[bytes]]] = {}

    def work(opened: Journal, first: int) -> None:
        live = expected[first] = dict[int, list[bytes]]()
        number = first
        while not done.is_set() or number < first + 300:
            opened.append_add(number, 1, b"%d" % number * 20, sync=Sync.LATER)
            live[number] = [b"%d" % number * 20]
            if number % 7 == 0 and live:
                opened.append_update(number, 1, b"u", sync=Sync.LATER)
                live[number].append(b"u")
            tx_id = 10_000_000 + number
            opened.append_add_tx(tx_id, -number, 1, b"tx")
            victim = min(live)
            opened.append_delete_tx(tx_id, victim)
            if number % 5:
                opened.commit(tx_id, sync=Sync.LATER)
                live[-number] = [b"tx"]
                del live[victim]
            else:
                opened.rollback(tx_id, sync=Sync.LATER)
            while len(live) > 40:
                victim = max(live)
                opened.append_delete(victim, sync=Sync.LATER)
                del live[victim]
            number += 1

    with journal(tmp_path, options) as (opened, _):
        gone: list[int] = []

        def compact() -> None:
            try:
                until = time.monotonic() + 60
                while len(gone) < 12 or (not sum(gone) and time.monotonic() < until):
                    gone.append(opened.compact())  # it frees nothing until enough records are deleted
            finally:
                done.set()

        at_once(compact, *(partial(work, opened, 100_000 * k + 1) for k in range(1, 5)))
        assert sum(gone) > 0
        opened.compact()
    loaded = reload(tmp_path, options)
    assert (loaded.failed, loaded.problems) == ([], [])
    found: dict[int, list[bytes]] = {}
    for record in loaded.records:
        found.setdefault(record.record_id, []).append(record.body)
    assert found == {number: bodies for live in expected.values() for number, bodies in live.items()}


def _moments(before: Path, after: Path, at: Path) -> Iterator[str]:
    """Make at `at`, one by one, each state that a process can leave if it dies during a compaction."""

    def begin() -> None:
        shutil.rmtree(at, ignore_errors=True)
        shutil.copytree(before, at)
        for name in renamed:
            shutil.copy(after / name, at / f"{name}.cmp")

    old = {file.name: header_of(file) for file in files(before)}
    new = {file.name: header_of(file) for file in files(after)}
    contents = {file.name: file.read_bytes() for file in files(before)}
    renamed = [
        name
        for name in old
        if name in new and new[name].file_id == old[name].file_id and contents[name] != (after / name).read_bytes()
    ]
    dead = [
        (name, header.file_id) for name, header in old.items() if name not in new or new[name].file_id != header.file_id
    ]
    assert renamed
    assert dead
    moves = FileMoves(
        tuple((name, crc32c((after / name).read_bytes())) for name in renamed),
        tuple(dead),
        tuple((name, header_crc(old[name])) for name in (*renamed, *dict(dead))),
    )
    begin()
    yield "before the control file"
    begin()
    (at / f"{renamed[0]}.cmp").write_bytes(b"half")
    yield "while writing a file"
    whole = _control(after, moves)
    for size in range(0, len(whole), 13):
        begin()
        (at / f"{CONTROL_FILE}.tmp").write_bytes(whole[:size])
        yield "while writing the control file"
    for done in range(len(renamed) + len(dead) + 1):
        begin()
        (at / CONTROL_FILE).write_bytes(whole)
        for name in renamed[:done]:
            os.rename(at / f"{name}.cmp", at / name)
        for name, _ in dead[: max(done - len(renamed), 0)]:
            shutil.copy(after / name, at / name) if name in new else (at / name).unlink()
        yield f"after {done} of the moves"


def _control(folder: Path, moves: FileMoves) -> bytes:
    with Directory(str(folder)) as directory:
        write_control(directory, moves)
        commit_control(directory)
    whole = (folder / CONTROL_FILE).read_bytes()
    (folder / CONTROL_FILE).unlink()
    return whole


@pytest.mark.slow
def test_an_interrupted_compaction_changes_no_record(tmp_path: Path) -> None:
    expected = _state(_before_and_after(tmp_path))
    kinds = set()
    for moment in _moments(tmp_path / "before", tmp_path / "after", tmp_path / "at"):
        kinds.add(moment)
        assert _state(reload(tmp_path / "at")) == expected, moment
        assert not [
            *(tmp_path / "at").glob("*.cmp"),
            *(tmp_path / "at").glob("*.tmp"),
            *(tmp_path / "at").glob("*.ctr*"),
        ]
        assert _state(reload(tmp_path / "at")) == expected, moment
    assert len(kinds) > 6


def test_headers_of_freed_files_are_durable_before_the_control_file_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process freed the dead files and died before it synced them, or its sync had failed.

    If a power cut undid a header, and the control file were gone, the dead records would be read again.
    """
    expected = _state(_before_and_after(tmp_path))
    killed = tmp_path / "killed"
    with journal(tmp_path / "before") as (opened, _), monkeypatch.context() as patch:
        patch.setattr(compactor, "remove_control", raising(AccessError("not now")))
        opened.compact()
        shutil.copytree(tmp_path / "before", killed)
    moves = parse_control((killed / CONTROL_FILE).read_bytes(), CONTROL_FILE, SMALL.names)
    freed = {name for name, file_id in moves.dead if header_of(killed / name).file_id != file_id}
    assert freed
    done: dict[str, list[str]] = defaultdict(list)
    write_at, sync, remove_control = storage_files.write_at, control_file.sync, control_file.remove_control

    def note_write(fd: int, data: bytes, offset: int, path: str) -> None:
        write_at(fd, data, offset, path)
        done[Path(path).name].append("written")

    def note_sync(fd: int, path: str) -> None:
        sync(fd, path)
        done[Path(path).name].append("synced")

    def check(directory: Directory) -> None:
        assert {tuple(done.pop(name)) for name in freed} == {("written", "synced")}
        remove_control(directory)

    monkeypatch.setattr(storage_files, "write_at", note_write)
    monkeypatch.setattr(control_file, "sync", note_sync)
    monkeypatch.setattr(control_file, "remove_control", check)
    assert _state(reload(killed)) == expected
    assert not freed & done.keys()


def _contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()}


@pytest.mark.parametrize(
    ("renamed", "dead"),
    [
        ((("journal-1.jnl", 1),), ()),  # neither this file nor its replacement is as the control file says
        ((("../journal-1.jnl", 1),), ()),
        ((), (("quarantine/journal-1.jnl", 1),)),
        ((), (("/etc/passwd", 1),)),
        ((), (("journal.lock", 1),)),
        ((), (("journal-1.jnl", 1), ("journal-1.jnl", 1))),
        ((("journal-1.jnl", 1),), (("journal-1.jnl", 1),)),
        ((), ((1, 1),)),
        ((), (("journal-1.jnl", "1"),)),
        ((), (("journal-1.jnl",),)),
        ((), "journal"),
        ((), 7),
    ],
)
def test_an_invalid_control_file_is_refused_and_nothing_is_changed(tmp_path: Path, renamed: Any, dead: Any) -> None:
    with journal(tmp_path) as (opened, _):
        _fill(opened)
    replaced = tuple((each[0], 1) for each in (*renamed, *dead)) if isinstance(dead, tuple) else ()
    (tmp_path / CONTROL_FILE).write_bytes(_control(tmp_path, FileMoves(renamed, dead, replaced)))
    before = _contents(tmp_path)
    with pytest.raises(CorruptError, match="compaction"):
        reload(tmp_path)
    assert _contents(tmp_path) == before


@pytest.mark.parametrize("size", [None, 0, 60, 100, -1])
def test_a_damaged_control_file_is_reported(tmp_path: Path, size: int | None) -> None:
    with journal(tmp_path) as (opened, _):
        _fill(opened)
    whole = _control(tmp_path, FileMoves((), ()))
    (tmp_path / CONTROL_FILE).write_bytes(whole[:size] if size is not None else whole[:-1] + b"?")
    (tmp_path / "journal-1.jnl.cmp").write_bytes(b"maybe the only one")
    before = _contents(tmp_path)
    with pytest.raises(CorruptError):
        reload(tmp_path)
    assert _contents(tmp_path) == before


@pytest.mark.parametrize("at", [0, 200, -1])
@pytest.mark.slow
def test_a_damaged_file_never_replaces_a_complete_one(tmp_path: Path, at: int) -> None:
    """Before any rename, the damaged file is quarantined, and all files are as before the compaction."""
    expected = _before_and_after(tmp_path)
    refused = 0
    for moment in _moments(tmp_path / "before", tmp_path / "after", tmp_path / "at"):
        written = sorted((tmp_path / "at").glob("*.cmp"))
        if not moment.startswith("after ") or not written:
            continue
        data = bytearray(written[-1].read_bytes())
        data[at] ^= 4
        written[-1].write_bytes(data)
        if moment == "after 0 of the moves":
            loaded = reload(tmp_path / "at")
            assert _state(loaded)[:3] == _state(expected)[:3]
            assert [problem.rule for problem in loaded.problems] == ["compaction"]
            assert [file.read_bytes() for file in (tmp_path / "at" / "quarantine").iterdir()] == [data]
            assert _state(reload(tmp_path / "at")) == _state(expected)
        else:
            refused += 1
            before = _contents(tmp_path / "at")
            with pytest.raises(CorruptError, match="compaction"):
                reload(tmp_path / "at")
            assert _contents(tmp_path / "at") == before
    assert refused


@pytest.mark.slow
def test_files_that_another_program_has_changed_are_not_replaced(tmp_path: Path) -> None:
    """Even if only one of the files has been reused: the control file has the header CRC of each."""
    _before_and_after(tmp_path)
    refused = 0
    for moment in _moments(tmp_path / "before", tmp_path / "after", tmp_path / "at"):
        at = tmp_path / "at"
        written = sorted(at.glob("*.cmp"))
        if not moment.startswith("after ") or not written:
            continue
        file = at / written[-1].name.removesuffix(".cmp")
        header = header_of(file)._replace(salt=b"restored")
        data = header.pack() + pack_record(JournalRecord(Kind.ADD, 0, 777, 1, b"acknowledged"), header, 88)
        file.write_bytes(data.ljust(FILE_BYTES, b"\0"))
        before = _contents(at)
        if moment == "after 0 of the moves":
            assert [problem.rule for problem in check_journal(at) if problem.path == str(file)] == ["compaction"]
            loaded = reload(at)
            assert 777 in ids(loaded)
            assert [problem.rule for problem in loaded.problems if problem.path == str(file)] == ["compaction"]
            assert not [*at.glob("*.cmp"), *at.glob("*.ctr*")]
            assert file.read_bytes()[: len(data)] == data
        else:
            refused += 1
            with pytest.raises(CorruptError, match="another program"):
                reload(at)
            assert _contents(at) == before
    assert refused


def test_a_journal_of_jboss_messagings_layout_is_never_compacted(tmp_path: Path) -> None:
    """JBoss Messaging ignores the control file, so a load would roll forward over records that it wrote meanwhile."""
    options = replace(SMALL, layout=JournalLayout.JBM, compact_files_min=2, compact_ratio=1.0)
    with journal(tmp_path, options) as (opened, _):
        _fill(opened)
        opened.reclaim()
        before = {file.name: header_of(file) for file in files(tmp_path)}
        assert opened.compact() == 0
        opened.reclaim()
        assert not opened._compactor.is_due()
        assert {file.name: header_of(file) for file in files(tmp_path)} == before
    assert not [*tmp_path.glob("*.cmp"), *tmp_path.glob("*.ctr*")]


def test_a_compaction_begun_by_an_earlier_version_is_refused_and_nothing_is_changed(tmp_path: Path) -> None:
    options = replace(SMALL, layout=JournalLayout.JBM)
    with journal(tmp_path, options) as (opened, _):
        _fill(opened)
    names = [file.name for file in files(tmp_path)]
    (tmp_path / f"{names[0]}.cmp").write_bytes((tmp_path / names[0]).read_bytes())
    crc = crc32c((tmp_path / names[0]).read_bytes())
    (tmp_path / CONTROL_FILE).write_bytes(_control(tmp_path, FileMoves(((names[0], crc),), ((names[1], 2),))))
    before = _contents(tmp_path)
    with pytest.raises(CorruptError, match="compaction"):
        reload(tmp_path, options)
    assert _contents(tmp_path) == before


def test_mostly_dead_files_are_compacted_automatically(tmp_path: Path) -> None:
    options = replace(SMALL, compact_files_min=10, compact_ratio=0.3)
    with journal(tmp_path, options) as (opened, _):
        for number in range(200):
            opened.append_add(number, 1, BODY, sync=Sync.LATER)
            if number % 8:
                opened.append_delete(number, sync=Sync.LATER)
        opened.reclaim()
        deadline = time.monotonic() + 30
        while len(opened._files.data) >= 10:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        kept = opened.file_pins()
    assert sum(len(each.records) for each in kept) > 0
    loaded = reload(tmp_path, options)
    assert loaded.records == [Record(number, 1, BODY) for number in range(0, 200, 8)]
