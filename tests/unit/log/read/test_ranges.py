"""Splitting a log: every record is in one piece, and nothing asked for is left out."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog import DamagedRange, Mode, RangeReader, Writer, limit_range, narrow_range, split_range
from tests.support.examples import examples

# The offset, sequence, and time in ns of each record of file 2, and the end of the last one.
Places = tuple[list[tuple[int, int, int]], int]


@pytest.fixture(scope="module", params=["indexed", "no index"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Places]:
    log: Path = tmp_path_factory.mktemp("parts") / "log"
    with Writer(log) as writer:
        writer.append_many([b"in file 1"] * 7)
        writer.cutover()
        for turn in range(60):
            mode = Mode.SYNC if turn % 3 else Mode.FLUSH
            writer.append_many([os.urandom(1) * (turn * size * 37 % 9000) for size in range(turn + 1)], mode=mode)
        writer.cutover()
    found: list[tuple[int, int, int]] = []
    with RangeReader(log, 2) as reader:
        for part in reader:
            assert not isinstance(part, DamagedRange)
            at, batch = 0, part.batch
            assert batch.first_sequence is not None
            for upto, time_ns in zip(part.ends, part.times_ns, strict=True):
                places = range(at, upto)
                found += [(batch.offset + batch.offsets[i], batch.first_sequence + i, time_ns) for i in places]
                at = upto
        end = reader.end
    if request.param == "no index":
        (log / "00000002.idx").unlink()
    return log, (found, end)


indexed = pytest.mark.parametrize("written", ["indexed"], indirect=True)


@pytest.mark.slow
@given(st.data())
@settings(max_examples=examples(60))
def test_pieces_are_consecutive(written: tuple[Path, Places], data: st.DataObject) -> None:
    log, (records, tail) = written
    bounds = [offset for offset, _, _ in records] + [tail]
    start, end = sorted(data.draw(st.tuples(st.sampled_from(bounds), st.sampled_from(bounds))))
    pieces = split_range(log, 2, start, end, bytes_max=data.draw(st.integers(1 << 12, 1 << 22)))
    assert (pieces[0][0], pieces[-1][1]) == (start, end)
    assert all(one[1] == other[0] for one, other in pairwise(pieces))
    assert {at for piece in pieces for at in piece} <= set(bounds)


@indexed
def test_pieces_are_about_as_large_as_asked_for(written: tuple[Path, Places]) -> None:
    log, (records, tail) = written
    sizes = [end - start for start, end in split_range(log, 2, records[0][0], tail, bytes_max=300_000)]
    assert len(sizes) > 5
    assert max(sizes) < 300_000 + (1 << 17)


@given(st.data())
@settings(max_examples=examples(60))
@pytest.mark.slow
def test_narrow_range_leaves_out_nothing_asked_for(written: tuple[Path, Places], data: st.DataObject) -> None:
    log, (records, tail) = written
    times = sorted({time_ns for _, _, time_ns in records})
    time = st.none() | st.sampled_from(times) | st.sampled_from(times).map(lambda each: each + 1)
    sequence = st.none() | st.integers(0, records[-1][1] + 10)
    offset = st.none() | st.integers(0, tail + 10)
    offsets = data.draw(st.tuples(offset, offset))
    sequences = data.draw(st.tuples(sequence, sequence))
    times_ns = data.draw(st.tuples(time, time))
    start, end = narrow_range(log, 2, records[0][0], tail, offsets=offsets, sequences=sequences, times_ns=times_ns)
    asked = [
        offset
        for offset, number, time_ns in records
        if (offsets[0] is None or offset >= offsets[0])
        and (offsets[1] is None or offset <= offsets[1])
        and (sequences[0] is None or number >= sequences[0])
        and (sequences[1] is None or number <= sequences[1])
        and (times_ns[0] is None or time_ns >= times_ns[0])
        and (times_ns[1] is None or time_ns <= times_ns[1])
    ]
    assert [offset for offset in asked if not start <= offset < end] == []
    assert {start, end} <= {offset for offset, _, _ in records} | {tail}


@indexed
def test_narrow_range_leaves_out_nearly_everything_not_asked_for(written: tuple[Path, Places]) -> None:
    log, (records, tail) = written
    for sequence in (7, 300, records[-1][1]):
        start, end = narrow_range(log, 2, records[0][0], tail, sequences=(sequence, sequence))
        assert 0 < end - start < (1 << 17) * 2
    middle = records[len(records) // 2]
    start, end = narrow_range(log, 2, records[0][0], tail, offsets=(middle[0], middle[0]))
    assert start <= middle[0] < end < start + (1 << 17)
    start, end = narrow_range(log, 2, records[0][0], tail, times_ns=(middle[2], middle[2]))
    assert records[0][0] < start <= middle[0] < end < tail
    assert narrow_range(log, 2, records[0][0], tail, sequences=(0, 6)) == (256, 256)
    assert narrow_range(log, 2, records[0][0], tail, sequences=(records[-1][1] + 1, None)) == (256, 256)
    late = narrow_range(log, 2, records[0][0], tail, times_ns=(records[-1][2] + 1, None))
    assert late[0] == late[1]


@pytest.mark.slow
@given(st.data())
@settings(max_examples=examples(60))
def test_limit_range_is_exact_by_records_and_approximate_by_bytes(
    written: tuple[Path, Places], data: st.DataObject
) -> None:
    log, (records, tail) = written
    bounds = [offset for offset, _, _ in records] + [tail]
    first = data.draw(st.integers(0, len(records) - 1))
    count = data.draw(st.integers(1, len(records)))
    at, before = limit_range(log, 2, bounds[first], tail, records_max=count, bytes_max=None)
    assert at == bounds[min(first + count, len(records))]
    assert before == min(count, len(records) - first)
    size = data.draw(st.integers(1, 1 << 21))
    by_bytes, _ = limit_range(log, 2, bounds[first], tail, records_max=None, bytes_max=size)
    assert by_bytes in bounds[first + 1 :]
    assert by_bytes - bounds[first] <= max(size, bounds[first + 1] - bounds[first]) + 9004
    assert by_bytes == tail or by_bytes - bounds[first] >= size - (1 << 16)
    assert limit_range(log, 2, bounds[first], tail, records_max=count, bytes_max=size)[0] == min(at, by_bytes)
