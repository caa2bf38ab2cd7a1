from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog.format.checksums import crc32c
from binlog.format.index_file import (
    ENTRY_BYTES,
    RANGE_BYTES_MAX,
    IndexEntry,
    entry_columns,
    entry_count,
    entry_offset,
    entry_offsets,
    entry_seed,
    pack_header,
    parse_entry,
)
from binlog.format.names import damaged_file_name, damaged_file_range, index_file_name
from binlog.storage.native import lib


def test_an_index_has_exactly_these_bytes() -> None:
    """Written by hand: a change of any byte needs a new version."""
    assert pack_header(number=7, uuid=bytes(range(16))) == b"BINLOGIX" + bytes.fromhex(
        "0002 0000 00000007 000102030405060708090a0b0c0d0e0f"
    )
    entry = IndexEntry(sequence=1, offset=256, time_ns=2, range_bytes=12, range_crc=0xAABBCCDD, record_count=2)
    data = bytes.fromhex("0000000000000001 0000000000000100 0000000000000002 0000000c aabbccdd 00000002")
    seed = entry_seed(number=7, uuid=bytes(range(16)))
    assert seed == crc32c(bytes(range(16)) + bytes.fromhex("00000007"))
    data += crc32c(data, seed).to_bytes(4, "big")
    assert entry.pack(seed) == data
    assert parse_entry(b"x" + data, seed, 1) == entry
    assert (entry.end, entry.next_sequence) == (268, 3)


@given(st.integers(0, 8 * ENTRY_BYTES - 1))
def test_an_entry_with_a_flipped_bit_is_refused(bit: int) -> None:
    data = bytearray(IndexEntry(1, 256, 2, 12, 0xAABBCCDD, 2).pack(5))
    assert parse_entry(data, 5) is not None
    assert parse_entry(data, 6) is None
    data[bit // 8] ^= 1 << bit % 8
    assert parse_entry(data, 5) is None


def test_a_part_of_an_entry_does_not_count() -> None:
    assert [entry_count(size) for size in (0, 31, 32, 71, 72, 111, 112)] == [0, 0, 0, 0, 1, 1, 2]
    assert entry_offset(2) == 112


_WORD = st.integers(0, 2**64 - 1)
_HALF = st.integers(0, 2**32 - 1)


@given(st.lists(st.builds(IndexEntry, _WORD, _WORD, _WORD, _HALF, _HALF, _HALF), max_size=20))
@pytest.mark.slow
def test_the_columns_contain_the_fields_of_the_entries(entries: list[IndexEntry]) -> None:
    sequences, offsets, times_ns, ends = entry_columns(memoryview(b"".join(entry.pack(0) for entry in entries)))
    assert entry_offsets(b"".join(entry.pack(0) for entry in entries)) == offsets
    found = list(zip(sequences, offsets, times_ns, ends, strict=True))
    assert found == [(entry.sequence, entry.offset, entry.time_ns, entry.end) for entry in entries]


def test_the_compiled_code_has_the_same_limit() -> None:
    assert lib.BINLOG_INDEX_RANGE_BYTES == RANGE_BYTES_MAX


def test_names_read_back() -> None:
    assert index_file_name(7) == "00000007.idx"
    assert damaged_file_range(damaged_file_name(7, 256, 512)) == (7, 256, 512)
    assert damaged_file_range("00000007.dat") is None
