"""A repaired log: sound records keep their refs, damaged ones are quarantined, and the index is complete."""

from __future__ import annotations

import os
import random
import shutil
import struct
from pathlib import Path

import pytest

import binlog
from binlog import Entry, Mode, Reader, Sequence, Writer, repair
from binlog.errors import BusyError, CorruptError
from binlog.format.log_header import HEADER_BYTES, parse_log_header
from binlog.log.maintain.fillers import FILLER
from binlog.log.maintain.repair import LOCK_NAME
from binlog.storage.directory import Directory
from binlog.storage.locking.directory_lock import hold_lock_file
from tests.support.children import Child
from tests.support.indexes import check_entries, index_entries
from tests.support.logs import jpos_file, read_all


def _write(log: Path, *, files: int = 2, records: int = 300) -> list[Entry]:
    dice = random.Random(7)
    entries = []
    with Writer(log) as writer:
        for number in range(files):
            for _ in range(records):
                data = b"%d " % len(entries) * dice.randrange(1, 150)
                mode = Mode.SYNC if dice.random() < 0.05 else Mode.FLUSH
                entries.append(Entry(writer.append(data, mode=mode), data))
            if number < files - 1:
                writer.cutover()
    return entries


def _flip(path: Path, offset: int) -> None:
    data = path.read_bytes()[offset]
    with open(path, "r+b") as file:
        os.pwrite(file.fileno(), bytes([data ^ 0x40]), offset)


def _rules(log: Path) -> list[str]:
    return [problem.rule for problem in binlog.check(log)]


def _actions(log: Path, *, dry_run: bool = False) -> list[str]:
    return [each.action for each in repair(log, dry_run=dry_run)]


