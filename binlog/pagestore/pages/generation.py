"""Generations of a page store: creation, checkpoints, and free pages.

Creation names the log last, so a store with a log is complete.  If a process dies during a creation, the next one
starts again, or finishes if the pages have their name already.

A checkpoint has these steps, each on the disk before the next one starts:
1. the log, with everything that was appended;
2. the pages that changed;
3. the map of free pages of the next generation, in the file that the present generation does not need;
4. the header of the log, in one sector, with the next generation and its salt.

Before step 4 recovery finds the present generation, whole; after it, the next one, empty.

The lowest free page is always used first, which keeps the file dense.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from binlog.errors import CorruptError, FullError
from binlog.format.pagestore.free_map import FreeMap
from binlog.format.pagestore.index import IndexHead
from binlog.format.pagestore.log import RECORDS_AT, SALT_BYTES, LogStart, parse_log_start
from binlog.format.pagestore.other_files import (
    BACKUP_EXTENSION,
    LOG_FILE,
    MAP_FILES,
    NEW_EXTENSION,
    PAGE_FILE,
    map_name,
)
from binlog.format.pagestore.page import PAGE_BYTES_MIN, PAGE_COUNT_MAX, ROOT_PAGE, pack_page
from binlog.storage.directory import Directory
from binlog.storage.files import sync, truncate, write_at


def next_start(page_bytes: int, generation: int) -> LogStart:
    """Return the header of a new generation."""
    return LogStart(page_bytes, generation, os.urandom(SALT_BYTES), time.time_ns())


def begin_generation(directory: Directory, log_fd: int, start: LogStart, states: bytes) -> None:
    """Do the last two steps of a checkpoint.  Raises: FullError; AccessError; PoisonedError."""
    name = map_name(start.generation)
    path = directory.file_path(name)
    with directory.opened(name, writable=True) as fd:
        data = FreeMap(start.page_bytes, start.generation, start.salt, states).pack()
        write_at(fd, data, 0, path)
        truncate(fd, len(data), path)
        sync(fd, path)
    path = directory.file_path(LOG_FILE)
    write_at(log_fd, start.pack(), 0, path)
    sync(log_fd, path)


FIRST_GENERATION = 1


def ensure_store(directory: Directory, page_bytes: int | None) -> None:
    """Create a store in the folder if there is none.

    Raises: CorruptError if some files of a store exist and others are missing; FullError; AccessError; PoisonedError.
    """
    names = set(directory.names())
    if LOG_FILE in names and PAGE_FILE in names:
        return
    if LOG_FILE in names:
        raise CorruptError(directory.file_path(PAGE_FILE), 0, "missing", "the store has a log but no pages")
    if PAGE_FILE in names:
        _finish(directory, names)
        return
    if PAGE_FILE + BACKUP_EXTENSION in names:
        raise CorruptError(
            directory.file_path(PAGE_FILE),
            0,
            "backup",
            "a backup to this folder was not finished; remove it and make another one",
        )
    page_bytes = page_bytes or PAGE_BYTES_MIN
    root = pack_page(ROOT_PAGE, IndexHead().pack(), page_bytes, FIRST_GENERATION)
    directory.write_new(PAGE_FILE + NEW_EXTENSION, root)
    create_whole(directory, page_bytes, b"0")
    finish_store(directory, PAGE_FILE + NEW_EXTENSION)


def create_whole(directory: Directory, page_bytes: int, states: bytes) -> None:
    """Create all files but the pages; `states` are those of the pages.

    Raises: FullError; AccessError; PoisonedError.
    """
    start = next_start(page_bytes, FIRST_GENERATION)
    for name in MAP_FILES:
        is_first = name == map_name(FIRST_GENERATION)
        data = FreeMap(page_bytes, FIRST_GENERATION, start.salt, states).pack() if is_first else b""
        directory.write_new(name, data)
    directory.write_new(LOG_FILE + NEW_EXTENSION, start.pack().ljust(RECORDS_AT, b"\0"))
    directory.sync()


def finish_store(directory: Directory, pages_name: str) -> None:
    """Give the pages their name, and then the log.  Raises: AccessError; PoisonedError."""
    directory.rename(pages_name, PAGE_FILE)
    directory.rename(LOG_FILE + NEW_EXTENSION, LOG_FILE)


def _finish(directory: Directory, names: set[str]) -> None:
    """Finish a creation in which the pages have their name and the log has not."""
    path = directory.file_path(LOG_FILE)
    if LOG_FILE + NEW_EXTENSION not in names:
        raise CorruptError(path, 0, "missing", "the store has pages but no log")
    parse_log_start(directory.read(LOG_FILE + NEW_EXTENSION, RECORDS_AT), path + NEW_EXTENSION)
    directory.rename(LOG_FILE + NEW_EXTENSION, LOG_FILE)


_USED, _FREE = ord("0"), ord("1")


class FreePages:
    """The free pages, one byte for each page, as in `FreeMap`.

    ensure: called with a page that the file does not have yet; it may refuse it.
    """

    def __init__(self, states: bytes, ensure: Callable[[int], None]) -> None:
        self._states = bytearray(states)
        self._ensure = ensure
        self._lowest = 0
        self.free_count = self._states.count(_FREE)

    @property
    def states(self) -> bytes:
        """One character for each page: `1` if it is free, otherwise `0`."""
        return bytes(self._states)

    @property
    def page_count(self) -> int:
        """The number of pages, including free ones."""
        return len(self._states)

    def is_free(self, number: int) -> bool:
        """Whether a page is free."""
        return number >= len(self._states) or self._states[number] == _FREE

    def take(self) -> int:
        """Take the lowest free page.  Raises: FullError; AccessError."""
        number = self._states.find(_FREE, self._lowest) if self.free_count else -1
        if number < 0:
            self._lowest = len(self._states)
            return self.take_after_last()
        self._states[number] = _USED
        self._lowest = number + 1
        self.free_count -= 1
        return number

    def take_after_last(self) -> int:
        """Take the page after the last one.  Raises: FullError; AccessError."""
        number = len(self._states)
        if number > PAGE_COUNT_MAX:
            raise FullError("the store has the maximum number of pages", limit=PAGE_COUNT_MAX)
        self._ensure(number)
        self._states.append(_USED)
        return number

    def take_number(self, number: int) -> None:
        """Take a given free page."""
        self._states[number] = _USED
        self.free_count -= 1

    def truncate(self) -> None:
        """Remove the free pages after the last page in use."""
        used = len(self._states.rstrip(b"1"))
        self.free_count -= len(self._states) - used
        del self._states[used:]
        self._lowest = min(self._lowest, used)

    def release(self, number: int) -> None:
        """Free a page."""
        self._states[number] = _FREE
        self._lowest = min(self._lowest, number)
        self.free_count += 1
