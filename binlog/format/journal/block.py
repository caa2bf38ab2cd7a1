"""Blocks of a native journal file, and the fragments of records in them.

Blocks begin at multiples of BLOCK_BYTES, so the first one contains the header of the file.  A record is one fragment,
or several if it does not fit in the rest of its block.  If the head of a fragment would fill the rest of a block, the
rest is zeros, and the fragment begins with the next block.

The CRC of a head covers the salt of the file's use and the offset of the head.  Only the journal writes such heads.  A
reader expects a head only after the last fragment and at the beginning of a block, so it never takes bytes of a body
for a head.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from typing import Any

from binlog.errors import CorruptError
from binlog.format.checksums import crc32c
from binlog.format.layout import Field, Layout

BLOCK_BYTES = 1 << 12
"""A damaged head costs the rest of its block; decision 41 compares other sizes."""

JOURNAL_FRAGMENT = Layout(
    "journal_fragment",
    "The head of a fragment",
    size=12,
    fields=(
        Field("head_crc", "u32", "CRC-32C of the file's salt, of the offset of this head (u64), and of 4..11"),
        Field("data_crc", "u32", "CRC-32C of the bytes that follow the head"),
        Field("data_bytes", "u16", "count of these bytes, at least 1"),
        Field("part", "u8", "1: a whole record, 2: the first of several fragments, 3: a middle one, 4: the last one"),
        Field("kind", "u8", "the kind of the record"),
    ),
)
HEAD_BYTES = JOURNAL_FRAGMENT.size
DATA_BYTES_MAX = BLOCK_BYTES - HEAD_BYTES


class Part(enum.IntEnum):
    """The position of a fragment in its record."""

    WHOLE = 1
    FIRST = 2
    MIDDLE = 3
    LAST = 4


_KIND_MIN, _KIND_MAX = 11, 19
_CRC = struct.Struct(">I")
_SALT_AND_OFFSET = struct.Struct(">8sQ")


def fragment_start(at: int) -> int:
    """Return the start of the next fragment after the offset `at`."""
    left = -at % BLOCK_BYTES
    return at + left if 0 < left <= HEAD_BYTES else at


def fragments_end(at: int, data_bytes: int) -> int:
    """Return the end of the next record after the offset `at`.  data_bytes: its size without heads."""
    start = fragment_start(at)
    room = BLOCK_BYTES - start % BLOCK_BYTES - HEAD_BYTES
    if data_bytes <= room:
        return start + HEAD_BYTES + data_bytes
    blocks, last = divmod(data_bytes - room - 1, DATA_BYTES_MAX)
    return start + HEAD_BYTES + room + blocks * BLOCK_BYTES + HEAD_BYTES + last + 1


def data_bytes_max(at: int, stop: int) -> int:
    """Return the largest size without heads of a record between `at` and `stop`; less than 1 if none fits."""
    start = fragment_start(at)
    room = BLOCK_BYTES - start % BLOCK_BYTES - HEAD_BYTES
    left = stop - start - HEAD_BYTES
    if left <= room:
        return left
    blocks, last = divmod(left - room, BLOCK_BYTES)
    return room + blocks * DATA_BYTES_MAX + max(last - HEAD_BYTES, 0)


def zeros_end(at: int, stop: int) -> int:
    """Return the end of the zeros after the last record: a reader expects the next head there."""
    return min(fragment_start(at) + HEAD_BYTES, stop)


def pack_fragments(kind: int, data: bytes, salt: bytes, at: int) -> bytes:
    """Pack the next record after the offset `at`, with the zeros before it.  data: without heads."""
    packed = bytearray(fragment_start(at) - at)
    parts = list(_split(data, at + len(packed)))
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        which = (Part.LAST if is_last else Part.MIDDLE) if number else (Part.WHOLE if is_last else Part.FIRST)
        values = {"head_crc": 0, "data_crc": crc32c(part), "data_bytes": len(part), "part": which, "kind": kind}
        head = JOURNAL_FRAGMENT.pack(values)[_CRC.size :]
        packed += _CRC.pack(_head_crc(head, salt, at + len(packed))) + head + part
    return bytes(packed)


def _split(data: bytes, at: int) -> Iterator[bytes]:
    while data:
        room = BLOCK_BYTES - at % BLOCK_BYTES - HEAD_BYTES
        yield data[:room]
        at += HEAD_BYTES + len(data[:room])
        data = data[room:]


def fragment_at(data: bytes, at: int, salt: bytes) -> dict[str, Any] | None:
    """Return the valid head at an offset of a file, or None."""
    room = BLOCK_BYTES - at % BLOCK_BYTES
    if room <= HEAD_BYTES or at + HEAD_BYTES > len(data):
        return None
    head = JOURNAL_FRAGMENT.unpack(data, at)
    if head["head_crc"] != _head_crc(data[at + _CRC.size : at + HEAD_BYTES], salt, at):
        return None
    is_known = head["part"] in Part._value2member_map_ and _KIND_MIN <= head["kind"] <= _KIND_MAX
    return head if is_known and 0 < head["data_bytes"] <= min(room, len(data) - at) - HEAD_BYTES else None


def parse_fragments(data: bytes, at: int, salt: bytes, path: str) -> tuple[int, bytes, int]:
    """Return the kind, the bytes without heads, and the end of the record at an offset of a file.

    Raises: CorruptError if there is no record, or it is damaged.
    """
    start = at
    parts: list[bytes] = []
    while True:
        head = fragment_at(data, at, salt)
        if head is None:
            raise CorruptError(path, at, "head", "no fragment of a record begins here")
        if head["part"] not in ((Part.MIDDLE, Part.LAST) if parts else (Part.WHOLE, Part.FIRST)):
            raise CorruptError(path, at, "part", f"a fragment of another record, part {head['part']}")
        at += HEAD_BYTES
        parts.append(data[at : at + head["data_bytes"]])
        if crc32c(parts[-1]) != head["data_crc"]:
            raise CorruptError(path, start, "data", "the record is not what was written")
        at += len(parts[-1])
        if head["part"] in (Part.WHOLE, Part.LAST):
            return int(head["kind"]), b"".join(parts), at
        at = fragment_start(at)


def _head_crc(rest: bytes, salt: bytes, at: int) -> int:
    return crc32c(rest, crc32c(_SALT_AND_OFFSET.pack(salt, at)))
