"""CRC-32C (Castagnoli), which headers, slots and indexes carry.

`crc32c` is compiled (native/codec/crc32c.c); `crc32c_in_python` says the same plainly, and a test holds the two equal.
Source: RFC 3720, appendix B.4.
"""

from __future__ import annotations

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
