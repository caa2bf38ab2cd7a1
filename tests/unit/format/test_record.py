from __future__ import annotations

import itertools
import struct
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog.format.checksums import crc32c, crc32c_in_python
from binlog.format.record import Scan, Stop, part_of_records, scan, unframe_column
from tests.support.logs import frame_all

_RECORDS = st.lists(st.binary(max_size=40), max_size=30)


def _scan(data: bytes, *, to_tail: int | None = None, most: int = 1000, count: int = 1000) -> Scan:
    return scan(data, len(data) if to_tail is None else to_tail, most, count)


def _slowly(data: bytes, to_tail: int, most: int, count: int) -> tuple[list[int], Stop]:
    """Scan records by the plainest code."""
    at, places = 0, [0]
    while len(places) <= count and at < to_tail:
        if to_tail - at < 4:
            return places, Stop.LENGTH
        if len(data) - at < 4:
            return places, Stop.SHORT
        length = struct.unpack_from(">i", data, at)[0]
        if not 0 <= length <= to_tail - at - 4:
            return places, Stop.LENGTH
        if length > most:
            return places, Stop.LARGE
        if length > len(data) - at - 4:
            return places, Stop.SHORT
        at += 4 + length
        places.append(at)
    return places, Stop.END


@given(_RECORDS)
def test_records_are_found_and_gathered(records: list[bytes]) -> None:
    data = frame_all(records)
    found = _scan(data)
    assert (found.record_count, found.consumed, found.stop) == (len(records), len(data), Stop.END)
    values, ends = unframe_column(data, found.offsets)
    assert [bytes(values[a:b]) for a, b in itertools.pairwise(ends)] == records


@pytest.mark.parametrize("offsets", [[], [0, 3], [4, 0], [0, 4, 2**32 - 1], [2**32 - 3, 2], [0, 4, 9]])
def test_wrong_offsets_are_refused(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="offsets are uint32"):
        unframe_column(bytes(8), memoryview(array("I", offsets)))


@given(
    st.one_of(st.binary(max_size=200), _RECORDS.map(frame_all)),
    st.integers(0, 250),
    st.integers(0, 60),
    st.integers(1, 40),
)
def test_any_bytes_are_scanned_as_by_the_plain_code(data: bytes, to_tail: int, most: int, count: int) -> None:
    data = data[:to_tail]
    found = scan(data, to_tail, most, count)
    places, stop = _slowly(data, to_tail, most, count)
    assert (found.offsets.tolist(), found.stop) == (places, stop)
    assert found.consumed == places[-1]


def test_a_length_with_the_highest_bit_is_not_a_record() -> None:
    assert _scan(b"\xff\xff\xff\xff" + bytes(100), to_tail=2**40, most=2**31 - 1).stop is Stop.LENGTH
    assert _scan(b"\x7f\xff\xff\xff" + bytes(100), to_tail=2**40, most=2**31 - 1).stop is Stop.SHORT


@given(_RECORDS, st.integers(0, 30), st.integers(0, 200), st.integers(1, 30))
def test_a_part_has_the_records_that_fit_and_at_least_one(
    records: list[bytes], first: int, size: int, most: int
) -> None:
    data = frame_all(records)
    start = len(frame_all(records[:first]))
    part = part_of_records(data, start, size, 30, most)
    wanted: list[bytes] = []
    for record in records[first:]:
        if len(record) > 30 or len(wanted) == most or (wanted and len(frame_all([*wanted, record])) > size):
            break
        wanted.append(record)
    if not wanted:
        assert part is None
    else:
        assert part is not None
        assert part[0] == frame_all(wanted)
        assert part[2] in (Stop.END, Stop.SHORT, Stop.LARGE)


@given(st.binary(max_size=300), st.integers(0, 2**32 - 1))
def test_the_compiled_crc_equals_the_readable_one(data: bytes, start: int) -> None:
    assert crc32c(data, start) == crc32c(memoryview(data), start) == crc32c_in_python(data, start)


@given(st.binary(min_size=1, max_size=300), st.integers(0, 25_000), st.integers(0, 2**32 - 1))
def test_the_crc_of_large_data_is_that_of_its_parts(piece: bytes, size: int, start: int) -> None:
    """Large data is processed in three parts at once."""
    data = (piece * (size // len(piece) + 1))[:size]
    assert crc32c(data, start) == _crc_of_parts(data, start)


def test_the_crc_of_data_that_releases_the_gil_is_that_of_its_parts() -> None:
    data = bytes(range(256)) * 1025
    assert crc32c(data) == _crc_of_parts(data, 0)


def _crc_of_parts(data: bytes, start: int) -> int:
    crc = start
    for at in range(0, len(data), 100):
        crc = crc32c(data[at : at + 100], crc)
    return crc
