"""The file of all pages.  Whoever writes a page sees to it that the log has its changes on the disk before."""

from __future__ import annotations

import os
from collections.abc import Iterable

from binlog.format.pagestore.names import PAGE_FILE
from binlog.format.pagestore.page import MESSAGE_PAGE, NONE, PageAt, pack_page, parse_page
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

    def cut(self, page_count: int) -> None:
        """Have no more pages than that.  Raises: AccessError."""
        with own_errors(self.path, "cutting off free pages"):
            os.ftruncate(self._fd, page_count * self.page_bytes)
        self._page_count = page_count

    def sync(self) -> None:
        """Raises: PoisonedError."""
        sync(self._fd, self.path)
