"""A page of `page.db`: SwiftMQ's layout, with a check of ours at its end.

A page is free or in use.  In use it is a part of an index (see index.py), or of a message, which is a chain of pages.
The check takes the last 16 bytes, which our indexes and messages never use.  So a reader of SwiftMQ's layout can read
our pages: it uses only the lengths that the pages declare.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from binlog.errors import CorruptError
from binlog.format.checksums import crc32c
from binlog.format.layout import Field, Layout

PAGE_BYTES_MIN = 2048
PAGE_BYTES_MAX = 32768
PAGE_COUNT_MAX = (1 << 31) - 1
# NONE: no page, in a chain.  ROOT_PAGE: the first page of the root index.
NONE = -1
ROOT_PAGE = 0
USED, FREE = 0, 1

MESSAGE_PAGE = Layout(
    "message_page",
    "The head of a message page",
    size=13,
    fields=(
        Field("flag", "u8", "0 in use, 1 free"),
        Field("previous", "i32", "previous page of the message, -1 for none"),
        Field("next", "i32", "next page, -1 for none"),
        Field("used_bytes", "u32", "used bytes of the page, including these 13; the message's bytes follow"),
    ),
)
PAGE_CHECK_MAGIC = b"BPS1"
PAGE_CHECK_BYTES = 16
PAGE_CHECK = Layout(
    "pagestore_check",
    "The check in the last 16 bytes of a page",
    size=PAGE_CHECK_BYTES,
    fields=(
        Field("magic", "bytes:4", "`BPS1`: the layout and its version", const=PAGE_CHECK_MAGIC),
        Field("page_bytes", "u32", "page size of the file"),
        Field("generation", "u32", "generation of the log when the page was written, lower 32 bits"),
        Field("crc", "u32", "CRC-32C of the page's number (u64), and all earlier bytes of the page"),
    ),
)
_CRC_BYTES = 4
_NUMBER = struct.Struct(">Q")
_CRC = struct.Struct(">I")
_MESSAGE = struct.Struct(MESSAGE_PAGE.format)
_USED_BYTES = struct.Struct(">I")
_ALONE = _MESSAGE.pack(USED, NONE, NONE, 0)[: MESSAGE_PAGE.offset("used_bytes")]
_START_OF_CHECK = struct.Struct(">4sII")

FREE_CONTENT = bytes([FREE])
"""The content of a free page."""


class PageAt(NamedTuple):
    """The location of a page, for reporting damage.  path: of the file."""

    path: str
    number: int
    page_bytes: int

    def damage(self, rule: str, text: str) -> CorruptError:
        """Return the error for damage of the page."""
        return CorruptError(self.path, self.number * self.page_bytes, rule, f"page {self.number} {text}")


def is_page_size(size: int) -> bool:
    """Whether this is a valid page size: 2 KiB, or a multiple of it up to 32 KiB."""
    return PAGE_BYTES_MIN <= size <= PAGE_BYTES_MAX and size % PAGE_BYTES_MIN == 0


def page_content_bytes(page_bytes: int) -> int:
    """Return how many bytes of a page precede its check."""
    return page_bytes - PAGE_CHECK_BYTES


def message_bytes(page_bytes: int) -> int:
    """Return how many bytes of a message fit into a page."""
    return page_content_bytes(page_bytes) - MESSAGE_PAGE.size


def pack_page(number: int, content: bytes | bytearray, page_bytes: int, generation: int) -> bytes:
    """Return the bytes of a page.  content: without the check, and possibly without zeros at its end."""
    data = b"".join(
        (
            content,
            bytes(page_bytes - PAGE_CHECK_BYTES - len(content)),
            _START_OF_CHECK.pack(PAGE_CHECK_MAGIC, page_bytes, generation & 0xFFFFFFFF),
        )
    )
    return data + _CRC.pack(crc32c(data, crc32c(_NUMBER.pack(number))))


def parse_page(data: bytes, at: PageAt) -> bytes:
    """Return the content of a page, without its check.  Raises: CorruptError."""
    if len(data) < at.page_bytes:
        raise at.damage("short", f"has only {len(data)} bytes")
    (crc,) = _CRC.unpack_from(data, at.page_bytes - _CRC_BYTES)
    if crc != crc32c(data[:-_CRC_BYTES], crc32c(_NUMBER.pack(at.number))):
        raise at.damage("page_crc", "is damaged")
    found = PAGE_CHECK.unpack(data, at.page_bytes - PAGE_CHECK_BYTES)
    if found["magic"] != PAGE_CHECK_MAGIC or found["page_bytes"] != at.page_bytes:
        raise at.damage("page_check", f"has another layout, or {found['page_bytes']} bytes")
    return data[:-PAGE_CHECK_BYTES]


class MessagePage(NamedTuple):
    """A part of a message.  previous, next: pages of the same message, or NONE."""

    previous: int
    next: int
    part: bytes

    def pack(self) -> bytes:
        """Return the bytes of the page, without zeros at its end."""
        return _MESSAGE.pack(USED, self.previous, self.next, MESSAGE_PAGE.size + len(self.part)) + self.part


def end_of_whole_message(content: bytes | bytearray) -> int | None:
    """Return the end of a message that fits into this page.

    Returns None if another page follows, or if `parse_message_page` must report an error.
    """
    if content[: len(_ALONE)] != _ALONE:
        return None
    used: int = _USED_BYTES.unpack_from(content, len(_ALONE))[0]
    return used if MESSAGE_PAGE.size <= used <= len(content) else None


def whole_message(content: bytes | bytearray) -> bytes | None:
    """Return a message that fits into this page; None as `end_of_whole_message`."""
    end = end_of_whole_message(content)
    return None if end is None else bytes(content[MESSAGE_PAGE.size : end])


def parse_message_page(content: bytes | bytearray, previous: int, at: PageAt) -> MessagePage:
    """Parse the part of a message that follows the page `previous`.

    content: of the page, without the check, and possibly without zeros at its end.
    Raises: CorruptError.
    """
    if len(content) < MESSAGE_PAGE.size:
        raise at.damage("message_page", f"has only {len(content)} bytes")
    flag, before, following, used = _MESSAGE.unpack_from(content)
    if flag != USED:
        raise at.damage("message_page", f"is free, but a message needs it after page {previous}")
    if before != previous:
        raise at.damage("message_page", f"follows page {before}, not {previous}")
    if (
        not MESSAGE_PAGE.size <= used <= len(content)
        or not NONE <= following <= PAGE_COUNT_MAX
        or following == ROOT_PAGE
    ):
        raise at.damage("message_page", f"claims that {used} bytes are used, and that page {following} follows")
    return MessagePage(before, following, bytes(content[MESSAGE_PAGE.size : used]))
