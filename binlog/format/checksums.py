"""CRC-32C, correction of one flipped bit by a checksum, and lines of text with a checksum.

CRC-32C (Castagnoli) is the checksum of headers, slots and indexes.  `crc32c` is compiled (native/codec/crc32c.c);
`crc32c_in_python` is the same in plain Python, and a test compares the two.  Source: RFC 3720, appendix B.4.

The small files of a log are a line of text with a checksum: 8 hex digits, the CRC-32C of the text; a space; the text; a
line feed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from binlog._codec import crc32c

__all__ = ["crc32c", "crc32c_in_python"]

_POLYNOMIAL = 0x82F63B78  # reflected


def _table() -> tuple[int, ...]:
    entries = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (_POLYNOMIAL if byte & 1 else 0)
        entries.append(byte)
    return tuple(entries)


_TABLE = _table()


def crc32c_in_python(data: bytes | memoryview, crc: int = 0) -> int:
    """Return the CRC-32C of `data`, continuing from `crc` (0 to start)."""
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


BYTES_MAX = 1 << 10
"""Longer data is not corrected: it would take long, and up to here CRC-32C tells one flipped bit from three."""


def correct_flipped_bit(
    data: bytes, is_sound: Callable[[bytes], bool], places: Iterable[int] | None = None
) -> bytes | None:
    """Return the data with the one bit flipped that makes it sound; None if there is none, or the data is too long.

    places: the indexes of bytes to try; all bytes by default.
    """
    if len(data) > BYTES_MAX:
        return None
    for at in range(len(data)) if places is None else places:
        for bit in range(8):
            flipped = bytearray(data)
            flipped[at] ^= 1 << bit
            if is_sound(bytes(flipped)):
                return bytes(flipped)
    return None


_CRC_BYTES = 9


def pack_text(text: bytes) -> bytes:
    """Return a line of the text with its checksum."""
    return b"%08x %s\n" % (crc32c(text), text)


def parse_text(data: bytes) -> tuple[bytes, bool]:
    """Return the text of a line, and whether a flipped bit was corrected.  Raises: ValueError."""
    if _is_sound(data):
        return _text(data), False
    right = correct_flipped_bit(data, _is_sound)
    if right is None:
        raise ValueError("its CRC does not hold")
    return _text(right), True


def _text(data: bytes) -> bytes:
    return data[_CRC_BYTES:-1]


def _is_sound(data: bytes) -> bool:
    return data == pack_text(_text(data))
