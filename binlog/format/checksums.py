"""A line of text with a checksum: what the small files beside a log hold.

8 hex digits, the CRC-32C of the text; a space; the text; a line feed.

CRC-32C (Castagnoli), which headers, slots and indexes carry.

`crc32c` is compiled (native/codec/crc32c.c); `crc32c_in_python` says the same plainly, and a test holds the two equal.
Source: RFC 3720, appendix B.4.

Putting one flipped bit right, where a checksum tells which one it is.
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
    """CRC-32C of `data`, going on from `crc` (0 to start)."""
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


BYTES_MAX = 1 << 10
"""Of more, no bit is looked for: that would take long, and the CRC-32C of so few tells up to three bits from one."""


def correct_flipped_bit(
    data: bytes, is_sound: Callable[[bytes], bool], places: Iterable[int] | None = None
) -> bytes | None:
    """The data with the one bit flipped that makes it sound; None if there is none, or the data is too long.

    places: the bytes to look in; all of them if not given.
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
    """The line."""
    return b"%08x %s\n" % (crc32c(text), text)


def parse_text(data: bytes) -> tuple[bytes, bool]:
    """The text of a line, and whether a flipped bit of it was put right.  Raises: ValueError."""
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
