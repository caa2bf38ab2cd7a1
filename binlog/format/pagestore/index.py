"""The pages of both kinds of index: of the root, which has the queues' names, and of a queue, which has its messages.

A page of an index holds entries one behind the other; one that was removed stays in its place, and is told from the
others by its first byte.
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
    "What a page of an index begins with",
    size=17,
    fields=(
        Field("flag", "u8", "0 in use, 1 free"),
        Field("previous", "i32", "the page before in the index, -1 for none"),
        Field("next", "i32", "the page behind, -1 for none"),
        Field("entry_count", "u32", "entries in the page, removed ones too"),
        Field("valid_count", "u32", "those of them that were not removed"),
    ),
)
QUEUE_ENTRY = Layout(
    "queue_entry",
    "An entry of a queue's index",
    size=33,
    fields=(
        Field("valid", "u8", "1, 0 once it was removed"),
        Field("priority", "i32", "0 to 9, the highest is given first"),
        Field("delivery_count", "i32", "so often it was given, and came back"),
        Field("expiration", "i64", "what the user says of it, 0 for nothing"),
        Field("key", "i64", "of the message; larger than that of every entry before"),
        Field("message_page", "i32", "the first page of the message"),
        Field("sharer_count", "u32", "so many entries were made of the message together; 0 as 1: it has no other"),
    ),
)
ROOT_ENTRY = Layout(
    "root_entry",
    "What an entry of the root index begins with: the name follows, UTF-8",
    size=5,
    fields=(Field("valid", "u8", "1, 0 once it was removed"), Field("name_bytes", "u32", "of the name")),
)
ROOT_ENTRY_END = Layout(
    "root_entry_end",
    "What comes behind the name",
    size=8,
    fields=(
        Field("first_page", "i32", "of the queue's index"),
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
    """What a page of an index says of itself."""

    flag: int = USED
    previous: int = NONE
    next: int = NONE
    entry_count: int = 0
    valid_count: int = 0

    def pack(self) -> bytes:
        """As it lies in the page."""
        return INDEX_HEAD.pack(*self)


class QueueEntry(NamedTuple):
    """An entry of a queue's index: see its table."""

    valid: int
    priority: int
    delivery_count: int
    expiration: int
    key: int
    message_page: int
    sharer_count: int = 0

    def pack(self) -> bytes:
        """As it lies in the page."""
        return ENTRY.pack(*self)


class RootEntry(NamedTuple):
    """A queue, and where its index begins."""

    name: str
    first_page: int

    def pack(self) -> bytes:
        """As it lies in the page."""
        name = self.name.encode()
        head = ROOT_ENTRY.pack({"valid": 1, "name_bytes": len(name)})
        return head + name + ROOT_ENTRY_END.pack({"first_page": self.first_page})

    @property
    def size(self) -> int:
        """How many bytes of a page it takes."""
        return ROOT_ENTRY.size + len(self.name.encode()) + ROOT_ENTRY_END.size


def entries_in(content_bytes: int) -> int:
    """How many entries of a queue a page has room for."""
    return (content_bytes - INDEX_PAGE.size) // ENTRY_BYTES


def entry_at(slot: int) -> int:
    """Where an entry of a queue lies in its page."""
    return INDEX_PAGE.size + ENTRY_BYTES * slot


def parse_index_head(content: bytes | bytearray, at: PageAt) -> IndexHead:
    """What an index page says of itself.  Raises: CorruptError."""
    head = IndexHead(*INDEX_HEAD.unpack_from(content))
    if head.flag != USED:
        raise at.damage("index_page", "is free, and an index needs it")
    if not (NONE <= head.previous <= PAGE_COUNT_MAX and NONE <= head.next <= PAGE_COUNT_MAX and head.next):
        raise at.damage("index_page", f"lies between the pages {head.previous} and {head.next} of its index")
    if not head.valid_count <= head.entry_count <= len(content):
        raise at.damage("index_page", f"says that {head.valid_count} of {head.entry_count} entries are valid")
    return head


