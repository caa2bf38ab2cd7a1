"""The compiled CRC-32 equals zlib's, at every length and alignment."""

from __future__ import annotations

import os
import zlib

from hypothesis import given
from hypothesis import strategies as st

from binlog._codec import crc32


def test_each_short_length_at_each_alignment() -> None:
    data = os.urandom(1 << 10)
    view = memoryview(data)
    for start in range(16):
        for size in range(400):
            assert crc32(view[start : start + size]) == zlib.crc32(data[start : start + size]), (start, size)


@given(st.binary(max_size=3000), st.binary(max_size=3000), st.integers(0, 2**32 - 1))
def test_the_crc_of_parts_is_that_of_the_whole(one: bytes, other: bytes, start: int) -> None:
    crc = crc32(one, start)
    assert crc == zlib.crc32(one, start)
    assert crc32(other, crc) == zlib.crc32(one + other, start)


def test_a_large_buffer() -> None:
    data = os.urandom((4 << 20) + 13)
    assert crc32(data) == zlib.crc32(data)
