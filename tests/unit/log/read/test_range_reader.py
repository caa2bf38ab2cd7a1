"""A range of a file, read by its index, is the same as from a Reader, with the times of the index."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlog import DamagedRange, Mode, RangeReader, Reader, TimedBatch, Writer
from binlog.errors import CorruptError, FullError
from tests.support.examples import examples

Row = tuple[int, int | None, bytes, int | None]

# Small ones, one as large as an index range, and one larger than a read.
SIZES = st.one_of(st.integers(0, 300), st.sampled_from([1 << 16, 70_000, 1_200_000]))


def rows(log: Path, number: int, start: int | None = None, end: int | None = None) -> list[Row | DamagedRange]:
    """Return (offset, sequence, record, time in ns) for each record."""
    found: list[Row | DamagedRange] = []
    with RangeReader(log, number, start, end) as reader:
        for part in reader:
            if isinstance(part, DamagedRange):
                found.append(part)
                continue
            at, batch = 0, part.batch
            times = []
            for upto, time_ns in zip(part.ends, part.times_ns, strict=True):
                assert upto > at
                times += [time_ns] * (upto - at)
                at = upto
            assert not part.ends or len(times) == len(batch)
            for index, record in enumerate(batch):
                sequence = None if batch.first_sequence is None else batch.first_sequence + index
                found.append((batch.offset + batch.offsets[index], sequence, record, times[index] if times else None))
    return found


def by_reader(log: Path, number: int) -> list[tuple[int, int, bytes]]:
    with Reader(log) as reader:
        return [(entry.ref.offset, at, entry.data) for at, entry in enumerate(reader) if entry.ref.number == number]


@pytest.mark.slow
@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_range_is_the_same_as_from_a_reader(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    log = tmp_path_factory.mktemp("parts") / "log"
    with Writer(log) as writer:
        for synced in data.draw(st.lists(st.booleans(), min_size=1, max_size=12)):
            sizes = data.draw(st.lists(SIZES, min_size=1, max_size=20))
            writer.append_many([os.urandom(1) * size for size in sizes], mode=Mode.SYNC if synced else Mode.FLUSH)
        if data.draw(st.booleans()):
            writer.cutover()
    expected = by_reader(log, 1)
    bounds = [offset for offset, _, _ in expected] + [expected[-1][0] + 4 + len(expected[-1][2])]
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(expected))] * 2)))
    found = rows(log, 1, bounds[first], bounds[last])
    assert [row[:3] for row in found if not isinstance(row, DamagedRange)] == expected[first:last]
    assert len(found) == last - first


def test_times_are_those_of_the_commits(log: Path) -> None:
    with Writer(log) as writer:
        before = time.time_ns()
        writer.append_many([b"one", b"two"])
        between = time.time_ns()
        writer.append(b"three")
        after = time.time_ns()
    first, second, third = rows(log, 1)
    times = [row[3] for row in (first, second, third) if not isinstance(row, DamagedRange)]
    assert before <= (times[0] or 0) <= between <= (times[2] or 0) <= after
    assert times[0] == times[1]


def test_without_an_index_there_are_no_times(log: Path) -> None:
    with Writer(log) as writer:
        writer.append_many([b"one", b"two"])
    (log / "00000001.idx").unlink()
    assert rows(log, 1) == [(256, 0, b"one", None), (263, 1, b"two", None)]
    assert rows(log, 1, 263) == [(263, 1, b"two", None)]


def test_a_range_outside_of_the_file_is_refused(log: Path) -> None:
    with Writer(log) as writer:
        writer.append_many([b"one", b"two"])
    for start, end in ((255, 263), (256, 271), (263, 256)):
        with pytest.raises(ValueError, match="is not in file 1"):
            RangeReader(log, 1, start, end)
    for start, end in ((257, 270), (256, 262)):
        with RangeReader(log, 1, start, end) as reader, pytest.raises(ValueError, match=r"no record|is not the start"):
            list(reader)
    (log / "00000001.idx").unlink()
    for start, end in ((257, 270), (256, 262)):
        with RangeReader(log, 1, start, end) as reader, pytest.raises((ValueError, CorruptError)):
            list(reader)


def flip(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


def test_damage_is_reported_and_the_rest_read(log: Path) -> None:
    with Writer(log) as writer:
        refs = [writer.append(b"%d" % number * 100) for number in range(5)]
    flip(log / "00000001.dat", refs[2].offset + 50)
    found = rows(log, 1)
    assert found[2] == DamagedRange(refs[2].offset, refs[3].offset, 1)
    assert [row[2][:1] for row in found if not isinstance(row, DamagedRange)] == [b"0", b"1", b"3", b"4"]
    assert rows(log, 1, refs[3].offset) == found[3:]
    flip(log / "00000001.dat", refs[2].offset + 50)


def test_a_bad_length_without_an_index_is_an_error(log: Path) -> None:
    with Writer(log) as writer:
        writer.append_many([b"one", b"two"])
    (log / "00000001.idx").unlink()
    flip(log / "00000001.dat", 263)
    with RangeReader(log, 1) as reader:
        assert isinstance(next(iter(reader)), TimedBatch)
        with pytest.raises(CorruptError):
            list(reader)
    flip(log / "00000001.dat", 263)


@pytest.mark.parametrize("size", [1000, 2_000_000])
@pytest.mark.parametrize("indexed", [True, False])
def test_a_record_over_the_limit_is_refused(log: Path, size: int, indexed: bool) -> None:
    with Writer(log) as writer:
        writer.append_many([b"small", bytes(size), b"small"])
    if not indexed:
        (log / "00000001.idx").unlink()
    with RangeReader(log, 1, record_bytes_max=999) as reader, pytest.raises(FullError, match=f"1:265 .* {size} bytes"):
        list(reader)
    with RangeReader(log, 1, record_bytes_max=size) as reader:
        assert sum(len(part.batch) for part in reader if isinstance(part, TimedBatch)) == 3
