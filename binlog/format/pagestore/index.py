"""Index pages: of the root index, with the names of queues, and of a queue, with its messages.

An index page has a sequence of entries.  A removed entry stays in it; its first byte marks it as removed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from binlog.format.layout import Field, Layout
from binlog.format.pagestore.page import NONE, PAGE_COUNT_MAX, USED, PageAt

INDEX_PAGE = Layout(
    "index_page",
    "The head of an index page",
    size=17,
    fields=(
        Field("flag", "u8", "0 in use, 1 free"),
        Field("previous", "i32", "previous page of the index, -1 for none"),
        Field("next", "i32", "next page, -1 for none"),
        Field("entry_count", "u32", "entries in the page, including removed ones"),
        Field("valid_count", "u32", "entries that were not removed"),
    ),
)
QUEUE_ENTRY = Layout(
    "queue_entry",
    "An entry of a queue's index",
    size=33,
    fields=(
        Field("valid", "u8", "1; 0 after the entry was removed"),
        Field("priority", "i32", "0 to 9; the highest is delivered first"),
        Field("delivery_count", "i32", "how often it was delivered and returned"),
        Field("expiration", "i64", "as the producer set it, 0 for none"),
        Field("key", "i64", "key of the message; larger than that of every earlier entry"),
        Field("message_page", "i32", "first page of the message"),
        Field(
            "sharer_count", "u32", "number of entries that the message had when it was put; 0 or 1 if it is not shared"
        ),
    ),
)
ROOT_ENTRY = Layout(
    "root_entry",
    "The head of an entry of the root index; the name follows, in UTF-8",
    size=5,
    fields=(Field("valid", "u8", "1; 0 after the entry was removed"), Field("name_bytes", "u32", "size of the name")),
)
ROOT_ENTRY_END = Layout(
    "root_entry_end",
    "The end of an entry of the root index, after the name",
    size=8,
    fields=(
        Field("first_page", "i32", "first page of the queue's index"),
        Field("reserved", "bytes:4", "zeros", const=bytes(4)),
    ),
)
NAME_BYTES_MAX = 1024

INDEX_HEAD = struct.Struct(INDEX_PAGE.format)
COUNTS_AT = INDEX_PAGE.offset("entry_count")
COUNTS = struct.Struct(">II")
ENTRY = struct.Struct(QUEUE_ENTRY.format)
ENTRY_BYTES = QUEUE_ENTRY.size
KEY_AT = QUEUE_ENTRY.offset("key")
_KEY = struct.Struct(">q")
PRIORITY_AT = QUEUE_ENTRY.offset("priority")
DELIVERY_COUNT_AT = QUEUE_ENTRY.offset("delivery_count")


class IndexHead(NamedTuple):
    """The head of an index page."""

    flag: int = USED
    previous: int = NONE
    next: int = NONE
    entry_count: int = 0
    valid_count: int = 0

    def pack(self) -> bytes:
        """Return the bytes of the head."""
        return INDEX_HEAD.pack(*self)


class QueueEntry(NamedTuple):
    """An entry of a queue's index; see its table."""

    valid: int
    priority: int
    delivery_count: int
    expiration: int
    key: int
    message_page: int
    sharer_count: int = 0

    def pack(self) -> bytes:
        """Return the bytes of the entry."""
        return ENTRY.pack(*self)


class RootEntry(NamedTuple):
    """A queue, and the first page of its index."""

    name: str
    first_page: int

    def pack(self) -> bytes:
        """Return the bytes of the entry."""
        name = self.name.encode()
        head = ROOT_ENTRY.pack({"valid": 1, "name_bytes": len(name)})
        return head + name + ROOT_ENTRY_END.pack({"first_page": self.first_page})

    @property
    def size(self) -> int:
        """The size of the entry."""
        return ROOT_ENTRY.size + len(self.name.encode()) + ROOT_ENTRY_END.size


def entries_in(content_bytes: int) -> int:
    """Return how many entries of a queue fit into a page."""
    return (content_bytes - INDEX_PAGE.size) // ENTRY_BYTES


def entry_at(slot: int) -> int:
    """Return the offset of a queue's entry in its page."""
    return INDEX_PAGE.size + ENTRY_BYTES * slot


def parse_index_head(content: bytes | bytearray, at: PageAt) -> IndexHead:
    """Parse the head of an index page.  Raises: CorruptError."""
    head = IndexHead(*INDEX_HEAD.unpack_from(content))
    if head.flag != USED:
        raise at.damage("index_page", "is free, but an index needs it")
    if not (NONE <= head.previous <= PAGE_COUNT_MAX and NONE <= head.next <= PAGE_COUNT_MAX and head.next):
        raise at.damage("index_page", f"claims to be between pages {head.previous} and {head.next} of its index")
    if not head.valid_count <= head.entry_count <= len(content):
        raise at.damage("index_page", f"claims that {head.valid_count} of {head.entry_count} entries are valid")
    return head


