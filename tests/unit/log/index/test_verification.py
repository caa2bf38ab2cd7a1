"""Verification: a reader returns the bytes that were written, or an error, for every byte that an index covers."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import binlog
from binlog import Mode, Reader, Ref, Writer
from binlog.errors import CorruptError, FullError
from tests.support.examples import examples
from tests.support.indexes import index_entries


def _make(log: Path, *, seed: int = 1, files: int = 2, large: bool = True) -> dict[Ref, bytes]:
    dice = random.Random(seed)
    found: dict[Ref, bytes] = {}
    with Writer(log) as writer:
        for file in range(files):
            for number in range(40):
                records = [dice.randbytes(dice.randrange(2000)) for _ in range(dice.choice([1, 1, 1, 3, 100]))]
                if large and number == 20:
                    records.append(dice.randbytes(200_000))
                mode = dice.choice([Mode.SYNC, Mode.SYNC, Mode.FLUSH])
                found.update(zip(writer.append_many(records, mode=mode), records, strict=True))
            if file < files - 1:
                writer.cutover()
    return found


def _flip(path: Path, offset: int) -> None:
    with open(path, "r+b") as file:
        byte = os.pread(file.fileno(), 1, offset)[0]
        os.pwrite(file.fileno(), bytes([byte ^ 0x10]), offset)


def _read(log: Path, start: Ref | None = None) -> tuple[list[binlog.Entry], CorruptError | None]:
    found: list[binlog.Entry] = []
    try:
        with Reader(log) if start is None else Reader(log, start) as reader:
            found.extend(reader)
    except CorruptError as error:
        return found, error
    return found, None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_flipped_byte_is_never_read(tmp_path: Path, seed: int) -> None:
    records = _make(tmp_path, seed=seed)
    refs = list(records)
    dice = random.Random(seed)
    for number in (1, 2):
        path = tmp_path / f"{number:08d}.dat"
        entries = index_entries(tmp_path, number)
        for _ in range(40):
            entry = dice.choice(entries)
            at = dice.randrange(entry.offset, entry.offset + entry.size)
            _flip(path, at)
            found, error = _read(tmp_path)
            assert error is not None
            # A wrong length may be met first, when the reader asks the index for a place.
            assert (error.path, error.rule) == (str(path), "index-crc")
            assert error.offset == entry.offset
            before = [ref for ref in refs if ref < Ref(number, entry.offset)]
            assert [(each.ref, each.data) for each in found] == [(ref, records[ref]) for ref in before]
            _flip(path, at)
    assert _read(tmp_path)[1] is None


def test_without_verification_damaged_bytes_are_read(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        ref = writer.append(b"as it was")
    _flip(tmp_path / "00000001.dat", ref.offset + 4)
    assert [entry.data for entry in Reader(tmp_path, verify=False)] == [b"qs it was"]
    with pytest.raises(CorruptError, match="index-crc"):
        next(Reader(tmp_path))


def test_a_record_before_the_damage_in_the_same_range_is_not_read(tmp_path: Path) -> None:
    """Nothing shows which of a range's records is damaged."""
    with Writer(tmp_path) as writer:
        refs = writer.append_many([b"one", b"two", b"three"])
    _flip(tmp_path / "00000001.dat", refs[2].offset + 5)
    for start in refs:
        found, error = _read(tmp_path, start)
        assert found == []
        assert error is not None
        assert error.rule == "index-crc"