def parse_queue_page(content: bytes | bytearray, at: PageAt) -> tuple[IndexHead, list[QueueEntry]]:
    """A page of a queue's index, with entries that were removed.  Raises: CorruptError."""
    head = parse_index_head(content, at)
    if head.entry_count > entries_in(len(content)):
        raise at.damage("index_page", f"has no room for {head.entry_count} entries")
    entries = [QueueEntry(*ENTRY.unpack_from(content, entry_at(slot))) for slot in range(head.entry_count)]
    keys = [entry.key for entry in entries]
    if any(left >= right for left, right in pairwise(keys)):
        raise at.damage("keys", "has keys that do not rise")
    if head.valid_count != sum(entry.valid == 1 for entry in entries):
        raise at.damage("valid_count", f"says that {head.valid_count} entries are valid")
    return head, entries


class QueuePageFacts(NamedTuple):
    """What is to be known of a page of a queue's index without each of its entries.

    first_key, last_key: of its entries, removed ones too.  waiting: how many others there are of each priority.
    """

    first_key: int
    last_key: int
    waiting: dict[int, int]


def queue_page_facts(content: bytes | bytearray, head: IndexHead, at: PageAt) -> QueuePageFacts:
    """The facts of a page that has entries.  Raises: CorruptError for what would contradict them."""
    count = head.entry_count
    if count > entries_in(len(content)):
        raise at.damage("index_page", f"has no room for {count} entries")
    end = entry_at(count)
    first_key, last_key = (_KEY.unpack_from(content, entry_at(slot) + KEY_AT)[0] for slot in (0, count - 1))
    if last_key - first_key < count - 1:
        raise at.damage("keys", "has keys that do not rise")
    valid = bytes(content[entry_at(0) : end : ENTRY_BYTES])
    columns = [bytes(content[entry_at(0) + PRIORITY_AT + byte : end : ENTRY_BYTES]) for byte in range(4)]
    if valid.count(1) != head.valid_count:
        raise at.damage("valid_count", f"says that {head.valid_count} entries are valid")
    waiting: dict[int, int] = {}
    if any(map(any, columns[:3])):
        raise at.damage("priority", "has an entry of a priority beyond 255")
    priorities = columns[3]
    if head.valid_count == count:
        waiting = {priority: priorities.count(priority) for priority in set(priorities)}
    else:
        for is_valid, priority in zip(valid, priorities, strict=True):
            if is_valid:
                waiting[priority] = waiting.get(priority, 0) + 1
    return QueuePageFacts(first_key, last_key, waiting)


def pack_root_page(head: IndexHead, entries: Iterable[RootEntry]) -> bytes:
    """A page of the root index, none of whose entries was removed; the counts in `head` do not matter."""
    packed = [entry.pack() for entry in entries]
    return head._replace(entry_count=len(packed), valid_count=len(packed)).pack() + b"".join(packed)


def parse_root_page(content: bytes | bytearray, at: PageAt) -> tuple[IndexHead, list[RootEntry]]:
    """A page of the root index, without entries that were removed.  Raises: CorruptError."""
    head = parse_index_head(content, at)
    entries = list(_root_entries(bytes(content), head.entry_count, at))
    if len(entries) != head.valid_count:
        raise at.damage("valid_count", f"says that {head.valid_count} entries are valid")
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
            raise page.damage("root_entry", "has a name that leads out of it")
        first_page = ROOT_ENTRY_END.unpack(content, stop)["first_page"]
        at = stop + ROOT_ENTRY_END.size
        if not head["valid"]:
            continue
        try:
            name = content[start:stop].decode()
        except UnicodeDecodeError:
            raise page.damage("root_entry", "has a name that is not UTF-8") from None
        if not 0 < first_page <= PAGE_COUNT_MAX:
            raise page.damage("root_entry", f"says that the index of {name!r} begins at page {first_page}")
        yield RootEntry(name, first_page)
