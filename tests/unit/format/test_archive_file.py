"""The parts of an archive, packed and parsed; damage is detected."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog.format.archive_file import (
    FACTS_FRAME_BYTES,
    FRAME_BYTES_MAX,
    FRAMES_MAX,
    HEADER_AT,
    RAW_BYTES_MAX,
    SEEK_FOOTER,
    START_BYTES,
    Facts,
    FrameTable,
    frame_bytes_for,
    is_start,
    pack_end,
    pack_start,
    parse_facts,
    parse_table,
    table_bytes,
)

SIZES = st.integers(1, 2**32 - 1)
FRAMES = st.lists(st.tuples(SIZES, SIZES, st.integers(0, 2**32 - 1)), max_size=20)
FIRST = (START_BYTES, 256, 7)


def parsed(end: bytes, *, frames_bytes: int) -> tuple[Facts, FrameTable] | None:
    """Parse the end of an archive as a reader does; None if it is refused."""
    size = table_bytes(end[-9:])
    if size is None or size + FACTS_FRAME_BYTES > len(end):
        return None
    at = len(end) - size
    facts = parse_facts(end[at - FACTS_FRAME_BYTES : at])
    if not isinstance(facts, Facts):
        return None
    table = parse_table(end[at:], facts, table_start=frames_bytes + at)
    return None if table is None else (facts, table)


@given(FRAMES, st.binary(min_size=16, max_size=16))
def test_packed_parts_are_parsed(frames: list[tuple[int, int, int]], uuid: bytes) -> None:
    frames = [FIRST, *frames]
    end = pack_end(number=3, uuid=uuid, frames=frames)
    found = parsed(end, frames_bytes=sum(each[0] for each in frames))
    assert found is not None
    facts, table = found
    assert (facts.number, facts.uuid, facts.raw_bytes) == (3, uuid, sum(each[1] for each in frames))
    assert len(table) == len(frames)
    assert table.starts[0] == table.places[0] == 0
    for number, (frame_bytes, content_bytes, checksum) in enumerate(frames):
        assert table.places[number + 1] - table.places[number] == frame_bytes
        assert table.starts[number + 1] - table.starts[number] == content_bytes
        assert table.checksums[number] == checksum
        assert table.at(table.starts[number]) == table.at(table.starts[number + 1] - 1) == number


@given(FRAMES, st.data())
def test_a_flipped_bit_is_refused(frames: list[tuple[int, int, int]], data: st.DataObject) -> None:
    frames = [FIRST, *frames]
    end = bytearray(pack_end(number=3, uuid=bytes(16), frames=frames))
    bit = data.draw(st.integers(0, 8 * len(end) - 1))
    end[bit // 8] ^= 1 << bit % 8
    assert parsed(bytes(end), frames_bytes=sum(each[0] for each in frames)) is None


def test_a_table_of_another_archive_is_refused() -> None:
    ends = [pack_end(number=3, uuid=bytes(16), frames=[FIRST, (50, 100, crc)]) for crc in (1, 2)]
    assert all(parsed(end, frames_bytes=START_BYTES + 50) for end in ends)
    size = table_bytes(ends[0][-9:])
    assert size is not None
    assert parsed(ends[0][:-size] + ends[1][-size:], frames_bytes=START_BYTES + 50) is None
    assert parsed(ends[0], frames_bytes=START_BYTES + 51) is None


def test_the_table_is_the_seekable_formats() -> None:
    """zstd seekable format 0.1.0: a skippable frame 0x184D2A5E, entries of 12 bytes with checksums, a footer of 9."""
    end = pack_end(number=1, uuid=bytes(16), frames=[FIRST, (50, 100, 9)])
    count, descriptor, magic = struct.unpack("<IBI", end[-9:])
    assert (count, descriptor, magic) == (3, 0x80, 0x8F92EAB1)
    table = end[-9 - 12 * count - 8 :]
    assert struct.unpack_from("<II", table) == (0x184D2A5E, len(table) - 8)
    entries = list(struct.iter_unpack("<III", table[8:-9]))
    assert entries[:2] == [FIRST, (50, 100, 9)]
    # The frame of facts has no content; XXH64 of nothing is 0xEF46DB3751D8E999.
    assert entries[2:] == [(72, 0, 0x51D8E999)]
    assert sum(each[0] for each in entries) == START_BYTES + 50 + len(end) - len(table)


def test_the_header_has_a_fixed_offset() -> None:
    header = bytes(range(256))
    start = pack_start(header, b"sum!")
    assert start[HEADER_AT : HEADER_AT + 256] == header
    assert len(start) == START_BYTES == 270
    assert is_start(start)
    assert not is_start(start[:-1])
    assert not is_start(b"\x28\xb5\x2f\xfd\x24" + start[5:])


@pytest.mark.parametrize("count", [FRAMES_MAX + 3, 2**32 - 1])
def test_too_many_frames_are_refused_by_the_footer(count: int) -> None:
    assert table_bytes(SEEK_FOOTER.pack({"frame_count": count})) is None


@pytest.mark.parametrize("raw_bytes", [0, 1 << 20, 1 << 40, RAW_BYTES_MAX])
def test_frames_grow_with_the_file(raw_bytes: int) -> None:
    """Two neighbours have together more than `frame_bytes`, so there are at most two frames for each, and two more."""
    frame_bytes = frame_bytes_for(raw_bytes)
    assert 1 << 20 <= frame_bytes <= FRAME_BYTES_MAX
    assert 2 * raw_bytes // frame_bytes + 4 <= FRAMES_MAX
