"""A line of text with a checksum: what the small files beside a log hold.

8 hex digits, the CRC-32C of the text; a space; the text; a line feed.
"""

from __future__ import annotations

from binlog.format.crc import crc32c
from binlog.format.flipped_bit import mended

_CRC_BYTES = 9


def pack_text(text: bytes) -> bytes:
    """The line."""
    return b"%08x %s\n" % (crc32c(text), text)


def parse_text(data: bytes) -> tuple[bytes, bool]:
    """The text of a line, and whether a flipped bit of it was put right.  Raises: ValueError."""
    if _is_sound(data):
        return _text(data), False
    right = mended(data, _is_sound)
    if right is None:
        raise ValueError("its CRC does not hold")
    return _text(right), True


def _text(data: bytes) -> bytes:
    return data[_CRC_BYTES:-1]


def _is_sound(data: bytes) -> bool:
    return data == pack_text(_text(data))
