"""The map of free pages at the start of a generation."""

from __future__ import annotations

import struct
from typing import NamedTuple

from binlog.errors import CorruptError, VersionError
from binlog.format.checksums import crc32c
from binlog.format.layout import Field, Layout
from binlog.format.pagestore.page import PAGE_COUNT_MAX

VERSION = 1
_MAGIC = b"BINLOGFM"

FREE_MAP = Layout(
    "free_map",
    "The header of a map of free pages; a bit for each page follows, the highest of a byte first, 1 for a free one",
    size=48,
    fields=(
        Field("magic", "bytes:8", "`BINLOGFM`", const=_MAGIC),
        Field("version", "u32", "a reader refuses a version it does not know", const=VERSION),
        Field("page_bytes", "u32", "page size"),
        Field("generation", "u64", "generation of the log that starts with this map"),
        Field("salt", "bytes:8", "salt of that generation"),
        Field("page_count", "u64", "number of pages in the map; no page after them is in use"),
        Field("bits_crc", "u32", "CRC-32C of the bits that follow"),
        Field("crc", "u32", "CRC-32C of 0..43"),
    ),
)
_CRC_AT = FREE_MAP.offset("crc")
_CRC = struct.Struct(">I")


class FreeMap(NamedTuple):
    """The state of each page: `states` has, in ASCII, `1` for a free page and `0` for any other."""

    page_bytes: int
    generation: int
    salt: bytes
    states: bytes

    def pack(self) -> bytes:
        """Return the bytes of the file."""
        bits = _pack_bits(self.states)
        values: dict[str, int | bytes] = {
            "page_bytes": self.page_bytes,
            "generation": self.generation,
            "salt": self.salt,
            "page_count": len(self.states),
            "bits_crc": crc32c(bits),
            "crc": 0,
        }
        head = FREE_MAP.pack(values)[:_CRC_AT]
        return head + _CRC.pack(crc32c(head)) + bits


def parse_free_map(data: bytes, path: str) -> FreeMap:
    """Parse the bytes of a map.  Raises: CorruptError; VersionError."""
    if len(data) < FREE_MAP.size:
        raise CorruptError(path, 0, "header", f"the header has only {len(data)} bytes")
    found = FREE_MAP.unpack(data)
    if found["magic"] != _MAGIC or found["crc"] != crc32c(data[:_CRC_AT]):
        raise CorruptError(path, 0, "header_crc", "the header is damaged")
    if found["version"] != VERSION:
        text = f"{path}: version {found['version']}; this release reads version {VERSION}"
        raise VersionError(text, found=found["version"], known=(VERSION,))
    count = found["page_count"]
    if count > PAGE_COUNT_MAX:
        raise CorruptError(path, FREE_MAP.offset("page_count"), "page_count", f"{count} pages are too many")
    bits = data[FREE_MAP.size : FREE_MAP.size + _bit_bytes(count)]
    if found["bits_crc"] != crc32c(bits) or len(bits) != _bit_bytes(count):
        raise CorruptError(path, FREE_MAP.size, "bits_crc", "the bits are damaged")
    return FreeMap(found["page_bytes"], found["generation"], found["salt"], _unpack_bits(bits, count))


def _bit_bytes(count: int) -> int:
    return -(-count // 8)


def _pack_bits(states: bytes) -> bytes:
    size = _bit_bytes(len(states))
    return int(states.ljust(8 * size, b"0") or b"0", 2).to_bytes(size, "big")


def _unpack_bits(bits: bytes, count: int) -> bytes:
    return format(int.from_bytes(bits, "big"), f"0{8 * len(bits)}b").encode()[:count] if bits else b""
