"""CRC-32C by the compiled function, from here on for the whole format as well."""

from __future__ import annotations

from binlog.format.crc import replace_function
from binlog.storage.native import ffi, lib


def crc32c(data: bytes | memoryview, crc: int = 0) -> int:
    """CRC-32C of `data`, going on from `crc` (0 to start)."""
    if type(data) is not bytes:
        data = ffi.from_buffer("uint8_t[]", data)
    return int(lib.binlog_crc32c(crc, data, len(data)))


replace_function(crc32c)
