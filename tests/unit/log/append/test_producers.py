"""Appending batches all or none, and a producer's batches exactly once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import binlog
from binlog import Batch, Mode, ProducerBatch, Reader, Ref, Writer
from binlog.errors import ClosedError, CorruptError, FullError, GoneError, PoisonedError, StateError
from binlog.format.checksums import crc32c, pack_text
from tests.support.indexes import check_entries, index_entries
from tests.support.logs import jpos_file, read_all


def batches(*records: bytes) -> list[Batch]:
    return [Batch.from_records([record]) for record in records]


@given(st.lists(st.binary(max_size=50), max_size=30))
def test_a_batch_is_made_of_records_and_of_packed_ones(records: list[bytes]) -> None:
    batch = Batch.from_records(records)
    assert list(batch) == records
    values, bounds = batch.packed()
    again = Batch.from_packed(values, bounds)
    assert list(again) == records
    assert again.data == batch.data
    part = Batch.from_packed(values, bounds[len(records) // 2 :])
    assert list(part) == records[len(records) // 2 :]


@given(st.lists(st.binary(max_size=50), max_size=30), st.integers(0, 100))
def test_a_batch_is_made_of_the_whole_records_at_the_start_of_framed_bytes(records: list[bytes], cut: int) -> None:
    whole = Batch.from_records(records)
    data = whole.data[: max(0, len(whole.data) - cut)]
    batch = Batch.from_framed(data)
    assert list(batch) == records[: len(batch)]
    assert batch.data == data[: batch.offsets[-1]]
    left = len(data) - batch.offsets[-1]
    assert left == 0 or left < 4 + len(records[len(batch)])


@pytest.mark.parametrize("error", [GoneError("another log's"), PoisonedError("another log's"), OSError(5, "no")])
@pytest.mark.parametrize("as_batch", [False, True])
def test_an_error_of_the_iterable_of_batches_is_raised_and_nothing_appended(
    log: Path, error: Exception, as_batch: bool
) -> None:
    def given() -> Iterator[Batch]:
        yield Batch.from_records([b"half"])
        raise error

    with Writer(log) as writer:
        writer.append(b"before")
        append = partial(writer.append_idempotent, producer="s", sequence=1) if as_batch else writer.append_batches
        with pytest.raises(type(error)) as caught:
            append(given())
        assert caught.value is error
        assert writer.last_producer_batch("s") is None
        assert append(batches(b"whole")) is not None
    assert read_all(log) == [b"before", b"whole"]


def test_an_impossible_length_is_refused() -> None:
    with pytest.raises(ValueError, match="the length at 5 is not one of a record"):
        Batch.from_framed(b"\0\0\0\1a\x80\0\0\0")


@pytest.mark.parametrize("bounds", [[0, 5], [3, 2], [-1, 2], [0, 3, 2], []])
def test_bounds_that_do_not_rise_within_the_values_are_refused(bounds: list[int]) -> None:
    import array

    with pytest.raises(ValueError, match="rise within the values"):
        Batch.from_packed(b"1234", memoryview(array.array("i", bounds)))


def test_a_batch_read_is_a_batch_appended(log: Path, tmp_path: Path) -> None:
    with Writer(log) as writer:
        writer.append_many([b"%d" % number for number in range(100)])
    with Reader(log) as reader, Writer(tmp_path / "copy") as copy:
        batch = reader.read_batch(records_max=60)
        assert copy.append_batch(batch) == Ref(1, 256)
        copy.append_batch(reader.read_batch(), mode=Mode.FLUSH)
    assert read_all(tmp_path / "copy") == read_all(log)


def test_an_invalid_batch_is_refused_and_nothing_appended(log: Path) -> None:
    good = Batch.from_records([b"good", b"fine"])
    bad = Batch(0, 0, good.data, good.offsets[:2], None)
    longer = Batch(0, 0, good.data[:8] + b"\0\0\0\5" + good.data[12:], good.offsets, None)
    with Writer(log) as writer:
        writer.append_batch(bad)  # the first of the two, whose data may continue
        for batch in (longer, Batch(0, 0, b"\xff" * 16, good.offsets, None)):
            with pytest.raises(ValueError, match="offsets are not those of the records in its data"):
                writer.append_batch(batch)
            with pytest.raises(ValueError, match="offsets are not those of the records in its data"):
                writer.append_batches([good, batch])
        with pytest.raises(ValueError, match="has no ref"):
            writer.append_batch(Batch.from_records([]))
        writer.append(b"after")
    assert read_all(log) == [b"good", b"after"]


@pytest.mark.slow
def test_large_batches_are_appended_together(log: Path) -> None:
    large = [Batch.from_records([b"%d" % number * 1000 for number in range(first, first + 500)]) for first in range(20)]
    with Writer(log) as writer:
        writer.append(b"before")
        assert writer.append_batches(iter(large)) == Ref(1, 266)
        assert writer.append_batches([]) is None
        writer.append(b"after")
    assert read_all(log) == [b"before", *(record for batch in large for record in batch), b"after"]
    assert check_entries(log) == 0


@pytest.mark.parametrize("before", [0, 3])
def test_the_index_is_made_of_large_batches_as_they_come_and_of_small_ones_after(log: Path, before: int) -> None:
    sizes = [100_000, 70_000, 500, 90_000]
    with Writer(log) as writer:
        for _ in range(before):
            writer.append(b"x" * 50_000, mode=Mode.FLUSH)
        for kind in ("together", "again"):
            writer.append_batches([Batch.from_records([b"y" * 700] * (size // 700) or [b"z"]) for size in sizes])
            assert check_entries(log) == 0, kind
        times = [entry.time_ns for entry in index_entries(log)]
        assert times == sorted(times)
        # The kernel's time of a write is that of its last tick, up to 10 ms before.
        assert times[-1] <= (log / "00000001.dat").stat().st_mtime_ns + 10**7
    assert not binlog.check(log)


@pytest.mark.parametrize("sizes", [[100_000, 200_000], [100_000, 500, 90_000], [500], [100_000, 70_000, 3_000_000]])
def test_the_crc_of_a_producer_batch_is_of_all_its_records(log: Path, sizes: list[int]) -> None:
    given = [Batch.from_records([b"%d" % size * 100] * (size // 100)) for size in sizes]
    with Writer(log) as writer:
        writer.append(b"before")
        batch = writer.append_idempotent(given, producer="s", sequence=0)
    assert batch is not None
    assert batch.crc == crc32c(b"".join(bytes(batch.data) for batch in given))


def test_space_is_prepared_ahead_of_batches(log: Path) -> None:
    mebibyte = Batch.from_records([b"x" * 1020] * 1024)
    with Writer(log, prepare_bytes=8 << 20) as writer:
        assert writer.append_batches([mebibyte] * 17) == Ref(1, 256)
        status = (log / "00000001.dat").stat()
    # 1, 2, 4 and 8 MiB in addition to the existing size, and 8 more for the rest.
    assert 17 << 20 < status.st_size <= 25 << 20
    assert status.st_blocks * 512 >= status.st_size
    assert len(read_all(log)) == 17 * 1024


def test_an_error_of_the_caller_leaves_nothing(log: Path) -> None:
    def failing() -> Iterator[Batch]:
        yield from batches(b"1", b"2")
        raise LookupError("the source has gone")

    with Writer(log) as writer:
        for _ in range(2):
            with pytest.raises(LookupError):
                writer.append_idempotent(failing(), producer="s", sequence=1)
            writer.append(b"between")
        assert writer.last_producer_batch("s") is None
        assert writer.append_idempotent(batches(b"1", b"2"), producer="s", sequence=1) is not None
    assert read_all(log) == [b"between", b"between", b"1", b"2"]


def test_a_producer_batch_is_appended_once(log: Path) -> None:
    with Writer(log) as writer:
        assert writer.last_producer_batch("s") is None
        batch = writer.append_idempotent(batches(b"1", b"2"), producer="s", sequence=0)
        assert batch == ProducerBatch("s", 0, 2, 1, 256, 266, batch.crc if batch else 0)
        assert writer.append_idempotent(batches(b"1", b"2"), producer="s", sequence=0) is None
        assert writer.last_producer_batch("s") == batch
        writer.append(b"by another")
        assert writer.append_idempotent(batches(b"1", b"2"), producer="other", sequence=0) is not None
        assert writer.append_idempotent(batches(b"3"), producer="s", sequence=5) is not None
        assert writer.append_idempotent(batches(b"4"), producer="s", sequence=4) is None
    with Writer(log) as writer:
        assert writer.append_idempotent(batches(b"3"), producer="s", sequence=5) is None
        found = writer.last_producer_batch("s")
        assert found is not None
        assert (found.sequence, found.ref) == (5, Ref(1, 290))
    assert read_all(log) == [b"1", b"2", b"by another", b"1", b"2", b"3"]


def test_a_producer_batch_without_records_counts(log: Path) -> None:
    with Writer(log) as writer:
        assert writer.append_idempotent([], producer="s", sequence=3) is not None
        assert writer.append_idempotent(batches(b"late"), producer="s", sequence=3) is None
        assert writer.append_idempotent(batches(b"next"), producer="s", sequence=4) is not None
    assert read_all(log) == [b"next"]


def test_last_batches_survive_cutovers_and_pruning(log: Path) -> None:
    with Writer(log) as writer:
        writer.append_idempotent(batches(b"1"), producer="s", sequence=0)
        writer.cutover()
        writer.append(b"2")
        binlog.prune(log, before=Ref(2, 256))
        assert writer.append_idempotent(batches(b"1"), producer="s", sequence=0) is None
        assert writer.append_idempotent(batches(b"3"), producer="s", sequence=1) is not None
    assert read_all(log) == [b"2", b"3"]


def test_a_limit_cuts_over_after_a_producer_batch(log: Path) -> None:
    with Writer(log, cutover_bytes=1000) as writer:
        writer.append_idempotent(batches(bytes(600), bytes(600)), producer="s", sequence=0)
        assert writer.append(b"after").number == 2
        assert writer.append_idempotent(batches(b"1"), producer="s", sequence=1) is not None


def test_invalid_sequences_are_refused(log: Path) -> None:
    with Writer(log, record_bytes_max=10) as writer:
        with pytest.raises(ValueError, match="a sequence is 0 to"):
            writer.append_idempotent([], producer="s", sequence=-1)
        with pytest.raises(TypeError, match="whole number, not str"):
            writer.append_idempotent([], producer="s", sequence="1")  # type: ignore[arg-type]
        with pytest.raises(FullError, match="a record of 11 bytes; the limit is 10"):
            writer.append_idempotent(batches(bytes(11)), producer="s", sequence=1)
        writer.append(b"fine")
    with pytest.raises(ClosedError):
        writer.append_idempotent([], producer="s", sequence=1)
    assert read_all(log) == [b"fine"]


def test_another_programs_file_takes_no_producer_batch_until_it_is_cut_over(log: Path) -> None:
    log.mkdir()
    jpos_file(log, [b"theirs"])
    with Writer(log) as writer:
        with pytest.raises(StateError, match="cut over first"):
            writer.append_idempotent(batches(b"1"), producer="s", sequence=0)
        assert writer.last_producer_batch("s") is None
        writer.cutover()
        assert writer.append_idempotent(batches(b"1"), producer="s", sequence=0) is not None
    assert read_all(log) == [b"theirs", b"1"]


def test_a_damaged_producer_file_raises(log: Path) -> None:
    with Writer(log) as writer:
        writer.append_idempotent(batches(b"1"), producer="s", sequence=0)
        [file] = log.glob("*.producer")
        good = file.read_bytes()
        file.write_bytes(good[:-5])
        with pytest.raises(CorruptError, match="it is no producer batch"):
            writer.append_idempotent(batches(b"2"), producer="s", sequence=1)
        file.write_bytes(pack_text(json.dumps({**json.loads(good[9:]), "producer": "another"}).encode()))
        with pytest.raises(CorruptError, match="it is a batch of 'another'"):
            writer.last_producer_batch("s")
        file.write_bytes(good)
        assert writer.append_idempotent(batches(b"2"), producer="s", sequence=1) is not None


def test_a_flipped_bit_in_a_producer_file_is_reported_and_repaired(log: Path) -> None:
    with Writer(log) as writer:
        writer.append_idempotent(batches(b"1"), producer="s", sequence=7)
        [file] = log.glob("*.producer")
        good = file.read_bytes()
        flipped = bytearray(good)
        flipped[good.index(b'"sequence": 7') + 12] ^= 1  # which reads 6
        file.write_bytes(flipped)
        assert [(problem.path, problem.rule) for problem in binlog.check(log)] == [(str(file), "producer")]
        last = writer.last_producer_batch("s")
        assert last is not None
        assert last.sequence == 7
        assert writer.append_idempotent(batches(b"1"), producer="s", sequence=7) is None
    assert file.read_bytes() == flipped
    assert [(each.path, each.action) for each in binlog.repair(log, dry_run=True)] == [(str(file), "producer")]
    assert file.read_bytes() == flipped
    assert [(each.path, each.action) for each in binlog.repair(log)] == [(str(file), "producer")]
    assert file.read_bytes() == good
    assert binlog.check(log) == []


def test_a_producer_file_without_a_checksum_is_refused(log: Path) -> None:
    with Writer(log) as writer:
        writer.append_idempotent(batches(b"1"), producer="s", sequence=7)
    [file] = log.glob("*.producer")
    file.write_bytes(file.read_bytes()[9:-1])
    assert file.read_bytes().startswith(b'{"producer"')
    assert [(problem.path, problem.rule) for problem in binlog.check(log)] == [(str(file), "producer")]
    with Writer(log) as writer, pytest.raises(CorruptError, match="it is no producer batch"):
        writer.append_idempotent(batches(b"2"), producer="s", sequence=8)
    file.unlink()


def test_check_reports_an_unreadable_producer_file(log: Path) -> None:
    with Writer(log) as writer:
        writer.append_idempotent(batches(b"1"), producer="s", sequence=7)
    [file] = log.glob("*.producer")
    file.write_bytes(b"nothing\n")
    assert [(problem.path, problem.rule) for problem in binlog.check(log)] == [(str(file), "producer")]
    assert binlog.repair(log) == []
    file.unlink()