@pytest.mark.slow
@settings(max_examples=examples(25), deadline=None)
@given(st.data())
def test_batches_of_any_size_from_anywhere_are_the_same(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    log = tmp_path_factory.mktemp("log")
    records = _make(log, seed=data.draw(st.integers(0, 3)), files=1)
    refs = list(records)
    first = data.draw(st.integers(0, len(refs) - 1))
    with Reader(log, refs[first]) as reader:
        at = first
        while at < len(refs):
            records_max, bytes_max = (
                data.draw(st.sampled_from([1, 2, 50, 4096])),
                data.draw(st.sampled_from([1, 700, 1 << 18])),
            )
            batch = reader.read_batch(records_max=records_max, bytes_max=bytes_max)
            assert 0 < len(batch) <= records_max
            assert batch.first_sequence == at
            for entry in batch.entries():
                assert (entry.ref, entry.data) == (refs[at], records[entry.ref])
                at += 1
        assert len(reader.read_batch()) == 0


def test_a_following_reader_verifies_records_once_the_index_covers_them(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer, Reader(tmp_path) as reader:
        for number in range(300):
            writer.append(b"%d" % number, mode=Mode.FLUSH if number % 7 else Mode.SYNC)
            assert next(reader).data == b"%d" % number
        refs = writer.append_many([b"more"] * 20_000)
        writer.append(b"the last")
        _flip(tmp_path / "00000001.dat", refs[15_000].offset + 5)
        with pytest.raises(CorruptError, match="index-crc"):
            list(reader)


@pytest.mark.slow
def test_a_reader_at_the_end_verifies_records_older_than_a_second(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer, Reader(tmp_path) as reader:
        for is_new in (True, False):
            writer.append(b"first")
            assert [entry.data for entry in reader] == [b"first"]
            ref = writer.append(b"then")
            if not is_new:
                time.sleep(1.1)  # the age of the last read decides; there is nothing to wait for
                writer.append(b"the index has the record before")
            _flip(tmp_path / "00000001.dat", ref.offset + 4)
            if is_new:
                assert next(reader).data == b"dhen"
        for _ in range(2):
            with pytest.raises(CorruptError, match="index-crc"):
                next(reader)


@pytest.mark.parametrize("records_max", [1, 4, 4096])
def test_a_batch_at_the_end_has_no_more_than_asked_for(tmp_path: Path, records_max: int) -> None:
    with Writer(tmp_path) as writer, Reader(tmp_path) as reader:
        for bytes_max in (20, 1 << 18):
            for size in (1, 9, 300, 20_000):
                records = [bytes([index]) * size for index in range(9)]
                writer.append_many(records)
                found = list[bytes]()
                while batch := reader.read_batch(records_max=records_max, bytes_max=bytes_max):
                    assert len(batch) <= records_max
                    assert len(batch) == 1 or len(batch.data) <= bytes_max
                    found.extend(batch)
                assert found == records


def test_a_reader_continues_after_a_repair_with_the_rebuilt_index(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        refs = [writer.append(b"%d" % number * 3) for number in range(10)]
        writer.cutover()
        writer.append(b"the last")
    _flip(tmp_path / "00000001.dat", refs[4].offset + 4)
    with Reader(tmp_path) as reader:
        with pytest.raises(CorruptError):
            list(reader)
        binlog.repair(tmp_path)
        assert [entry.data[:5] for entry in reader] == [b"BIN", b"555", b"666", b"777", b"888", b"999", b"the l"]


def test_a_damaged_entry_leaves_its_range_unverified_and_no_other(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        refs = [writer.append(b"%d" % number * 3) for number in range(10)]
        writer.cutover()
    _flip(tmp_path / "00000001.idx", 32 + 40 * 3 + 28)
    assert len(_read(tmp_path)[0]) == 10
    _flip(tmp_path / "00000001.dat", refs[8].offset + 4)
    found, error = _read(tmp_path, refs[5])
    assert [entry.ref for entry in found] == refs[5:8]
    assert error is not None


def test_a_record_over_the_limit_is_refused_before_its_bytes_are_read(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        writer.append_many([b"small", bytes(300_000), b"small"])
    with Reader(tmp_path, record_bytes_max=100_000) as reader:
        assert next(reader).data == b"small"
        with pytest.raises(FullError):
            next(reader)
    assert [len(entry.data) for entry in Reader(tmp_path, record_bytes_max=300_000)] == [5, 300_000, 5]


def _make_large(log: Path) -> list[Ref]:
    with Writer(log) as writer:
        return [ref for _ in range(20) for ref in writer.append_many([b"x" * 500] * 1000)]


def _index_fd(log: Path) -> int:
    """Return the descriptor of the index that this process has open."""
    index = os.stat(log / "00000001.idx")
    return next(fd for fd in range(3, 1000) if _is_file(fd, index))


def _is_file(fd: int, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), status)
    except OSError:
        return False


@pytest.mark.slow
def test_an_index_that_the_program_closed_is_opened_again(tmp_path: Path) -> None:
    """Its number is another file's by then, which is neither read nor closed."""
    log, another = tmp_path / "log", tmp_path / "another"
    refs = _make_large(log)
    _make_large(another)
    _flip(log / "00000001.dat", refs[19_000].offset + 5)
    with Reader(log) as reader, open(another / "00000001.idx", "rb") as other:
        next(reader)
        fd = _index_fd(log)
        os.dup2(other.fileno(), fd)
        with pytest.raises(CorruptError, match="index-crc"):
            list(reader)
        assert _index_fd(log) != fd
    assert _is_file(fd, os.stat(another / "00000001.idx"))
    os.close(fd)


@pytest.mark.slow
def test_a_following_reader_uses_an_index_that_was_removed_and_rebuilt(tmp_path: Path) -> None:
    _make_large(tmp_path)
    with Reader(tmp_path) as reader:
        assert sum(1 for _ in reader) == 20_000
        (tmp_path / "00000001.idx").unlink()
        refs = _make_large(tmp_path)
        _flip(tmp_path / "00000001.dat", refs[10_000].offset + 5)
        with pytest.raises(CorruptError, match="index-crc"):
            list(reader)


def test_a_file_that_was_cut_within_a_range_is_reported(tmp_path: Path) -> None:
    refs = _make_large(tmp_path)
    os.truncate(tmp_path / "00000001.dat", refs[300].offset)
    found, error = _read(tmp_path)
    assert (error and (error.rule, error.offset)) == ("truncated", refs[300].offset)
    assert [entry.ref for entry in found] == refs[: len(found)]


@pytest.mark.parametrize("first", [0, 1, 700])
def test_entries_of_more_than_one_read_are_found_in_any_order(tmp_path: Path, first: int) -> None:
    """The index has more entries than are read at once."""
    with Writer(tmp_path) as writer:
        refs = [writer.append(b"%d" % number) for number in range(1500)]
        writer.cutover()
    for number in (1499, first, 1200, first):
        with Reader(tmp_path, refs[number]) as reader:
            assert [entry.data for entry in reader] == [b"%d" % each for each in range(number, 1500)]
    _flip(tmp_path / "00000001.dat", refs[1300].offset + 5)
    found, error = _read(tmp_path, refs[first])
    assert error is not None
    assert [entry.ref for entry in found] == refs[first:1300]
