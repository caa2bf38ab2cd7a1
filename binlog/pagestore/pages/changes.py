"""What a transaction makes of pages: done in the cache, put into one record of the log, or undone.

A page is named here before it is changed.  The record has of each page what is behind all changes: a new page whole,
one that the log does not have yet in this generation as well, and of others the parts.
"""

from __future__ import annotations

from typing import Protocol

from binlog.format.pagestore.log import ActionKind, PageAction
from binlog.pagestore.pages.cache import Cache, Page
from binlog.pagestore.pages.generation import FreePages

_INSERT, _UPDATE, _DELETE, _PORTION = map(int, ActionKind)
_Part = tuple[int, int]


class ChangedQueue(Protocol):
    """A queue whose index a transaction changes, as `binlog.pagestore.queue.Queue`."""

    is_stale: bool

    def read_again(self) -> None:
        """Read the index again.  Raises: CorruptError; AccessError."""


class Changes:
    """Those of one transaction; the mutex of the store is held from the first one to `keep` or `undo`.

    queues: that were used, which are read again where it is undone.
    """

    def __init__(self, cache: Cache, free: FreePages) -> None:
        self.cache = cache
        self.queues: set[ChangedQueue] = set()
        self._free = free
        self._parts: dict[Page, dict[_Part, None] | None] = {}
        self._before: dict[Page, bytes | bytearray] = {}
        self._new: dict[int, Page] = {}
        self._freed: dict[int, None] = {}
        # To be undone from the last one: a page that was taken, or one that was given with what the cache had of it.
        self._steps: list[tuple[int, Page | None, bool]] = []

    def use(self, queue: ChangedQueue) -> None:
        """The index of a queue is going to change.  Raises: CorruptError; AccessError."""
        if queue.is_stale:
            queue.read_again()
        self.queues.add(queue)

    def get(self, number: int) -> Page:
        """A page to look at, or to change once it is named.  Raises: CorruptError; AccessError."""
        return self.cache.get(number)

    def touch(self, page: Page, offset: int, size: int) -> bytearray:
        """A part of a page is going to change, in what this gives."""
        content = page.content
        if type(content) is not bytearray:
            content = page.content = bytearray(content)
        if page.number not in self._new:
            parts = self._parts.get(page)
            if parts is not None:
                parts[offset, size] = None
            elif page not in self._parts:
                self._before[page] = bytes(content)
                self._parts[page] = {(offset, size): None} if page.number in self.cache.logged else None
        return content

    def rewrite(self, page: Page, content: bytearray) -> None:
        """All of a page becomes something else."""
        if page.number not in self._new:
            self._before.setdefault(page, page.content)
            self._parts[page] = None
        page.content = content

    def take(self) -> int:
        """A page that was free, to be made with `create`.  Raises: FullError; AccessError."""
        number = self._free.take()
        self._steps.append((number, None, True))
        self._freed.pop(number, None)
        return number

    def create(self, number: int, content: bytes | bytearray) -> Page:
        """Make a page that was taken."""
        page = self._new[number] = Page(number, content)
        self.cache.add(page)
        return page

    def free(self, number: int) -> None:
        """A page is free from now on.  Raises: CorruptError where it is so already."""
        if self._free.is_free(number):
            raise self.cache.file.at(number).damage("free", "is in use, and is said to be free")
        page = self.cache.drop(number)
        self._steps.append((number, page, False))
        self._free.release(number)
        if page is not None:
            self._parts.pop(page, None)
        self._new.pop(number, None)
        self._freed[number] = None

    def actions(self) -> list[PageAction]:
        """For the record."""
        found: list[PageAction] = [(_DELETE, number, 0, 0, b"") for number in self._freed]
        found += [(_INSERT, number, 0, len(page.content), page.content) for number, page in self._new.items()]
        for page, parts in self._parts.items():
            number, content = page.number, page.content
            if parts is None:
                found.append((_UPDATE, number, 0, len(content), content))
            else:
                found += [(_PORTION, number, offset, size, content) for offset, size in parts]
        return found

    def mark_logged(self, record_end: int) -> None:
        """The log has the record, which ends at `until`."""
        cache = self.cache
        for page in self._parts:
            page.is_dirty = True
            page.pinned_until = record_end
            cache.logged.add(page.number)
        for number, page in self._new.items():
            page.is_dirty = True
            page.pinned_until = record_end
            cache.freed.discard(number)
        cache.logged.update(self._new)
        cache.logged.update(self._freed)
        if cache.changed is not None:
            cache.changed.update(page.number for page in self._parts)
            cache.changed.update(self._new)
            cache.changed.update(self._freed)
        cache.freed.update(self._freed)

    def undo(self) -> None:
        """Nothing of it is to be."""
        for number, page, was_taken in reversed(self._steps):
            if was_taken:
                self.cache.drop(number)
                self._free.release(number)
            else:
                self._free.take_number(number)
                if page is not None:
                    self.cache.add(page)
        for page, content in self._before.items():
            page.content = content
