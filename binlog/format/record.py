"""A record in a log file: a 4-byte length, then that many bytes, and nothing between two records."""

from __future__ import annotations

import struct

from binlog.format.layout import Field, Layout

RECORD = Layout(
    "record",
    "A record",
    size=4,
    fields=(Field("length", "u32", "bytes of the record that follow, 0 to 2**31-1"),),
)

LENGTH_BYTES = RECORD.size
RECORD_BYTES_FORMAT_MAX = 2**31 - 1

_LENGTH = struct.Struct(">I")


def frame(record: bytes | bytearray | memoryview) -> bytes:
    """One record as it lies in a file."""
    return b"".join((_LENGTH.pack(len(record)), record))
