"""Reading a page store from outside, as it was at one moment, while another process may have it.

The log is read first, and pages that it does not have are then read from their file.  Such a page has not changed since
the last checkpoint, unless a record was written meanwhile that changes it, or a checkpoint was made: then all is done
again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from binlog.errors import BusyError, CorruptError, NotFoundError
from binlog.format.pagestore.log import RECORDS_AT, LogStart, parse_log_start
from binlog.format.pagestore.names import LOG_FILE, PAGE_FILE
from binlog.format.pagestore.page import PageAt, parse_page
from binlog.pagestore.free_pages import FreePages
from binlog.pagestore.log_reading import Records
from binlog.pagestore.recovery import read_map
from binlog.pagestore.redo import Redo
from binlog.storage.directory import Directory
from binlog.storage.files import content_bytes, read_at

_T = TypeVar("_T")
_TRIES = 64


class StoreLook:
    """A store at one moment.  start: of its log's generation.  free: its pages.  record_count: of the log."""

    def __init__(self, directory: Directory) -> None:
        """directory: the store's, with which what this opens is closed.

        Raises: NotFoundError where there is no store; CorruptError; VersionError; AccessError.
        """
        self.directory = directory
        self.log_path, self.page_path = directory.file_path(LOG_FILE), directory.file_path(PAGE_FILE)
        try:
            self._log_fd = directory.open(LOG_FILE, writable=False)
        except NotFoundError as error:
            raise NotFoundError(f"{directory.path} is no page store: it has no file {LOG_FILE}") from error
        self._page_fd = directory.open(PAGE_FILE, writable=False)
        self.start = self._start()
        self._read: set[int] = set()

    def load(self) -> None:
        """Read the log and which pages are free.  Raises: CorruptError; VersionError; AccessError."""
        self._redo = self._read_log()
        self.record_count = self._redo.record_count
        self.free = FreePages(read_map(self.directory, self.start), lambda number: None)
        self._redo.mark(self.free)

    def _start(self) -> LogStart:
        return parse_log_start(read_at(self._log_fd, RECORDS_AT, 0, self.log_path), self.log_path)

    def _read_log(self) -> Redo:
        redo = Redo(self.start.page_bytes, self.log_path)
        data = read_at(self._log_fd, content_bytes(self._log_fd), 0, self.log_path)
        redo.add(Records(data, self.start, self.log_path))
        return redo

    def at(self, number: int) -> PageAt:
        """To tell of damage in a page."""
        return PageAt(self.page_path, number, self.start.page_bytes)

    def content(self, number: int) -> bytes | bytearray:
        """What a page holds before its check.  Raises: CorruptError; AccessError."""
        found = self._redo.content(number)
        return parse_page(self.raw(number), self.at(number)) if found is None else found

    def raw(self, number: int) -> bytes:
        """A page as the file has it.  Raises: AccessError."""
        self._read.add(number)
        size = self.start.page_bytes
        return read_at(self._page_fd, size, number * size, self.page_path)

    def is_logged(self, number: int) -> bool:
        """Whether the log has the page, and so the file does not matter."""
        return number in self._redo.pages

    def is_still_so(self) -> bool:
        """Whether nothing that was read changed meanwhile."""
        try:
            return self._start() == self.start and not self._read.intersection(self._read_log().pages)
        except CorruptError:
            return False


def look_at(path: str | os.PathLike[str], work: Callable[[StoreLook], _T]) -> _T:
    """What comes of looking at a store; it is begun again where the store changed meanwhile.

    Takes no lock and writes nothing.
    Raises: what `work` raises; NotFoundError where there is no store; CorruptError; VersionError; AccessError;
    BusyError where the store changes faster than it can be read.
    """
    folder = os.path.abspath(path)
    before = None
    for _ in range(_TRIES):
        with Directory(folder) as directory:
            look: StoreLook | None = None
            try:
                look = StoreLook(directory)
                look.load()
            except CorruptError as error:
                # It may be of a record that was being written, or of a map for another generation.  Neither is so
                # when the next look begins, which then has another generation, or finds the record whole.
                failed = look and look.start, str(error)
                if failed == before:
                    raise
                before = failed
                continue
            try:
                found = work(look)
            except CorruptError:
                if look.is_still_so():
                    raise
                continue
            if look.is_still_so():
                return found
    raise BusyError(f"the store {folder} changes faster than it can be read", holder=None)