def parse_queue_page(content: bytes | bytearray, at: PageAt) -> tuple[IndexHead, list[QueueEntry]]:
    """Parse a page of a queue's index, including removed entries.  Raises: CorruptError."""
    head = parse_index_head(content, at)
    if head.entry_count > entries_in(len(content)):
        raise at.damage("index_page", f"has no room for {head.entry_count} entries")
    entries = [QueueEntry(*ENTRY.unpack_from(content, entry_at(slot))) for slot in range(head.entry_count)]
    keys = [entry.key for entry in entries]
    if any(left >= right for left, right in pairwise(keys)):
        raise at.damage("keys", "has keys that are not ascending")
    if head.valid_count != sum(entry.valid == 1 for entry in entries):
        raise at.damage("valid_count", f"claims that {head.valid_count} entries are valid")
    return head, entries


class QueuePageFacts(NamedTuple):
    """The summary of a page of a queue's index.

    first_key, last_key: of its entries, including removed ones.  waiting: the number of valid entries of each priority.
    """

    first_key: int
    last_key: int
    waiting: dict[int, int]


def queue_page_facts(content: bytes | bytearray, head: IndexHead, at: PageAt) -> QueuePageFacts:
    """Return the summary of a page that has entries.  Raises: CorruptError if the page contradicts it."""
    count = head.entry_count
    if count > entries_in(len(content)):
        raise at.damage("index_page", f"has no room for {count} entries")
    end = entry_at(count)
    first_key, last_key = (_KEY.unpack_from(content, entry_at(slot) + KEY_AT)[0] for slot in (0, count - 1))
    if last_key - first_key < count - 1:
        raise at.damage("keys", "has keys that are not ascending")
    valid = bytes(content[entry_at(0) : end : ENTRY_BYTES])
    columns = [bytes(content[entry_at(0) + PRIORITY_AT + byte : end : ENTRY_BYTES]) for byte in range(4)]
    if valid.count(1) != head.valid_count:
        raise at.damage("valid_count", f"claims that {head.valid_count} entries are valid")
    waiting: dict[int, int] = {}
    if any(map(any, columns[:3])):
        raise at.damage("priority", "has an entry with a priority over 255")
    priorities = columns[3]
    if head.valid_count == count:
        waiting = {priority: priorities.count(priority) for priority in set(priorities)}
    else:
        for is_valid, priority in zip(valid, priorities, strict=True):
            if is_valid:
                waiting[priority] = waiting.get(priority, 0) + 1
    return QueuePageFacts(first_key, last_key, waiting)


def pack_root_page(head: IndexHead, entries: Iterable[RootEntry]) -> bytes:
    """Return the bytes of a root index page without removed entries; the counts in `head` are ignored."""
    packed = [entry.pack() for entry in entries]
    return head._replace(entry_count=len(packed), valid_count=len(packed)).pack() + b"".join(packed)


def parse_root_page(content: bytes | bytearray, at: PageAt) -> tuple[IndexHead, list[RootEntry]]:
    """Parse a page of the root index, without removed entries.  Raises: CorruptError."""
    head = parse_index_head(content, at)
    entries = list(_root_entries(bytes(content), head.entry_count, at))
    if len(entries) != head.valid_count:
        raise at.damage("valid_count", f"claims that {head.valid_count} entries are valid")
    return head, entries


def _root_entries(content: bytes, count: int, page: PageAt) -> Iterator[RootEntry]:
    at = INDEX_PAGE.size
    for _ in range(count):
        start = at + ROOT_ENTRY.size
        if start > len(content):
            raise page.damage("root_entry", f"has no room for {count} entries")
        head = ROOT_ENTRY.unpack(content, at)
        stop = start + head["name_bytes"]
        if stop + ROOT_ENTRY_END.size > len(content):
            raise page.damage("root_entry", "has a name that reaches beyond its end")
        first_page = ROOT_ENTRY_END.unpack(content, stop)["first_page"]
        at = stop + ROOT_ENTRY_END.size
        if not head["valid"]:
            continue
        try:
            name = content[start:stop].decode()
        except UnicodeDecodeError:
            raise page.damage("root_entry", "has a name that is not UTF-8") from None
        if not 0 < first_page <= PAGE_COUNT_MAX:
            raise page.damage("root_entry", f"claims that the index of {name!r} begins at page {first_page}")
        yield RootEntry(name, first_page)
