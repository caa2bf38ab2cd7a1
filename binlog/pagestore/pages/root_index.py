"""The root index: the names of all queues, sorted by their bytes, with the first page of each index.

It starts at page 0.  If a page has no room for a name, it is split in halves; if the name is the last one, a page is
added.  Its pages are written whole, because they seldom change.
"""

from __future__ import annotations

from bisect import bisect_left

from binlog.format.pagestore.index import INDEX_PAGE, IndexHead, RootEntry, pack_root_page, parse_root_page
from binlog.format.pagestore.page import NONE, ROOT_PAGE, page_content_bytes
from binlog.pagestore.pages.cache import Cache
from binlog.pagestore.pages.changes import Changes


class RootIndex:
    """The root index in memory.  pages: the numbers of its pages, in the order of the chain."""

    def __init__(self, cache: Cache) -> None:
        """Read the index.  Raises: CorruptError; AccessError."""
        self._room = page_content_bytes(cache.file.page_bytes) - INDEX_PAGE.size
        self.pages: list[int] = []
        self._entries: list[list[RootEntry]] = []
        number, previous, last = ROOT_PAGE, NONE, b""
        while number != NONE:
            at = cache.file.at(number)
            head, entries = parse_root_page(cache.content(number), at)
            if head.previous != previous or number in self.pages:
                raise at.damage("chain", f"does not follow page {previous} in the root index")
            for entry in entries:
                if entry.name.encode() <= last:
                    raise at.damage("names", f"has {entry.name!r} out of order")
                last = entry.name.encode()
            self.pages.append(number)
            self._entries.append(entries)
            number, previous = head.next, number

    def copy(self) -> RootIndex:
        """Return a copy to change; it replaces this one if the change succeeds."""
        other = RootIndex.__new__(RootIndex)
        other._room = self._room
        other.pages = list(self.pages)
        other._entries = list(self._entries)
        return other

    @property
    def queues(self) -> dict[str, int]:
        """The first page of each queue's index, by name, in order."""
        return {entry.name: entry.first_page for entries in self._entries for entry in entries}

    def add(self, changes: Changes, entry: RootEntry) -> None:
        """Add a new queue.  Raises: FullError; CorruptError; AccessError."""
        key = _order(entry)
        page_index = self._page_index(key)
        entries = sorted([*self._entries[page_index], entry], key=_order)
        is_last = entries[-1] is entry and page_index == len(self.pages) - 1
        if sum(each.size for each in entries) <= self._room:
            halves = [entries]
        elif is_last:
            halves = [entries[:-1], entries[-1:]]
        else:
            halves = _halves(entries)
        self._entries[page_index : page_index + 1] = halves
        if len(halves) > 1:
            self.pages.insert(page_index + 1, changes.take())
            changes.create(self.pages[page_index + 1], b"")
        self._write(changes, page_index, len(halves) > 1)

    def remove(self, changes: Changes, name: str) -> None:
        """Remove an existing queue.  Raises: CorruptError; AccessError."""
        page_index = self._page_index(name.encode())
        self._entries[page_index] = [each for each in self._entries[page_index] if each.name != name]
        if self._entries[page_index] or not page_index:
            self._write(changes, page_index, is_split=False)
            return
        changes.free(self.pages[page_index])
        del self._entries[page_index], self.pages[page_index]
        self._write(changes, page_index - 1, is_split=page_index < len(self.pages))

    def _page_index(self, key: bytes) -> int:
        """Return the index of the page that has a name, or should have it."""
        firsts = [_order(entries[0]) if entries else b"" for entries in self._entries[1:]]
        page_index = bisect_left(firsts, key)
        return page_index + 1 if page_index < len(firsts) and firsts[page_index] == key else page_index

    def _write(self, changes: Changes, page_index: int, is_split: bool) -> None:
        """Write a page; with `is_split`, its successor is new, so write that one and the next one too."""
        for each in range(page_index, min(page_index + (3 if is_split else 1), len(self.pages))):
            previous = self.pages[each - 1] if each else NONE
            following = self.pages[each + 1] if each + 1 < len(self.pages) else NONE
            content = pack_root_page(IndexHead(previous=previous, next=following), self._entries[each])
            changes.rewrite(changes.get(self.pages[each]), bytearray(content))


def _order(entry: RootEntry) -> bytes:
    return entry.name.encode()


def _halves(entries: list[RootEntry]) -> list[list[RootEntry]]:
    """Split entries into two parts of about the same size."""
    whole, left = sum(each.size for each in entries), 0
    for page_index, each in enumerate(entries):
        left += each.size
        if 2 * left >= whole and page_index + 1 < len(entries):
            return [entries[: page_index + 1], entries[page_index + 1 :]]
    return [entries[:-1], entries[-1:]]
