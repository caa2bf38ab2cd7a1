"""The archive of a closed log file: its bytes up to the tail, in zstd frames that can be read separately.

Sources: RFC 8878 for frames and skippable frames; the zstd seekable format 0.1.0 for the table of frames at the end.
zstd's integers are little-endian; those of our own facts are big-endian, as in all other files.

The parts of an archive, in order: the frame of the header; frames of records; facts about the file, in a skippable
frame; the table of frames, in another.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from binlog.format.checksums import crc32c
from binlog.format.layout import Field, Layout
from binlog.format.log_header import HEADER_BYTES

VERSION = 1
MAGIC = b"BINLOGAR"

FRAME_BYTES = 1 << 20
"""The content size of a frame of records.  It is larger if a single record is, or if the file is very large."""

FRAME_BYTES_MAX = 8 << 20
"""The largest content of a frame with more than one record, which a reader keeps in memory."""

FRAMES_MAX = 1 << 21
"""A reader refuses more frames, so that its table of them stays small.  A writer's frames grow with the file."""

RAW_BYTES_MAX = FRAMES_MAX // 4 * FRAME_BYTES_MAX
"""A larger file is not archived: 4 TiB."""

# A frame's content size counts from 256 if the field has two bytes, so it is zero here.  The block's header is "last"
# (1), "raw" (0) in the next two bits, and then its size.
ARCHIVE_START = Layout(
    "archive_start",
    "The start of an archive",
    size=14 + HEADER_BYTES,
    fields=(
        Field("magic", "bytes:4", "magic number of a zstd frame, `28 B5 2F FD`", const=b"\x28\xb5\x2f\xfd"),
        Field("descriptor", "bytes:1", "`64`: one segment, its size in two bytes, a checksum", const=b"\x64"),
        Field("content_size", "bytes:2", "`00 00`: 256 bytes", const=bytes(2)),
        Field("block_header", "bytes:3", "`01 08 00`: the last block, not compressed, 256 bytes", const=b"\x01\x08\0"),
        Field("header", f"bytes:{HEADER_BYTES}", "the log file's first 256 bytes"),
        Field("checksum", "bytes:4", "the lowest 32 bits of the XXH64 of the header, little-endian"),
    ),
)

SKIPPABLE = Layout(
    "skippable",
    "What begins a frame that zstd skips",
    size=8,
    little=True,
    fields=(
        Field("magic", "u32", "0x184D2A5B binlog's facts, 0x184D2A5E the table of frames"),
        Field("size", "u32", "bytes that follow"),
    ),
)

ARCHIVE_FACTS = Layout(
    "archive_facts",
    "Our facts",
    size=64,
    fields=(
        Field("magic", "bytes:8", "`BINLOGAR`", const=MAGIC),
        Field("version", "u16", "a reader refuses a version that it does not know", const=VERSION),
        Field("reserved", "u16", "zero", const=0),
        Field("number", "u32", "the log file's number"),
        Field("uuid", "bytes:16", "UUID of the log; zeros if another program made the log file"),
        Field("raw_bytes", "u64", "size of the contents of all frames, which is that of the log file up to its tail"),
        Field("frame_count", "u32", "number of frames with contents of the log file, including the header's frame"),
        Field("dictionary_bytes", "u32", "0; an archive with a dictionary is refused"),
        Field("reserved_3", "u32", "zero", const=0),
        Field("table_crc", "u32", "CRC-32C of the table of frames, from its entries to its end"),
        Field("reserved_2", "u32", "zero", const=0),
        Field("facts_crc", "u32", "CRC-32C of the 60 bytes before"),
    ),
)

SEEK_ENTRY = Layout(
    "seek_entry",
    "An entry of the table of frames",
    size=12,
    little=True,
    fields=(
        Field("frame_bytes", "u32", "size of the frame; each frame starts at the end of the one before it"),
        Field("content_bytes", "u32", "size of the frame's decompressed contents; 0 for a skippable frame"),
        Field("checksum", "u32", "checksum of the contents, the same as the last four bytes of the frame"),
    ),
)

SEEK_FOOTER = Layout(
    "seek_footer",
    "The end of the table of frames, and of the archive",
    size=9,
    little=True,
    fields=(
        Field("frame_count", "u32", "number of entries before this footer"),
        Field("descriptor", "bytes:1", "`80`: entries have checksums", const=b"\x80"),
        Field("magic", "u32", "0x8F92EAB1", const=0x8F92EAB1),
    ),
)

HEADER_AT = ARCHIVE_START.offset("header")
START_BYTES = ARCHIVE_START.size
FACTS_FRAME_BYTES = SKIPPABLE.size + ARCHIVE_FACTS.size

_FACTS_MAGIC, _TABLE_MAGIC = 0x184D2A5B, 0x184D2A5E
_EMPTY_CHECKSUM = 0x51D8E999  # of no bytes
_ENTRY = struct.Struct(SEEK_ENTRY.format)


