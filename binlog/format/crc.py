"""CRC-32C (Castagnoli), which headers, slots and indexes carry.

Written in Python, so that the format can be read and tested without the compiled module; where that is loaded,
`binlog.storage` puts its function (native/crc32c.c) in this one's place, for it is twenty times as fast.  A test holds
the two equal.  Source: RFC 3720, appendix B.4.
"""

from __future__ import annotations

from collections.abc import Callable

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


_function: Callable[[bytes | memoryview, int], int] = crc32c_in_python


def crc32c(data: bytes | memoryview, crc: int = 0) -> int:
    """CRC-32C of `data`, going on from `crc` (0 to start)."""
    return _function(data, crc)


def replace_function(function: Callable[[bytes | memoryview, int], int]) -> None:
    """Have every CRC computed by another function that gives the same."""
    global _function  # noqa: PLW0603 - set once, on import
    _function = function
