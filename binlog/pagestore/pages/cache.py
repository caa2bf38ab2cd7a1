"""The page cache and the file of pages.

Invariants
- A page is pinned in the cache until the log has all of its changes on the disk.  Only then may it be written.
- If a page has changed since the last checkpoint, the log of this generation has it whole.  So recovery never reads a
  page that was torn while it was written.
- Every caller holds the store's mutex.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable

from binlog.format.pagestore.other_files import PAGE_FILE
from binlog.format.pagestore.page import FREE_CONTENT, MESSAGE_PAGE, NONE, PageAt, pack_page, parse_page
from binlog.storage.files import allocate, read_at, sync, truncate, write_at

# The file grows by an eighth, within these limits.
_STEP_PAGES_MIN, _STEP_PAGES_MAX = 16, 4096
# The maximum number of adjacent pages in one write.
_TOGETHER_MAX = 512


class PageFile:
    """The file of pages, open for reading and writing.

    Callers write a page only after the log has its changes on the disk.
    """

    def __init__(self, folder: str, fd: int, page_bytes: int) -> None:
        self.path = os.path.join(folder, PAGE_FILE)
        self.page_bytes = page_bytes
        self._fd = fd
        self._page_count = os.fstat(fd).st_size // page_bytes

    def at(self, number: int) -> PageAt:
        """Return the location of a page, for reporting damage."""
        return PageAt(self.path, number, self.page_bytes)

    def read(self, number: int) -> bytes:
        """Return the content of a page, without its check.  Raises: CorruptError; AccessError."""
        return parse_page(read_at(self._fd, self.page_bytes, number * self.page_bytes, self.path), self.at(number))

    def read_next(self, number: int) -> int:
        """Return the number of the next page in a damaged page of a message, or a negative number."""
        at, stop = MESSAGE_PAGE.offset("next"), MESSAGE_PAGE.offset("used_bytes")
        data = read_at(self._fd, stop - at, number * self.page_bytes + at, self.path)
        return int.from_bytes(data, "big", signed=True) if data else NONE

    def ensure(self, number: int) -> None:
        """Allocate space for a page, so that writing it later needs none.  Raises: FullError; AccessError."""
        if number < self._page_count:
            return
        count = number + min(max(number // 8, _STEP_PAGES_MIN), _STEP_PAGES_MAX)
        allocate(self._fd, self._page_count * self.page_bytes, count * self.page_bytes, self.path)
        self._page_count = count

    def write(self, pages: Iterable[tuple[int, bytes | bytearray]], generation: int) -> None:
        """Write pages, given in ascending order.  Raises: FullError; PoisonedError."""
        first = 0
        together: list[bytes] = []
        for number, content in pages:
            if together and (number != first + len(together) or len(together) == _TOGETHER_MAX):
                self._write(first, together)
                together = []
            if not together:
                first = number
            together.append(pack_page(number, content, self.page_bytes, generation))
        if together:
            self._write(first, together)

    def _write(self, first: int, pages: list[bytes]) -> None:
        write_at(self._fd, b"".join(pages), first * self.page_bytes, self.path)
        self._page_count = max(self._page_count, first + len(pages))

    def truncate(self, page_count: int) -> None:
        """Truncate the file to this many pages.  Raises: AccessError."""
        truncate(self._fd, page_count * self.page_bytes, self.path)
        self._page_count = page_count

    def sync(self) -> None:
        """Sync the file.  Raises: PoisonedError."""
        sync(self._fd, self.path)


# When pages must be evicted, one of this many is evicted as well, so that they are written together.
_SHARE_OF_VICTIMS = 8
_HITS_MAX = 1 << 16


class Page:
    """A page in the cache.

    content: without the check, and possibly without zeros at its end.  hits: how often it was used; halved when its
    hits save it from eviction.  is_dirty: the file has another content.  pinned_until: the log position after its last
    change.
    """

    __slots__ = ("content", "hits", "is_dirty", "number", "pinned_until")

    def __init__(self, number: int, content: bytes | bytearray) -> None:
        self.number = number
        self.content = content
        self.hits = 1
        self.is_dirty = False
        self.pinned_until = 0


class Cache:
    """The page cache.

    logged: pages that the log of this generation has whole.  freed: free pages that are not marked as free in the file
    yet.
    changed: pages that have changed, while a backup tracks them.
    """

    def __init__(self, file: PageFile, pages_max: int) -> None:
        self.file = file
        self.generation = 0
        self.logged: set[int] = set()
        self.freed: set[int] = set()
        self.changed: set[int] | None = None
        self.reads = 0
        self.writes = 0
        self._pages_max = pages_max
        self._pages: OrderedDict[int, Page] = OrderedDict()  # in the order of their last use

    def __len__(self) -> int:
        return len(self._pages)

    def get(self, number: int) -> Page:
        """Return a page; read it if it is not in the cache.  Raises: CorruptError; AccessError."""
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = Page(number, self.file.read(number))
            self.reads += 1
        else:
            page.hits += 1
            self._pages.move_to_end(number)
        return page

    def content(self, number: int) -> bytes | bytearray:
        """Return the content of a page without adding it to the cache.  Raises: CorruptError; AccessError."""
        page = self._pages.get(number)
        return self.file.read(number) if page is None else page.content

    def add(self, page: Page) -> None:
        """Add a page without reading it."""
        self._pages[page.number] = page

    def drop(self, number: int) -> Page | None:
        """Remove a page from the cache, and return it if it was in it."""
        return self._pages.pop(number, None)

    def trim(self, durable: int) -> None:
        """Evict the least used pages if there are too many.

        durable: the position up to which the log is on the disk; pages that changed after it stay, however many they
        are.
        Raises: FullError; PoisonedError; after these the pages are still in the cache.
        """
        excess = len(self._pages) - self._pages_max
        if excess <= 0:
            return
        victims = self._victims(excess + self._pages_max // _SHARE_OF_VICTIMS, durable)
        self._write(page for page in victims if page.is_dirty)
        for page in victims:
            del self._pages[page.number]

    def _victims(self, count: int, durable: int) -> list[Page]:
        """Select the least recently used pages; pages with several hits are spared once."""
        victims: list[Page] = []
        spared: list[Page] = []
        for page in self._pages.values():
            if len(victims) == count:
                break
            if page.is_dirty and page.pinned_until > durable:
                continue
            if page.hits > 1:
                page.hits = min(page.hits, _HITS_MAX) // 2
                spared.append(page)
            else:
                victims.append(page)
        missing = max(len(self._pages) - len(victims) - self._pages_max, 0)
        victims += spared[:missing]
        for page in spared[missing:]:
            self._pages.move_to_end(page.number)
        return victims

    def flush(self) -> None:
        """Write all dirty pages, and sync the file; the log has all changes on the disk.

        Raises: FullError; PoisonedError.
        """
        changed: list[Page] = [page for page in self._pages.values() if page.is_dirty]
        self._write([*changed, *(Page(number, FREE_CONTENT) for number in self.freed)])
        self.freed.clear()
        self.file.sync()

    def _write(self, pages: Iterable[Page]) -> None:
        ordered = sorted(pages, key=lambda page: page.number)
        self.file.write(((page.number, page.content) for page in ordered), self.generation)
        self.writes += len(ordered)
        for page in ordered:
            page.is_dirty = False