def test_nothing_is_done_to_a_sound_log(tmp_path: Path) -> None:
    entries = _write(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("0*")}
    assert repair(tmp_path) == []
    assert {path.name: path.read_bytes() for path in tmp_path.glob("0*")} == before
    assert list(Reader(tmp_path)) == entries


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("what", ["byte", "length"])
def test_damaged_records_are_quarantined_and_all_others_keep_their_refs(tmp_path: Path, number: int, what: str) -> None:
    entries = _write(tmp_path)
    ranges = index_entries(tmp_path, number)
    for hit in (ranges[len(ranges) // 2], ranges[-1]):
        path = tmp_path / f"{number:08d}.dat"
        # In the last range no next entry has the record count: the lengths have it.
        at = hit.offset + (0 if what == "length" and hit is not ranges[-1] else 5)
        _flip(path, at)
        damaged = path.read_bytes()[hit.offset : hit.offset + hit.size]
        assert "index-crc" in _rules(tmp_path)
        assert _actions(tmp_path, dry_run=True) == ["quarantined"]
        assert _actions(tmp_path) == ["quarantined"]
        aside = tmp_path / f"{number:08d}.dat.{hit.offset}-{hit.offset + hit.size}.damaged"
        assert aside.read_bytes() == damaged
        assert _rules(tmp_path) == ["quarantined"]
        assert repair(tmp_path) == []
        found = dict(Reader(tmp_path))
        lost = [
            entry for entry in entries if entry.ref.number == number and 0 <= entry.ref.offset - hit.offset < hit.size
        ]
        kept = [entry for entry in entries if entry not in lost]
        assert [found[entry.ref] for entry in kept] == [entry.data for entry in kept]
        assert len(found) == len(entries)
        fillers = [
            data for ref, data in found.items() if ref.number == number and 0 <= ref.offset - hit.offset < hit.size
        ]
        assert len(fillers) == len(lost)
        assert all(data.startswith(FILLER[: len(data)]) for data in fillers)
        for sequence in (0, len(entries) - 1):
            if entries[sequence] in kept:
                assert next(Reader(tmp_path, Sequence(sequence))) == entries[sequence]
        aside.unlink()
        assert binlog.check(tmp_path) == []
        entries = list(Reader(tmp_path))
    with Writer(tmp_path) as writer:
        ref = writer.append(b"more")
    assert list(Reader(tmp_path))[-1] == Entry(ref, b"more")
    assert binlog.check(tmp_path) == []


def test_a_repaired_open_file_is_valid_after_another_boot(tmp_path: Path) -> None:
    """The last commit's slot has a CRC of bytes that were damaged; the filler must not make that one fail."""
    entries = _write(tmp_path, files=1)
    hit = index_entries(tmp_path)[-1]
    _flip(tmp_path / "00000001.dat", hit.offset + 6)
    assert _actions(tmp_path) == ["quarantined"]
    header = parse_log_header((tmp_path / "00000001.dat").read_bytes()[:HEADER_BYTES], path="")
    with open(tmp_path / "00000001.dat", "r+b") as file:
        os.pwrite(file.fileno(), header._replace(boot_id=bytes(16)).pack(), 0)
    with Writer(tmp_path) as writer:
        writer.append(b"more")
    assert len(read_all(tmp_path)) == len(entries) + 1
    assert _rules(tmp_path) == ["quarantined"]


def test_an_open_writer_continues_after_a_repair(tmp_path: Path) -> None:
    _write(tmp_path, files=1)
    with Writer(tmp_path) as writer:
        _flip(tmp_path / "00000001.dat", index_entries(tmp_path)[3].offset + 6)
        assert _actions(tmp_path) == ["quarantined"]
        writer.append(b"more")
        writer.append(b"and more", mode=Mode.FLUSH)
    assert check_entries(tmp_path) == 0
    assert read_all(tmp_path)[-2:] == [b"more", b"and more"]


@pytest.mark.parametrize("files", [1, 2])
def test_without_an_index_everything_from_a_bad_length_on_is_quarantined(tmp_path: Path, files: int) -> None:
    entries = _write(tmp_path, files=files)
    (tmp_path / "00000001.idx").unlink()
    path = tmp_path / "00000001.dat"
    bad, tail = entries[100].ref.offset, binlog.stat(tmp_path).files[0].tail
    with open(path, "r+b") as file:
        os.pwrite(file.fileno(), b"\xff", bad)
    with pytest.raises(CorruptError):
        list(Reader(tmp_path))
    rest = path.read_bytes()[bad:tail]
    # The next file's sequence numbers show how many are missing, and fillers replace them.
    assert _actions(tmp_path) == ["shortened", "index", *(["filled"] if files == 2 else [])]
    assert (tmp_path / f"00000001.dat.{bad}-{tail}.damaged").read_bytes() == rest
    found = list(Reader(tmp_path))
    assert found[:100] == entries[:100]
    assert all(entry.data.startswith(FILLER) for entry in found[100:300])
    assert found[300:] == (entries[300:] if files == 2 else [])
    assert len(found) == (600 if files == 2 else 100)
    assert _rules(tmp_path) == (["quarantined"] if files == 2 else [])
    with Writer(tmp_path) as writer:
        assert writer.append(b"more").number == 2
    assert repair(tmp_path) == []


def test_a_file_without_acknowledged_records_is_cut_only_on_request(tmp_path: Path) -> None:
    """Row 14: after another boot, the last confirmed commit is invalid."""
    entries = _write(tmp_path, files=1, records=50)
    with Writer(tmp_path) as writer:
        last = writer.append(b"the last commit")
    path = tmp_path / "00000001.dat"
    header = parse_log_header(path.read_bytes()[:HEADER_BYTES], path="")
    with open(path, "r+b") as file:
        os.pwrite(file.fileno(), header._replace(boot_id=bytes(16)).pack(), 0)
    _flip(path, last.offset + 6)
    with pytest.raises(CorruptError, match="recovery-14"):
        Writer(tmp_path)
    assert "recovery-14" in _rules(tmp_path)
    assert _actions(tmp_path, dry_run=True) == ["shortened"]
    assert _actions(tmp_path) == ["shortened"]
    assert list(Reader(tmp_path)) == entries
    assert (tmp_path / f"00000001.dat.{last.offset}-{header.tail}.damaged").exists()
    assert binlog.check(tmp_path) == []
    with Writer(tmp_path) as writer:
        assert writer.append(b"more").number == 2


def test_a_file_without_live_block_and_slots_is_salvaged_by_its_index(tmp_path: Path) -> None:
    entries = _write(tmp_path, files=1, records=50)
    with open(tmp_path / "00000001.dat", "r+b") as file:
        os.pwrite(file.fileno(), b"\xee" * 8, 72)
        os.pwrite(file.fileno(), b"\xee" * 112, 136)
    with pytest.raises(CorruptError):
        Writer(tmp_path)
    assert _actions(tmp_path) == ["shortened"]
    assert list(Reader(tmp_path)) == entries
    assert binlog.check(tmp_path) == []


def test_missing_short_or_wrong_indexes_are_completed(tmp_path: Path) -> None:
    _write(tmp_path, files=3)
    (tmp_path / "00000001.idx").unlink()
    os.truncate(tmp_path / "00000002.idx", 32 + 40 * 4)
    with open(tmp_path / "00000003.idx", "r+b") as file:
        os.pwrite(file.fileno(), b"\x01", 32 * 4)
    assert _rules(tmp_path) == ["index"]
    assert _actions(tmp_path) == ["index"] * 3
    assert [check_entries(tmp_path, number) for number in (1, 2, 3)] == [0, 0, 0]
    assert binlog.check(tmp_path) == []


def test_a_foreign_file_gets_an_index_which_reveals_a_flipped_bit(tmp_path: Path) -> None:
    jpos_file(tmp_path, [b"record %d" % number for number in range(100)])
    assert _actions(tmp_path) == ["index"]
    data = (tmp_path / "00000001.idx").read_bytes()
    assert struct.unpack_from(">QQ", data, 32) == (0, 248)
    before = read_all(tmp_path)
    _flip(tmp_path / "00000001.dat", 256)
    assert _rules(tmp_path) == ["index-crc"]
    assert _actions(tmp_path) == ["quarantined"]
    assert [len(record) for record in read_all(tmp_path)] == [len(record) for record in before]


def test_a_second_repair_at_the_same_time_is_refused(tmp_path: Path) -> None:
    _write(tmp_path)

    def refused() -> None:
        with pytest.raises(BusyError):
            repair(tmp_path)

    with Directory(str(tmp_path)) as directory, hold_lock_file(directory, LOCK_NAME, "repairs the log"):
        Child(refused).join()
    assert repair(tmp_path) == []


def test_a_repair_that_died_half_way_can_be_repeated(tmp_path: Path) -> None:
    """The range was quarantined, and half of the filler written."""
    _write(tmp_path)
    hit = index_entries(tmp_path)[5]
    path = tmp_path / "00000001.dat"
    _flip(path, hit.offset + 6)
    shutil.copytree(tmp_path, tmp_path / "copy")
    repair(tmp_path / "copy")
    name = f"00000001.dat.{hit.offset}-{hit.offset + hit.size}.damaged"
    shutil.copy(tmp_path / "copy" / name, tmp_path / name)
    done = (tmp_path / "copy" / "00000001.dat").read_bytes()
    with open(path, "r+b") as file:
        os.pwrite(file.fileno(), done[hit.offset : hit.offset + hit.size // 2], hit.offset)
    assert _actions(tmp_path) == ["quarantined"]
    assert path.read_bytes() == done
    assert (tmp_path / name).read_bytes() == (tmp_path / "copy" / name).read_bytes()
