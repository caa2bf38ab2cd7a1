"""The header of a page file, in both layouts.

A page of JBoss Messaging has no header.  Ours has one, with a new random salt for each file, which is part of the CRCs
of its records.  A disk may show old records of another file in a file that grew before a power cut; their CRCs do not
match.
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
        Field("page_id", "u64", "number in the file's name"),
        Field("salt", f"bytes:{SALT_BYTES}", "random bytes of this file; the CRC of each record includes them"),
        Field("reserved_2", "u32", "0", const=0),
        Field("crc", "u32", "CRC-32C of 0..35"),
    ),
)
_CRC_OFFSET = PAGE_HEADER.offset("crc")


class PageLayout(enum.Enum):
    """The layout of an address's pages.

    NATIVE: ours.  JBM: that of JBoss Messaging and its successors.
    """

    NATIVE = "native"
    JBM = "jbm"


class PageHeader(NamedTuple):
    """The header of a page file.  salt: empty in the layout of JBoss Messaging, whose pages have no header."""

    page_id: int
    salt: bytes = b""

    @property
    def layout(self) -> PageLayout:
        """The layout of the records."""
        return PageLayout.NATIVE if self.salt else PageLayout.JBM

    @property
    def size(self) -> int:
        """The size of the header, which is the offset of the first record."""
        return PAGE_HEADER.size if self.salt else 0

    def pack(self) -> bytes:
        """Return the bytes of the header."""
        if not self.salt:
            return b""
        data = PAGE_HEADER.pack({"page_id": self.page_id, "salt": self.salt, "crc": 0})[:_CRC_OFFSET]
        return data + crc32c(data).to_bytes(4, "big")


def parse_page_header(data: bytes, page_id: int, path: str, layout: PageLayout) -> PageHeader | None:
    """Parse the header of a page; return None if the file was never begun.

    Raises: CorruptError; VersionError.
    """
    if layout is PageLayout.JBM:
        return PageHeader(page_id)
    if not any(data[: PAGE_HEADER.size]) or (len(data) < PAGE_HEADER.size and _MAGIC.startswith(data[:8])):
        return (
            None  # the process died, or the power failed, after the file got its name and before its header was written
        )
    if len(data) < PAGE_HEADER.size:
        raise CorruptError(path, 0, "header", f"the header has only {len(data)} bytes")
    found = PAGE_HEADER.unpack(data)
    if found["magic"] != _MAGIC or found["crc"] != crc32c(data[:_CRC_OFFSET]):
        raise CorruptError(path, 0, "header_crc", "the header is damaged")
    if found["version"] != VERSION:
        text = f"{path}: version {found['version']}; this release reads version {VERSION}"
        raise VersionError(text, found=found["version"], known=(VERSION,))
    if found["page_id"] != page_id:
        raise CorruptError(
            path, PAGE_HEADER.offset("page_id"), "page_id", f"the header is that of page {found['page_id']}"
        )
    return PageHeader(page_id, found["salt"])
