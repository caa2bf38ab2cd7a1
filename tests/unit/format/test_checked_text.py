"""A line of text with a checksum: one flipped bit is corrected, more are an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog.format.checksums import BYTES_MAX, correct_flipped_bit, pack_text, parse_text


def test_the_bytes() -> None:
    assert pack_text(b"123456789") == b"e3069283 123456789\n"  # RFC 3720: the CRC-32C of these digits
    assert parse_text(b"e3069283 123456789\n") == (b"123456789", False)


@given(st.binary(max_size=60))
@pytest.mark.slow
def test_each_flipped_bit_is_corrected(text: bytes) -> None:
    line = pack_text(text)
    for bit in range(8 * len(line)):
        flipped = bytearray(line)
        flipped[bit // 8] ^= 1 << bit % 8
        assert parse_text(bytes(flipped)) == (text, True)


@given(st.binary(max_size=60), st.sets(st.integers(0, 10**6), min_size=2, max_size=3))
def test_two_or_three_flipped_bits_are_an_error(text: bytes, bits: set[int]) -> None:
    line = pack_text(text)
    flipped = bytearray(line)
    for bit in bits:
        flipped[bit % (8 * len(line)) // 8] ^= 1 << bit % 8
    if sum((old ^ new).bit_count() for old, new in zip(line, flipped, strict=True)) < 2:
        return  # the same bit twice
    with pytest.raises(ValueError, match="its CRC does not hold"):
        parse_text(bytes(flipped))


@pytest.mark.parametrize("data", [b"", b"\n", b"e3069283", b"e3069283 123456789", b"E3069283 123456789\n\n"])
def test_other_text_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="its CRC does not hold"):
        parse_text(data)


def test_a_long_text_is_not_corrected() -> None:
    line = bytearray(pack_text(bytes(BYTES_MAX)))
    line[20] ^= 1
    with pytest.raises(ValueError, match="its CRC does not hold"):
        parse_text(bytes(line))


def test_only_bits_in_the_given_places_are_corrected() -> None:
    assert correct_flipped_bit(b"\0\1", lambda data: data == b"\0\0") == b"\0\0"
    assert correct_flipped_bit(b"\0\1", lambda data: data == b"\0\0", [0]) is None
