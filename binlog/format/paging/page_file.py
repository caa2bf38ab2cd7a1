"""What a page file begins with, in each of the layouts.

A page of JBoss Messaging has no header.  Ours has one, with a salt that is new with each file and goes into the CRCs of
its records: a record of another file, which a disk may show where a file grew before a power cut, is none of this one.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from binlog.errors import CorruptError, VersionError
from binlog.format.checksums import crc32c
from binlog.format.layout import Field, Layout

VERSION = 1
SALT_BYTES = 8
_MAGIC = b"BINLOGPG"

PAGE_HEADER = Layout(
    "page_header",
    "The header of a page",
    size=40,
    fields=(
        Field("magic", "bytes:8", "`BINLOGPG`", const=_MAGIC),
        Field("version", "u32", "a reader refuses a version it does not know", const=VERSION),
        Field("reserved", "u32", "0", const=0),
        Field("page_id", "u64", "the number in the file's name"),
        Field("salt", f"bytes:{SALT_BYTES}", "of this file, at random; goes into the CRCs of its records"),
        Field("reserved_2", "u32", "0", const=0),
        Field("crc", "u32", "CRC-32C of 0..35"),
    ),
)
_CRC_OFFSET = PAGE_HEADER.offset("crc")


class PageLayout(enum.Enum):
    """How the pages of an address are laid out.  NATIVE: ours.  JBM: as JBoss Messaging and its heirs have them."""

    NATIVE = "native"
    JBM = "jbm"


class PageHeader(NamedTuple):
    """What a page file says of itself.  salt: empty in the layout of JBoss Messaging, whose pages have no header."""

    page_id: int
    salt: bytes = b""

    @property
    def layout(self) -> PageLayout:
        """How its records are laid out."""
        return PageLayout.NATIVE if self.salt else PageLayout.JBM

    @property
    def size(self) -> int:
        """How many bytes it takes, and so where the first record lies."""
        return PAGE_HEADER.size if self.salt else 0

    def pack(self) -> bytes:
        """The header as it lies in the file."""
        if not self.salt:
            return b""
        data = PAGE_HEADER.pack({"page_id": self.page_id, "salt": self.salt, "crc": 0})[:_CRC_OFFSET]
        return data + crc32c(data).to_bytes(4, "big")


def parse_page_header(data: bytes, page_id: int, path: str, layout: PageLayout) -> PageHeader | None:
    """The header of the page `page_id`, whose file begins with `data`; None for a file that was never begun.

    Raises: CorruptError; VersionError.
    """
    if layout is PageLayout.JBM:
        return PageHeader(page_id)
    if not any(data[: PAGE_HEADER.size]) or (len(data) < PAGE_HEADER.size and _MAGIC.startswith(data[:8])):
        return None  # the process died between the name and the header, or the power went
    if len(data) < PAGE_HEADER.size:
        raise CorruptError(path, 0, "header", f"of the header only {len(data)} bytes are there")
    found = PAGE_HEADER.unpack(data)
    if found["magic"] != _MAGIC or found["crc"] != crc32c(data[:_CRC_OFFSET]):
        raise CorruptError(path, 0, "header_crc", "the header is not what was written")
    if found["version"] != VERSION:
        text = f"{path}: version {found['version']}; {VERSION} is known"
        raise VersionError(text, found=found["version"], known=(VERSION,))
    if found["page_id"] != page_id:
        raise CorruptError(path, PAGE_HEADER.offset("page_id"), "page_id", f"it is page {found['page_id']}")
    return PageHeader(page_id, found["salt"])
