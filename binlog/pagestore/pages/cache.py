"""Pages in memory: read once, and written when there are too many of them, or at a checkpoint.

Invariants
- A page is not written before the log has all its changes on the disk: it is pinned until then.
- A page that changed since the last checkpoint is in the log as a whole, of this generation; so one that is torn while
  it is written is none that recovery reads.
- The mutex of the store is held around all of it.

The file of all pages.  Whoever writes a page sees to it that the log has its changes on the disk before.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable

from binlog.format.pagestore.other_files import PAGE_FILE
from binlog.format.pagestore.page import FREE_CONTENT, MESSAGE_PAGE, NONE, PageAt, pack_page, parse_page
from binlog.storage.failures import own_errors
from binlog.storage.files import allocate, read_at, sync, write_at

# The file grows by an eighth, but by no fewer pages than these and by no more.
_STEP_PAGES_MIN, _STEP_PAGES_MAX = 16, 4096
# Of pages that lie one behind the other so many are written together.
_TOGETHER_MAX = 512


class PageFile:
    """It, open for reading and writing.  page_bytes: of each page."""

    def __init__(self, folder: str, fd: int, page_bytes: int) -> None:
        self.path = os.path.join(folder, PAGE_FILE)
        self.page_bytes = page_bytes
        self._fd = fd
        self._page_count = os.fstat(fd).st_size // page_bytes

    def at(self, number: int) -> PageAt:
        """To tell of damage in a page."""
        return PageAt(self.path, number, self.page_bytes)

    def read(self, number: int) -> bytes:
        """What a page holds before its check.  Raises: CorruptError; AccessError."""
        return parse_page(read_at(self._fd, self.page_bytes, number * self.page_bytes, self.path), self.at(number))

    def read_next(self, number: int) -> int:
        """What a page of a message that is damaged says of the one behind it, below 0 for nothing."""
        at, stop = MESSAGE_PAGE.offset("next"), MESSAGE_PAGE.offset("used_bytes")
        data = read_at(self._fd, stop - at, number * self.page_bytes + at, self.path)
        return int.from_bytes(data, "big", signed=True) if data else NONE

    def ensure(self, number: int) -> None:
        """Have space for the page, so that writing it later asks for none.  Raises: FullError; AccessError."""
        if number < self._page_count:
            return
        count = number + min(max(number // 8, _STEP_PAGES_MIN), _STEP_PAGES_MAX)
        allocate(self._fd, self._page_count * self.page_bytes, count * self.page_bytes, self.path)
        self._page_count = count

    def write(self, pages: Iterable[tuple[int, bytes | bytearray]], generation: int) -> None:
        """Write pages, which are given in the order of their numbers.  Raises: FullError; PoisonedError."""
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
        """Have no more pages than that.  Raises: AccessError."""
        with own_errors(self.path, "cutting off free pages"):
            os.ftruncate(self._fd, page_count * self.page_bytes)
        self._page_count = page_count

    def sync(self) -> None:
        """Raises: PoisonedError."""
        sync(self._fd, self.path)


# Of those that must go, so many more go at once, and are written together.
_SHARE_OF_VICTIMS = 8
_HITS_MAX = 1 << 16


class Page:
    """A page.

    content: what comes before its check; zeros may lack at its end.  hits: how often it was used, halved when it was
    passed over for its hits.  is_dirty: the file has it otherwise.  pinned_until: where the log ends with its changes.
    """

    __slots__ = ("content", "hits", "is_dirty", "number", "pinned_until")

    def __init__(self, number: int, content: bytes | bytearray) -> None:
        self.number = number
        self.content = content
        self.hits = 1
        self.is_dirty = False
        self.pinned_until = 0


class Cache:
    """See above.

    logged: pages that the log has whole, of this generation.  freed: those of which the file does not say yet that they
    are free.  changed: pages that changed, while somebody wants to know.
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
        """A page, read where it is not there.  Raises: CorruptError; AccessError."""
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = Page(number, self.file.read(number))
            self.reads += 1
        else:
            page.hits += 1
            self._pages.move_to_end(number)
        return page

    def content(self, number: int) -> bytes | bytearray:
        """What a page holds, without keeping it.  Raises: CorruptError; AccessError."""
        page = self._pages.get(number)
        return self.file.read(number) if page is None else page.content

    def add(self, page: Page) -> None:
        """Have a page that is not to be read."""
        self._pages[page.number] = page

    def drop(self, number: int) -> Page | None:
        """Have a page no more; gives it where it was there."""
        return self._pages.pop(number, None)

    def trim(self, durable: int) -> None:
        """Let go of the pages that are the least use, where there are too many.

        durable: up to there the log is on the disk; pages with changes behind it stay, however many they are.
        Raises: FullError; PoisonedError; then the pages are there still.
        """
        excess = len(self._pages) - self._pages_max
        if excess <= 0:
            return
        victims = self._victims(excess + self._pages_max // _SHARE_OF_VICTIMS, durable)
        self._write(page for page in victims if page.is_dirty)
        for page in victims:
            del self._pages[page.number]

    def _victims(self, count: int, durable: int) -> list[Page]:
        """Those that were not used for the longest time, but for those that were used often before that."""
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
        """Write all that the file has otherwise, and sync it; the log has all that on the disk.

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
