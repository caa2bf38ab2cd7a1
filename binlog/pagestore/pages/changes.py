"""The page changes of one transaction: made in the cache, then logged in one record, or undone.

Each page is named here before it is changed.  The record has the final state: a new page whole, and so a page that the
log of this generation does not have yet; of other pages only the changed parts.
"""

from __future__ import annotations

from typing import Protocol

from binlog.format.pagestore.log import ActionKind, PageAction
from binlog.pagestore.pages.cache import Cache, Page
from binlog.pagestore.pages.generation import FreePages

_INSERT, _UPDATE, _DELETE, _PORTION = map(int, ActionKind)
_Part = tuple[int, int]


class ChangedQueue(Protocol):
    """A queue whose index a transaction changes; `binlog.pagestore.queue.Queue` is one."""

    is_stale: bool

    def read_again(self) -> None:
        """Read the index again.  Raises: CorruptError; AccessError."""


class Changes:
    """The changes of one transaction.

    The caller holds the store's mutex from the first change to `mark_logged` or `undo`.
    queues: queues whose indexes were used; they are read again after `undo`.
    """

    def __init__(self, cache: Cache, free: FreePages) -> None:
        self.cache = cache
        self.queues: set[ChangedQueue] = set()
        self._free = free
        self._parts: dict[Page, dict[_Part, None] | None] = {}
        self._before: dict[Page, bytes | bytearray] = {}
        self._new: dict[int, Page] = {}
        self._freed: dict[int, None] = {}
        # To undo, last one first: a page that was taken, or one that was freed, with its page in the cache.
        self._steps: list[tuple[int, Page | None, bool]] = []

    def use(self, queue: ChangedQueue) -> None:
        """Note that the index of a queue will change.  Raises: CorruptError; AccessError."""
        if queue.is_stale:
            queue.read_again()
        self.queues.add(queue)

    def get(self, number: int) -> Page:
        """Return a page, to read it or to change it after naming it.  Raises: CorruptError; AccessError."""
        return self.cache.get(number)

    def touch(self, page: Page, offset: int, size: int) -> bytearray:
        """Name a part of a page that will change, and return the content to change."""
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
        """Replace the whole content of a page."""
        if page.number not in self._new:
            self._before.setdefault(page, page.content)
            self._parts[page] = None
        page.content = content

    def take(self) -> int:
        """Take a free page, to be filled by `create`.  Raises: FullError; AccessError."""
        number = self._free.take()
        self._steps.append((number, None, True))
        self._freed.pop(number, None)
        return number

    def create(self, number: int, content: bytes | bytearray) -> Page:
        """Create a page that was taken."""
        page = self._new[number] = Page(number, content)
        self.cache.add(page)
        return page

    def free(self, number: int) -> None:
        """Free a page.  Raises: CorruptError if it is free already."""
        if self._free.is_free(number):
            raise self.cache.file.at(number).damage("free", "is in use, but the map says that it is free")
        page = self.cache.drop(number)
        self._steps.append((number, page, False))
        self._free.release(number)
        if page is not None:
            self._parts.pop(page, None)
        self._new.pop(number, None)
        self._freed[number] = None

    def actions(self) -> list[PageAction]:
        """Return the actions for the log record."""
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
        """Mark all changes as logged by a record that ends at this position."""
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
        """Undo all changes."""
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
