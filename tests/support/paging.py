"""Paging of tests: small pages, what is in them, and what a process leaves that dies."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from binlog.compose import Paging, open_paging
from binlog.journal.options import JournalOptions
from binlog.paging.options import PagingOptions
from binlog.paging.page import Page
from binlog.paging.store import PagingStore

PAGE_BYTES = 1024
SMALL = PagingOptions(page_bytes=PAGE_BYTES)
ADDRESS = "orders"
_JOURNAL = JournalOptions(file_bytes=64 << 10)


@contextmanager
def paging(path: Path, options: PagingOptions = SMALL) -> Iterator[tuple[Paging, PagingStore]]:
    """A manager with its journal, and the store of one address."""
    with open_paging(path, options, _JOURNAL) as opened:
        yield opened, opened.manager.store(ADDRESS)


def crashed(path: Path) -> Path:
    """What the next process finds where this one dies now."""
    number = sum(1 for _ in path.parent.iterdir())
    return Path(shutil.copytree(path, path.parent / f"{path.name}-crashed-{number}"))


def texts(page: Page) -> list[bytes]:
    """The messages of a page."""
    return [message for message, _ in page.messages()]


def depaged(store: PagingStore) -> list[list[bytes]]:
    """The messages of each page, until page mode ends."""
    found = []
    while page := store.depage():
        found.append(texts(page))
        page.delete()
    return found


def numbered(count: int, size: int = 50) -> list[bytes]:
    """Messages of which no two are the same."""
    return [b"%d " % number + bytes(size) for number in range(count)]


def page_files(store: PagingStore | Path) -> list[Path]:
    """The page files of one address, the oldest first."""
    folder = Path(store.folder.path) if isinstance(store, PagingStore) else store
    return sorted(folder.rglob("*.page"))


def page_all(store: PagingStore, messages: list[bytes]) -> None:
    """Put them into pages."""
    for message in messages:
        assert store.page(message)


def joined(pages: list[list[bytes]]) -> list[bytes]:
    """The messages of all pages."""
    return list(chain.from_iterable(pages))
