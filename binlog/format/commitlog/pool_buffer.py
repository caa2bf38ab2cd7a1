"""The head of a buffer in shared memory, to which a file's messages are appended before they are written to it."""

from __future__ import annotations

from binlog.format.layout import Field, Layout

_MAGIC = b"BINLOGPB"

POOL_BUFFER = Layout(
    "pool_buffer",
    "The head of a buffer",
    size=24,
    fields=(
        Field("offset", "i64", "where in the commit log the file starts whose bytes follow, at 4096"),
        Field("file_bytes", "u64", "how many there may be"),
        Field("magic", "bytes:8", "`BINLOGPB` while it is in use; anything else otherwise"),
    ),
)

HEAD_BYTES = 4096


def pack_head(*, offset: int, file_bytes: int) -> bytes:
    """The head of a buffer in use."""
    return POOL_BUFFER.pack({"offset": offset, "file_bytes": file_bytes, "magic": _MAGIC})


def parse_head(data: bytes, *, file_bytes: int) -> int | None:
    """Where the file starts whose bytes the buffer has; None where it is not in use, or is of another store's files."""
    head = POOL_BUFFER.unpack(data)
    return head["offset"] if head["magic"] == _MAGIC and head["file_bytes"] == file_bytes else None