def frame_bytes_for(raw_bytes: int) -> int:
    """Return the content size of a frame of records in the archive of a file of `raw_bytes` bytes."""
    return max(FRAME_BYTES, raw_bytes // (FRAMES_MAX // 4))


def pack_start(header: bytes, checksum: bytes) -> bytes:
    """Return the frame of a log file's first 256 bytes, which it has uncompressed."""
    return ARCHIVE_START.pack({"header": header, "checksum": checksum})


def is_start(data: bytes) -> bool:
    """Return whether these bytes can be the start of an archive."""
    return len(data) == START_BYTES and data == pack_start(data[HEADER_AT : HEADER_AT + HEADER_BYTES], data[-4:])


@dataclass(frozen=True, slots=True)
class FrameTable:
    """The frames that have bytes of the log file.

    starts, places: their offsets in the log file, and in the archive; both have one item more, the end of the last
    frame.
    checksums: of their content.
    """

    starts: array[int]
    places: array[int]
    checksums: array[int]

    def __len__(self) -> int:
        return len(self.checksums)

    def frames(self) -> list[tuple[int, int, int]]:
        """Return the size of each frame, its content size and checksum, as `pack_end` takes them."""
        return [
            (end - at, until - start, checksum)
            for (at, end), (start, until), checksum in zip(
                pairwise(self.places), pairwise(self.starts), self.checksums, strict=True
            )
        ]

    def at(self, offset: int) -> int:
        """Return the frame that has an offset of the log file."""
        return bisect_right(self.starts, offset) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveEnd:
    """The facts and the table at the end of an archive."""

    number: int
    uuid: bytes
    raw_bytes: int
    table: FrameTable


def pack_end(*, number: int, uuid: bytes, frames: Sequence[tuple[int, int, int]]) -> bytes:
    """Return the bytes after the frames.  frames: the size of each, its content size and checksum."""
    entries = b"".join(_ENTRY.pack(*each) for each in [*frames, (FACTS_FRAME_BYTES, 0, _EMPTY_CHECKSUM)])
    table = entries + SEEK_FOOTER.pack({"frame_count": len(frames) + 1})
    values: dict[str, int | bytes] = {
        "number": number, "uuid": uuid, "raw_bytes": sum(each[1] for each in frames), "frame_count": len(frames),
        "dictionary_bytes": 0, "table_crc": crc32c(table), "facts_crc": 0,
    }  # fmt: skip
    facts = ARCHIVE_FACTS.pack(values)[:-4]
    facts += crc32c(facts).to_bytes(4, "big")
    return _skippable(_FACTS_MAGIC, facts) + _skippable(_TABLE_MAGIC, table)


def _skippable(magic: int, data: bytes) -> bytes:
    return SKIPPABLE.pack({"magic": magic, "size": len(data)}) + data


def table_bytes(footer: bytes) -> int | None:
    """Return the size of the table of frames with its own frame, by the archive's last nine bytes; None if invalid."""
    if len(footer) != SEEK_FOOTER.size:
        return None
    values = SEEK_FOOTER.unpack(footer)
    wanted = (SEEK_FOOTER.const("descriptor"), SEEK_FOOTER.const("magic"))
    # Two more than the limit: the frame of facts, and the dictionary of an old archive.
    if (values["descriptor"], values["magic"]) != wanted or values["frame_count"] > FRAMES_MAX + 2:
        return None
    return SKIPPABLE.size + _ENTRY.size * int(values["frame_count"]) + SEEK_FOOTER.size


@dataclass(frozen=True, slots=True)
class Facts:
    """Our facts as read, checked only by their own CRC."""

    number: int
    uuid: bytes
    raw_bytes: int
    frame_count: int
    dictionary_bytes: int
    table_crc: int


def parse_facts(data: bytes) -> Facts | int | None:
    """Return the facts, from their skippable frame; None if it is damaged; the version if it is an unknown one."""
    facts = data[SKIPPABLE.size :]
    if len(facts) != ARCHIVE_FACTS.size or data != _skippable(_FACTS_MAGIC, facts):
        return None
    values = ARCHIVE_FACTS.unpack(facts)
    if values["magic"] != MAGIC or values["facts_crc"] != crc32c(facts[:-4]):
        return None
    if values["version"] != VERSION:
        return int(values["version"])
    return Facts(**{name: values[name] for name in Facts.__slots__})


def parse_table(data: bytes, facts: Facts, *, table_start: int) -> FrameTable | None:
    """Return the frames, from the table's skippable frame; None if it is damaged or cannot be right.

    table_start: its offset in the archive.
    """
    body = data[SKIPPABLE.size :]
    if data != _skippable(_TABLE_MAGIC, body) or crc32c(body) != facts.table_crc:
        return None
    words = array("I")
    words.frombytes(body[: -SEEK_FOOTER.size])
    if sys.byteorder == "big":
        words.byteswap()
    sizes, contents, checksums = words[::3], words[1::3], words[2::3]
    places = array("Q", accumulate(sizes, initial=0))
    starts = array("Q", accumulate(contents, initial=0))
    count = facts.frame_count
    if (
        not 1 <= count <= FRAMES_MAX
        or list(sizes[count:]) != [FACTS_FRAME_BYTES]
        or any(contents[count:])
        or not all(contents[:count])
        or (sizes[0], contents[0]) != (START_BYTES, HEADER_BYTES)
        or (places[-1], starts[-1]) != (table_start, facts.raw_bytes)
    ):
        return None
    return FrameTable(starts[: count + 1], places[: count + 1], checksums[:count])
