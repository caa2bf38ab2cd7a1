"""The pages of a store of which something may not be on the disk yet.

A page is among them from its first message until it was synced with nothing added any more; also one that was taken to
be depaged, for a transaction of which it has messages may be committed before it goes.
"""

from __future__ import annotations

from collections.abc import Callable

from binlog.errors import BinlogError
from binlog.paging.page import Page


class UnsyncedPages:
    """Pages, in the order in which they were begun.  They are added, and listed, under the store's mutex."""

    def __init__(self, fail: Callable[[BinlogError], None]) -> None:
        """fail: told why, where one cannot be synced."""
        self._pages: dict[Page, None] = {}
        self._fail = fail

    def add(self, page: Page) -> None:
        """A page was begun."""
        self._pages[page] = None

    def forget(self, page: Page) -> None:
        """A page has gone."""
        self._pages.pop(page, None)

    def all(self) -> list[Page]:
        """All of them now, to be synced when the mutex is not held any more."""
        return list(self._pages)

    def closed(self) -> list[Page]:
        """Those to which nothing is added any more."""
        return [page for page in self._pages if not page.is_open]

    def sync(self, pages: list[Page]) -> None:
        """Have these be on the disk; nothing is locked.  Raises: PoisonedError."""
        try:
            for page in pages:
                was_open = page.is_open  # what is added behind the sync, before it is closed, is not in it
                page.sync()
                if not was_open:
                    self.forget(page)
        except BinlogError as error:
            self._fail(error)
            raise
