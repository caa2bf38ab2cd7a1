"""Paging for tests: small pages, their contents, and copies as after a crash."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

from binlog.compose import OpenedPaging, open_paging
from binlog.journal.options import JournalOptions
from binlog.paging.cursor.cursor import PageCursor, Run
from binlog.paging.options import PagingOptions
from binlog.paging.page import Page
from binlog.paging.store import PagingStore

PAGE_BYTES = 1024
SMALL = PagingOptions(page_bytes=PAGE_BYTES)
ADDRESS = "orders"
_JOURNAL = JournalOptions(file_bytes=64 << 10)


@contextmanager
def paging(path: Path, options: PagingOptions = SMALL) -> Iterator[tuple[OpenedPaging, PagingStore]]:
    """Open a manager with its journal, and the store of one address."""
    with open_paging(path, options, _JOURNAL) as opened:
        yield opened, opened.manager.store(ADDRESS)


def copy_after_crash(path: Path) -> Path:
    """Copy a folder, as the next process finds it if this one dies now."""
    number = sum(1 for _ in path.parent.iterdir())
    return Path(shutil.copytree(path, path.parent / f"{path.name}-crashed-{number}"))


def page_messages(page: Page) -> list[bytes]:
    """Return the messages of a page."""
    return [message for message, _ in page.messages()]


def depage_pages(store: PagingStore) -> list[list[bytes]]:
    """Depage until page mode ends, and return the messages of each page."""
    found = []
    while page := store.depage():
        found.append(page_messages(page))
        page.delete()
    return found


def depage_all(opened: OpenedPaging, address: str = ADDRESS) -> list[bytes]:
    """Depage an address in transactions until page mode ends, and return its messages."""
    found: list[bytes] = []
    while opened.manager.depage(address, lambda _, messages, __: found.extend(messages)):
        pass
    return found


def read_run(cursor: PageCursor) -> Run:
    """Read the next run of messages; there must be one."""
    run = cursor.read()
    assert run is not None
    return run


def read_all(cursor: PageCursor, *, acknowledged: bool = False) -> list[bytes]:
    """Read all messages that the cursor has."""
    found: list[bytes] = []
    while run := cursor.read():
        found += run.messages
        if acknowledged:
            cursor.ack(run.message_id, len(run.messages))
    return found


def numbered_messages(count: int, size: int = 50) -> list[bytes]:
    """Return messages that are all different."""
    return [b"%d " % number + bytes(size) for number in range(count)]


def page_files(store: PagingStore | Path) -> list[Path]:
    """Return the page files of one address, oldest first."""
    folder = Path(store.folder.path) if isinstance(store, PagingStore) else store
    return sorted(folder.rglob("*.page"))


def page_all(store: PagingStore, messages: list[bytes]) -> None:
    """Put messages into pages."""
    for message in messages:
        assert store.page(message)


def flattened(pages: list[list[bytes]]) -> list[bytes]:
    """Return the messages of all pages."""
    return list(chain.from_iterable(pages))


class MemoryRecord(NamedTuple):
    """A record of a TransactionStore."""

    record_id: int
    user_type: int
    body: bytes


class MemoryStore:
    """A transactional store in memory.  records, prepared: its contents, for the next manager."""

    def __init__(self) -> None:
        self._ids = count(1)
        self._records: dict[int, MemoryRecord] = {}
        self._open: dict[int, list[MemoryRecord | int]] = {}
        self.prepared: list[Any] = []

    @property
    def records(self) -> list[MemoryRecord]:
        """The records, each with its last update applied."""
        return list(self._records.values())

    def drop_open(self) -> None:
        """Roll back open transactions, as the next load does."""
        self._open.clear()

    def new_id(self) -> int:
        return next(self._ids)

    def append_delete(self, record_id: int) -> None:
        del self._records[record_id]

    def append_add_tx(self, tx_id: int, record_id: int, user_type: int, body: bytes) -> None:
        self._open.setdefault(tx_id, []).append(MemoryRecord(record_id, user_type, body))

    append_update_tx = append_add_tx

    def append_delete_tx(self, tx_id: int, record_id: int) -> None:
        self._open.setdefault(tx_id, []).append(record_id)

    def prepare(self, tx_id: int, extra: bytes) -> None:
        raise NotImplementedError

    def commit(self, tx_id: int) -> None:
        for change in self._open.pop(tx_id):
            if isinstance(change, int):
                del self._records[change]
            else:
                self._records[change.record_id] = change

    def rollback(self, tx_id: int) -> None:
        self._open.pop(tx_id, None)
