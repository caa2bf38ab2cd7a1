"""The map of the pages that are free when a generation of the log begins."""

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
        Field("page_bytes", "u32", "how large a page is"),
        Field("generation", "u64", "of the log that goes on from this map"),
        Field("salt", "bytes:8", "of that generation"),
        Field("page_count", "u64", "so many pages the map is of; no other is in use"),
        Field("bits_crc", "u32", "CRC-32C of the bits that follow"),
        Field("crc", "u32", "CRC-32C of 0..43"),
    ),
)
_CRC_AT = FREE_MAP.offset("crc")
_CRC = struct.Struct(">I")


class FreeMap(NamedTuple):
    """Which pages are free.  states: `0` or `1` for each page, `1` for a free one, in ASCII."""

    page_bytes: int
    generation: int
    salt: bytes
    states: bytes

    def pack(self) -> bytes:
        """The map as it lies in its file."""
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
    """The map that a file holds.  Raises: CorruptError; VersionError."""
    if len(data) < FREE_MAP.size:
        raise CorruptError(path, 0, "header", f"of the header only {len(data)} bytes are there")
    found = FREE_MAP.unpack(data)
    if found["magic"] != _MAGIC or found["crc"] != crc32c(data[:_CRC_AT]):
        raise CorruptError(path, 0, "header_crc", "the header is not what was written")
    if found["version"] != VERSION:
        text = f"{path}: version {found['version']}; {VERSION} is known"
        raise VersionError(text, found=found["version"], known=(VERSION,))
    count = found["page_count"]
    if count > PAGE_COUNT_MAX:
        raise CorruptError(path, FREE_MAP.offset("page_count"), "page_count", f"{count} pages are too many")
    bits = data[FREE_MAP.size : FREE_MAP.size + _bit_bytes(count)]
    if found["bits_crc"] != crc32c(bits) or len(bits) != _bit_bytes(count):
        raise CorruptError(path, FREE_MAP.size, "bits_crc", "the bits are not what was written")
    return FreeMap(found["page_bytes"], found["generation"], found["salt"], _unpack_bits(bits, count))


def _bit_bytes(count: int) -> int:
    return -(-count // 8)


def _pack_bits(states: bytes) -> bytes:
    size = _bit_bytes(len(states))
    return int(states.ljust(8 * size, b"0") or b"0", 2).to_bytes(size, "big")


def _unpack_bits(bits: bytes, count: int) -> bytes:
    return format(int.from_bytes(bits, "big"), f"0{8 * len(bits)}b").encode()[:count] if bits else b""
