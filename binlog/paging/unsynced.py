"""The pages of a store of which something may not be on the disk yet.

A page is among them from its first message until it was synced with nothing added any more; also one that was taken to
be depaged, for a transaction of which it has messages may be committed before it goes.
"""

from __future__ import annotations

from binlog.paging.addresses import Commit
from binlog.paging.page import Page


class UnsyncedPages:
    """Pages, in the order in which they were begun.  They are added, and listed, under the store's mutex."""

    def __init__(self) -> None:
        self._pages: dict[Page, None] = {}

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

    def sync(self, pages: list[Page], commit: Commit | None = None) -> None:
        """Have these be on the disk; nothing is locked.  commit: syncs the last one.  Raises: PoisonedError."""
        for page in pages:
            was_open = page.is_open  # what is added behind the sync, before it is closed, is not in it
            page.sync(commit if page is pages[-1] else None)
            if not was_open:
                self.forget(page)
