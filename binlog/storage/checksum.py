"""CRC-32C of bulk data, by the compiled function."""

from __future__ import annotations

from binlog.storage.native import ffi, lib


def crc32c(data: bytes | memoryview, crc: int = 0) -> int:
    """CRC-32C of `data`, going on from `crc` (0 to start)."""
    return int(lib.binlog_crc32c(crc, ffi.from_buffer("uint8_t[]", data), len(data)))
