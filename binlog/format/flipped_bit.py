"""Putting one flipped bit right, where a checksum tells which one it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable

BYTES_MAX = 1 << 10
"""Of more, no bit is looked for: that would take long, and the CRC-32C of so few tells up to three bits from one."""


def mended(data: bytes, is_sound: Callable[[bytes], bool], places: Iterable[int] | None = None) -> bytes | None:
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
