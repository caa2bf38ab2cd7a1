"""The index of a queue: a chain of pages with one entry for each message, sorted by key.

Each new key is the largest, so entries are added to the last page.  A removed entry stays in its page, marked as
removed.  A page without valid entries is freed, except the last one, because its keys determine the next key.  The
first page keeps its number, which the root index has: if it should be freed, the next page is moved there.

A summary of each page is kept in memory (`Part`), so neither end of a long queue is searched for.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import partial
from struct import Struct

from binlog.errors import NotFoundError
from binlog.format.pagestore.index import (
    COUNTS,
    COUNTS_AT,
    DELIVERY_COUNT_AT,
    ENTRY,
    ENTRY_BYTES,
    INDEX_HEAD,
    INDEX_PAGE,
    KEY_AT,
    IndexHead,
    QueueEntry,
    QueuePageFacts,
    entries_in,
    entry_at,
    parse_index_head,
    parse_queue_page,
    queue_page_facts,
)
from binlog.format.pagestore.page import NONE, page_content_bytes
from binlog.pagestore.pages.cache import Cache, Page
from binlog.pagestore.pages.changes import Changes

_LINK_BYTES = 4
_PREVIOUS_AT, _NEXT_AT = INDEX_PAGE.offset("previous"), INDEX_PAGE.offset("next")
_LINK = Struct(">i")
_KEY = Struct(">q")
_DELIVERY_COUNT = Struct(">i")
_FIRST_KEY_AT = entry_at(0) + KEY_AT
_VALID, _PRIORITY, _OWN_KEY = map(QueueEntry._fields.index, ("valid", "priority", "key"))


class Part:
    """The summary of an index page.

    first_key: of its first entry.  valid_count: entries that were not removed.  waiting: how many of them are not
    taken, by priority.
    """

    __slots__ = ("entry_count", "first_key", "number", "valid_count", "waiting")

    def __init__(self, number: int, first_key: int) -> None:
        self.number = number
        self.first_key = first_key
        self.entry_count = 0
        self.valid_count = 0
        self.waiting: dict[int, int] = {}


class QueueIndex:
    """The index of a queue.

    parts: its pages, in order.  first_keys: their first keys.  max_key: of all entries, including removed ones.
    """

    def __init__(self, name: str, cache: Cache, first_page: int) -> None:
        """Read the index.  Raises: CorruptError; AccessError."""
        self.name = name
        self.first_page = first_page
        self.parts: list[Part] = []
        self.max_key = 0
        self.valid_count = 0
        self._room = entries_in(page_content_bytes(cache.file.page_bytes))
        number, previous = first_page, NONE
        seen = set()
        while number != NONE:
            at = cache.file.at(number)
            content = cache.content(number)
            head = parse_index_head(content, at)
            facts = queue_page_facts(content, head, at) if head.entry_count else None
            if head.previous != previous or number in seen or (facts and facts.first_key <= self.max_key):
                raise at.damage("chain", f"does not follow page {previous} in the index of {name!r}")
            seen.add(number)
            self._load(number, head, facts)
            number, previous = head.next, number
        self.first_keys = [part.first_key for part in self.parts]

    def _load(self, number: int, head: IndexHead, facts: QueuePageFacts | None) -> None:
        part = Part(number, self.max_key + 1 if facts is None else facts.first_key)
        part.entry_count, part.valid_count = head.entry_count, head.valid_count
        self.valid_count += part.valid_count
        self.parts.append(part)
        if facts is not None:
            part.waiting = facts.waiting
            self.max_key = facts.last_key

    def part_index(self, key: int) -> int:
        """Return the index of the part that has a key, if any part has it."""
        return bisect_right(self.first_keys, key, 1) - 1

    def next_entry(self, part: Part, key: int, priority: int, taken: set[int], cache: Cache) -> QueueEntry | None:
        """Return the next entry in a page, starting at `key`, with this priority, that is neither removed nor taken."""
        content = cache.get(part.number).content
        for slot in range(_slot(content, part, key), part.entry_count):
            fields = ENTRY.unpack_from(content, entry_at(slot))
            if fields[_VALID] and fields[_PRIORITY] == priority and fields[_OWN_KEY] not in taken:
                return QueueEntry(*fields)
        return None

    def entry(self, key: int, cache: Cache) -> QueueEntry:
        """Return the entry of a message.  Raises: NotFoundError; CorruptError; AccessError."""
        _, page, slot = self._find(key, cache)
        return QueueEntry(*ENTRY.unpack_from(page.content, entry_at(slot)))

    def entries(self, cache: Cache) -> Iterator[QueueEntry]:
        """Yield all entries, including removed ones.  Raises: CorruptError; AccessError."""
        for part in self.parts:
            yield from parse_queue_page(cache.content(part.number), cache.file.at(part.number))[1]

    def add(self, changes: Changes, entry: QueueEntry) -> None:
        """Add an entry with the largest key.  Raises: FullError; CorruptError; AccessError."""
        part = self.parts[-1]
        page = changes.get(part.number)
        key = entry.key
        if part.entry_count == self._room:
            if part.valid_count:
                page, part = self._append_page(changes, page, key)
            else:
                part.entry_count = 0  # removed entries are overwritten
                part.first_key = self.first_keys[-1] = key
        slot = part.entry_count
        part.entry_count += 1
        part.valid_count += 1
        content = changes.touch(page, COUNTS_AT, COUNTS.size)
        COUNTS.pack_into(content, COUNTS_AT, part.entry_count, part.valid_count)
        changes.touch(page, entry_at(slot), ENTRY.size)
        ENTRY.pack_into(content, entry_at(slot), *entry)
        part.waiting[entry.priority] = part.waiting.get(entry.priority, 0) + 1
        self.max_key = key
        self.valid_count += 1

    def _append_page(self, changes: Changes, last: Page, key: int) -> tuple[Page, Part]:
        number = changes.take()
        head = IndexHead(previous=last.number).pack()
        page = changes.create(number, bytearray(head.ljust(page_content_bytes(changes.cache.file.page_bytes), b"\0")))
        _LINK.pack_into(changes.touch(last, _NEXT_AT, _LINK_BYTES), _NEXT_AT, number)
        part = Part(number, key)
        self.parts.append(part)
        self.first_keys.append(key)
        return page, part

    def remove(self, changes: Changes, key: int) -> None:
        """Remove the entry of a message; the caller updates `waiting` of its part.

        Raises: NotFoundError; CorruptError; AccessError.
        """
        part, page, slot = self._find(key, changes.cache)
        at = entry_at(slot)
        content = changes.touch(page, at, 1)
        content[at] = 0
        part.valid_count -= 1
        self.valid_count -= 1
        changes.touch(page, COUNTS_AT, COUNTS.size)
        COUNTS.pack_into(content, COUNTS_AT, part.entry_count, part.valid_count)
        if not part.valid_count and part is not self.parts[-1]:
            self._free_page(changes, page, self.part_index(key))

    def _free_page(self, changes: Changes, page: Page, part_index: int) -> None:
        """Free a page without valid entries that is not the last one."""
        following = changes.get(self.parts[part_index + 1].number)
        if part_index:
            before = changes.get(self.parts[part_index - 1].number)
            _LINK.pack_into(changes.touch(before, _NEXT_AT, _LINK_BYTES), _NEXT_AT, following.number)
            _LINK.pack_into(changes.touch(following, _PREVIOUS_AT, _LINK_BYTES), _PREVIOUS_AT, before.number)
            changes.free(page.number)
            del self.parts[part_index], self.first_keys[part_index]
            return
        content = bytearray(following.content)
        _LINK.pack_into(content, _PREVIOUS_AT, NONE)
        third_number = IndexHead(*INDEX_HEAD.unpack_from(content)).next
        changes.rewrite(page, content)
        if third_number != NONE:
            third = changes.get(third_number)
            _LINK.pack_into(changes.touch(third, _PREVIOUS_AT, _LINK_BYTES), _PREVIOUS_AT, page.number)
        changes.free(following.number)
        self.parts[1].number = page.number
        del self.parts[0], self.first_keys[0]

    def count_deliveries(self, changes: Changes, key: int, count: int) -> None:
        """Set the delivery count of a message that was returned.  Raises: NotFoundError; CorruptError; AccessError."""
        _, page, slot = self._find(key, changes.cache)
        at = entry_at(slot) + DELIVERY_COUNT_AT
        content = changes.touch(page, at, _DELIVERY_COUNT.size)
        _DELIVERY_COUNT.pack_into(content, at, min(count, (1 << 31) - 1))

    def _find(self, key: int, cache: Cache) -> tuple[Part, Page, int]:
        part = self.parts[self.part_index(key)]
        page = cache.get(part.number)
        slot = _slot(page.content, part, key)
        at = entry_at(slot)
        if slot < part.entry_count and _KEY.unpack_from(page.content, at + KEY_AT)[0] == key and page.content[at]:
            return part, page, slot
        raise NotFoundError(f"queue {self.name!r} has no message {key}")


def _slot(content: bytes | bytearray, part: Part, key: int) -> int:
    """Return the first slot of a page whose key is not smaller."""
    # In a store of ours the keys of a page are consecutive.
    slot = key - part.first_key
    if 0 <= slot < part.entry_count and _key_at(content, slot) == key:
        return slot
    return bisect_left(range(part.entry_count), key, key=partial(_key_at, content))


def _key_at(content: bytes | bytearray, slot: int) -> int:
    found: int = _KEY.unpack_from(content, _FIRST_KEY_AT + ENTRY_BYTES * slot)[0]
    return found
