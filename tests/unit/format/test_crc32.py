"""The CRC-32 of the compiled code is zlib's, at every length and wherever the bytes lie."""

from __future__ import annotations

import os
import zlib

from hypothesis import given
from hypothesis import strategies as st

from binlog._codec import crc32


def test_each_short_length_at_each_place_of_a_line() -> None:
    data = os.urandom(1 << 10)
    view = memoryview(data)
    for start in range(16):
        for size in range(400):
            assert crc32(view[start : start + size]) == zlib.crc32(data[start : start + size]), (start, size)


@given(st.binary(max_size=3000), st.binary(max_size=3000), st.integers(0, 2**32 - 1))
def test_what_comes_in_parts_goes_on_from_what_was(one: bytes, other: bytes, start: int) -> None:
    crc = crc32(one, start)
    assert crc == zlib.crc32(one, start)
    assert crc32(other, crc) == zlib.crc32(one + other, start)


def test_much_at_once() -> None:
    data = os.urandom((4 << 20) + 13)
    assert crc32(data) == zlib.crc32(data)
