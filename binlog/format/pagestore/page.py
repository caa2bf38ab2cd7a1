"""A page of `page.db`, as SwiftMQ lays it out, with a check behind it that ours have.

A page is in use or free; in use it is a part of an index (see index.py) or of a message, which is a chain of pages.
The check takes the last 16 bytes of a page, which neither an index nor a chain of ours uses: so who knows SwiftMQ's
layout can read ours, for the lengths of what is used are all that it goes by.
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
# Of a page's place in a chain, where there is none; and the number of the page that the root index begins with.
NONE = -1
ROOT_PAGE = 0
USED, FREE = 0, 1

MESSAGE_PAGE = Layout(
    "message_page",
    "What a page of a message begins with",
    size=13,
    fields=(
        Field("flag", "u8", "0 in use, 1 free"),
        Field("previous", "i32", "the page before in the message, -1 for none"),
        Field("next", "i32", "the page behind, -1 for none"),
        Field("used_bytes", "u32", "of the page, with these 13; the message's bytes follow"),
    ),
)
PAGE_CHECK_MAGIC = b"BPS1"
PAGE_CHECK_BYTES = 16
PAGE_CHECK = Layout(
    "pagestore_check",
    "What the last 16 bytes of a page are",
    size=PAGE_CHECK_BYTES,
    fields=(
        Field("magic", "bytes:4", "`BPS1`: the layout, and its version", const=PAGE_CHECK_MAGIC),
        Field("page_bytes", "u32", "how large the pages of the file are"),
        Field("generation", "u32", "of the log, its lower 32 bits, when the page was written"),
        Field("crc", "u32", "CRC-32C of the page's number (u64), and of what stands in the page before"),
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
"""What is written of a page that is free."""


class PageAt(NamedTuple):
    """Which page it is, to tell of damage.  path: of the file."""

    path: str
    number: int
    page_bytes: int

    def damage(self, rule: str, text: str) -> CorruptError:
        """The error for a page that is not as it should be."""
        return CorruptError(self.path, self.number * self.page_bytes, rule, f"page {self.number} {text}")


def is_page_size(size: int) -> bool:
    """Whether pages may be so large: 2 KiB, or a multiple of it up to 32 KiB."""
    return PAGE_BYTES_MIN <= size <= PAGE_BYTES_MAX and size % PAGE_BYTES_MIN == 0


def page_content_bytes(page_bytes: int) -> int:
    """How much of a page comes before its check."""
    return page_bytes - PAGE_CHECK_BYTES


def message_bytes(page_bytes: int) -> int:
    """How much of a message a page has room for."""
    return page_content_bytes(page_bytes) - MESSAGE_PAGE.size


def pack_page(number: int, content: bytes | bytearray, page_bytes: int, generation: int) -> bytes:
    """A page as it lies in the file.  content: what comes before its check; zeros may lack at its end."""
    data = b"".join(
        (
            content,
            bytes(page_bytes - PAGE_CHECK_BYTES - len(content)),
            _START_OF_CHECK.pack(PAGE_CHECK_MAGIC, page_bytes, generation & 0xFFFFFFFF),
        )
    )
    return data + _CRC.pack(crc32c(data, crc32c(_NUMBER.pack(number))))


def parse_page(data: bytes, at: PageAt) -> bytes:
    """What a page holds before its check.  Raises: CorruptError."""
    if len(data) < at.page_bytes:
        raise at.damage("short", f"has only {len(data)} bytes")
    (crc,) = _CRC.unpack_from(data, at.page_bytes - _CRC_BYTES)
    if crc != crc32c(data[:-_CRC_BYTES], crc32c(_NUMBER.pack(at.number))):
        raise at.damage("page_crc", "is not what was written")
    found = PAGE_CHECK.unpack(data, at.page_bytes - PAGE_CHECK_BYTES)
    if found["magic"] != PAGE_CHECK_MAGIC or found["page_bytes"] != at.page_bytes:
        raise at.damage("page_check", f"is of another layout, or of {found['page_bytes']} bytes")
    return data[:-PAGE_CHECK_BYTES]


class MessagePage(NamedTuple):
    """A part of a message.  previous, next: pages of the same message, NONE for none."""

    previous: int
    next: int
    part: bytes

    def pack(self) -> bytes:
        """As it lies in its page, without the zeros behind it."""
        return _MESSAGE.pack(USED, self.previous, self.next, MESSAGE_PAGE.size + len(self.part)) + self.part


def end_of_whole_message(content: bytes | bytearray) -> int | None:
    """Where in its page a message ends that one page has all of.

    None where another follows, or where `parse_message_page` has to say more.
    """
    if content[: len(_ALONE)] != _ALONE:
        return None
    used: int = _USED_BYTES.unpack_from(content, len(_ALONE))[0]
    return used if MESSAGE_PAGE.size <= used <= len(content) else None


def whole_message(content: bytes | bytearray) -> bytes | None:
    """A message that one page has all of; None as `end_of_whole_message`."""
    end = end_of_whole_message(content)
    return None if end is None else bytes(content[MESSAGE_PAGE.size : end])


def parse_message_page(content: bytes | bytearray, previous: int, at: PageAt) -> MessagePage:
    """The part of a message that follows the page `previous`.

    content: what comes before the page's check; zeros may lack at its end.
    Raises: CorruptError.
    """
    if len(content) < MESSAGE_PAGE.size:
        raise at.damage("message_page", f"has only {len(content)} bytes")
    flag, before, following, used = _MESSAGE.unpack_from(content)
    if flag != USED:
        raise at.damage("message_page", f"is free, and a message needs it behind page {previous}")
    if before != previous:
        raise at.damage("message_page", f"follows page {before}, not {previous}")
    if (
        not MESSAGE_PAGE.size <= used <= len(content)
        or not NONE <= following <= PAGE_COUNT_MAX
        or following == ROOT_PAGE
    ):
        raise at.damage("message_page", f"says that {used} bytes are used, and that page {following} follows")
    return MessagePage(before, following, bytes(content[MESSAGE_PAGE.size : used]))
