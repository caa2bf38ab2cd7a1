"""Delivery counts: a file beside each page, written before each delivery.

Invariants
- A count is written to the kernel before its message is delivered, so it survives the process.  Nothing is synced: a
  power cut may lose counts, but never a message.
- If the disk is full, or no descriptor is free, the count is not written, and the message is delivered all the same.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Mapping

from binlog.errors import AccessError, FullError, NotFoundError
from binlog.format.paging.deliveries_file import (
    COUNT_MAX,
    FoundDeliveries,
    pack_deliveries_header,
    parse_deliveries,
)
from binlog.format.paging.names import deliveries_name
from binlog.paging.addresses import AddressFolder
from binlog.paging.page import Page
from binlog.storage.directory import OpenFile
from binlog.storage.failures import NO_SPACE, write_failure
from binlog.storage.files import write_at
from binlog.storage.native import Monitor, write_delivery

_OPEN_MAX = 16
_NUMBER = (1 << 32) - 1
_NO_COUNTS: Mapping[int, int] = {}


class PageDeliveries:
    """The delivery counts of all pages of a store.  Any thread may call it."""

    def __init__(self, folder: AddressFolder, find: Callable[[int], Page | None]) -> None:
        """find: returns an existing page by its id."""
        self._folder = folder
        self._find = find
        self._mutex = Monitor()
        self._open: OrderedDict[int, tuple[OpenFile, bytes]] = OrderedDict()
        self._counts: tuple[int, Mapping[int, int]] = (0, _NO_COUNTS)

    def counts(self, page_id: int) -> Mapping[int, int]:
        """Return how often the messages of a page were delivered, by number; only for a page of an earlier process.

        Raises: AccessError.
        """
        cached_id, counts = self._counts
        if cached_id == page_id:
            return counts
        page = self._find(page_id)
        counts = read_deliveries(page).counts if page is not None and page.was_found else _NO_COUNTS
        self._counts = page_id, counts
        return counts

    def record(self, message_id: int, record: int) -> None:
        """Record that a message is about to be delivered for the `count`-th time.

        Raises: PoisonedError; AccessError.
        """
        page_id, number = message_id >> 32, message_id & _NUMBER
        with self._mutex:
            found = self._open.get(page_id)
            if found is None:
                with self._folder.change:
                    found = self._open_file(page_id)
            if found is None:
                return
            file, salt = found
            # This call keeps the GIL: see docs/decisions/0023-threads-take-turns.md.
            failure = write_delivery(file.fd, salt, number, min(record, COUNT_MAX))
            if failure and failure not in NO_SPACE:
                with self._folder.change:
                    raise write_failure(failure, self._path(page_id))

    def forget(self, page_id: int) -> None:
        """Forget a page that was removed."""
        with self._mutex:
            self._close(page_id)

    def close(self) -> None:
        """Close all files; the counts are with the kernel."""
        with self._mutex:
            for page_id in list(self._open):
                self._close(page_id)

    def _close(self, page_id: int) -> None:
        """Close the file of a page, if it is open.

        Without this, the traceback of an exception that poisoned the store would keep it open.
        """
        found = self._open.pop(page_id, None)
        if found is not None:
            found[0].close()

    def _open_file(self, page_id: int) -> tuple[OpenFile, bytes] | None:
        """Open the file of a page; return None if the page was removed, or if there is no room for a file."""
        page = self._find(page_id)
        if page is None or page.is_complete:
            return None
        while len(self._open) >= _OPEN_MAX:
            self._close(next(iter(self._open)))
        try:
            file = self._open_whole(page, deliveries_name(page_id), self._path(page_id))
        except (FullError, AccessError):
            return None
        self._open[page_id] = file, page.identity()
        return self._open[page_id]

    def _open_whole(self, page: Page, name: str, path: str) -> OpenFile:
        directory = self._folder.directory
        if read_deliveries(page).is_whole:
            return OpenFile(directory, name, writable=True)
        directory.remove(name)
        directory.make(name)
        file = OpenFile(directory, name, writable=True)
        try:
            write_at(file.fd, pack_deliveries_header(page.page_id, page.identity()), 0, path)
        except BaseException:
            file.close()  # the exception's traceback keeps the object alive
            directory.remove(name)
            raise
        return file

    def _path(self, page_id: int) -> str:
        return os.path.join(self._folder.path, deliveries_name(page_id))


def read_deliveries(page: Page) -> FoundDeliveries:
    """Read how often the messages of a page were delivered.  Raises: AccessError."""
    directory, name = page.folder.directory, deliveries_name(page.page_id)
    try:
        data = directory.read(name)
    except NotFoundError:
        return FoundDeliveries({}, False, [])
    return parse_deliveries(data, page.page_id, page.identity(), directory.file_path(name))


def remove_deliveries(folder: AddressFolder, page_id: int) -> None:
    """Remove the delivery counts of a page that was removed.  Raises: AccessError."""
    folder.directory.remove(deliveries_name(page_id))
