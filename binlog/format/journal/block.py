"""A journal's file in our layout: blocks, and in them fragments of records.

Blocks begin at multiples of BLOCK_BYTES of the file, so the first one has the file's header in it.  A record is one
fragment, or several if it does not fit in the rest of its block.  No fragment begins where its head would fill the
rest of a block: zeros are there, and the fragment begins with the next block.

A head has a CRC of its own, with the salt of the file's use and its offset in the file.  Only the journal writes such
heads, so no byte of a body is ever taken for one: readers look for heads where the last fragment ended, and where
blocks begin.
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
"""A damaged head costs the rest of its block; decision 41 has what other sizes cost."""

JOURNAL_FRAGMENT = Layout(
    "journal_fragment",
    "The head of a fragment",
    size=12,
    fields=(
        Field("head_crc", "u32", "CRC-32C of the file's salt, of the offset of this head (u64), and of 4..11"),
        Field("data_crc", "u32", "CRC-32C of the bytes that follow the head"),
        Field("data_bytes", "u16", "how many these are; 1 at least"),
        Field("part", "u8", "1: a whole record, 2: the first of several fragments, 3: one between, 4: the last one"),
        Field("kind", "u8", "the type of the record"),
    ),
)
HEAD_BYTES = JOURNAL_FRAGMENT.size
DATA_BYTES_MAX = BLOCK_BYTES - HEAD_BYTES


class Part(enum.IntEnum):
    """Which fragment of a record it is."""

    WHOLE = 1
    FIRST = 2
    BETWEEN = 3
    LAST = 4


_KIND_MIN, _KIND_MAX = 11, 19
_CRC = struct.Struct(">I")
_PLACE = struct.Struct(">8sQ")


def fragment_place(at: int) -> int:
    """Where a fragment begins that comes next after the offset `at`."""
    left = -at % BLOCK_BYTES
    return at + left if 0 < left <= HEAD_BYTES else at


def fragments_end(at: int, data_bytes: int) -> int:
    """Where a record ends that has so many bytes without heads, and comes next after the offset `at`."""
    start = fragment_place(at)
    room = BLOCK_BYTES - start % BLOCK_BYTES - HEAD_BYTES
    if data_bytes <= room:
        return start + HEAD_BYTES + data_bytes
    blocks, last = divmod(data_bytes - room - 1, DATA_BYTES_MAX)
    return start + HEAD_BYTES + room + blocks * BLOCK_BYTES + HEAD_BYTES + last + 1


def data_bytes_max(at: int, stop: int) -> int:
    """How many bytes a record may have that comes next after `at`, and ends at `stop` at most; less than 1 for none."""
    start = fragment_place(at)
    room = BLOCK_BYTES - start % BLOCK_BYTES - HEAD_BYTES
    left = stop - start - HEAD_BYTES
    if left <= room:
        return left
    blocks, last = divmod(left - room, BLOCK_BYTES)
    return room + blocks * DATA_BYTES_MAX + max(last - HEAD_BYTES, 0)


def zeros_end(at: int, stop: int) -> int:
    """Up to where zeros follow the last record, which ends at `at`: there a reader looks for the next head."""
    return min(fragment_place(at) + HEAD_BYTES, stop)


def pack_fragments(kind: int, data: bytes, salt: bytes, at: int) -> bytes:
    """A record, as it comes next after the offset `at` of a file, with the zeros before it.  data: without heads."""
    packed = bytearray(fragment_place(at) - at)
    parts = list(_divided(data, at + len(packed)))
    for number, part in enumerate(parts):
        is_last = number == len(parts) - 1
        which = (Part.LAST if is_last else Part.BETWEEN) if number else (Part.WHOLE if is_last else Part.FIRST)
        values = {"head_crc": 0, "data_crc": crc32c(part), "data_bytes": len(part), "part": which, "kind": kind}
        head = JOURNAL_FRAGMENT.pack(values)[_CRC.size :]
        packed += _CRC.pack(_head_crc(head, salt, at + len(packed))) + head + part
    return bytes(packed)


def _divided(data: bytes, at: int) -> Iterator[bytes]:
    while data:
        room = BLOCK_BYTES - at % BLOCK_BYTES - HEAD_BYTES
        yield data[:room]
        at += HEAD_BYTES + len(data[:room])
        data = data[room:]


def fragment_at(data: bytes, at: int, salt: bytes) -> dict[str, Any] | None:
    """The head at an offset of a file whose bytes are `data`; None if there is none."""
    room = BLOCK_BYTES - at % BLOCK_BYTES
    if room <= HEAD_BYTES or at + HEAD_BYTES > len(data):
        return None
    found = JOURNAL_FRAGMENT.unpack(data, at)
    if found["head_crc"] != _head_crc(data[at + _CRC.size : at + HEAD_BYTES], salt, at):
        return None
    is_one = found["part"] in Part._value2member_map_ and _KIND_MIN <= found["kind"] <= _KIND_MAX
    return found if is_one and 0 < found["data_bytes"] <= min(room, len(data) - at) - HEAD_BYTES else None


def parse_fragments(data: bytes, at: int, salt: bytes, path: str) -> tuple[int, bytes, int]:
    """The record at an offset of a file whose bytes are `data`: its kind, its bytes without heads, and where it ends.

    Raises: CorruptError if there is none, or it is damaged.
    """
    start = at
    parts: list[bytes] = []
    while True:
        found = fragment_at(data, at, salt)
        if found is None:
            raise CorruptError(path, at, "head", "no fragment of a record begins here")
        if found["part"] not in ((Part.BETWEEN, Part.LAST) if parts else (Part.WHOLE, Part.FIRST)):
            raise CorruptError(path, at, "part", f"a fragment of another record, part {found['part']}")
        at += HEAD_BYTES
        parts.append(data[at : at + found["data_bytes"]])
        if crc32c(parts[-1]) != found["data_crc"]:
            raise CorruptError(path, start, "data", "the record is not what was written")
        at += len(parts[-1])
        if found["part"] in (Part.WHOLE, Part.LAST):
            return int(found["kind"]), b"".join(parts), at
        at = fragment_place(at)


def _head_crc(rest: bytes, salt: bytes, at: int) -> int:
    return crc32c(rest, crc32c(_PLACE.pack(salt, at)))
