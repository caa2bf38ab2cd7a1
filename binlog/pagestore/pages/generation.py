"""Making a new store.

The log is named last: where it has its name, all is there.  A store that was being made when its process died is made
anew, or finished where its pages have their name already.

A checkpoint: all pages come to the disk, and the log begins anew.

In this order, and each of it is on the disk before the next is begun:
1. the log, with all that was appended;
2. the pages that changed;
3. the map of free pages for the next generation, in the one of the two files that the present one does not need;
4. the header of the log, in one sector, with the next generation and its salt.
Until the last step recovery finds the present generation, whole; from then on it finds the next one, empty.

Which pages are free; the lowest one is used first, so that the file stays dense.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from binlog.errors import CorruptError, FullError
from binlog.format.pagestore.free_map import FreeMap
from binlog.format.pagestore.index import IndexHead
from binlog.format.pagestore.log import RECORDS_AT, SALT_BYTES, LogStart, parse_log_start
from binlog.format.pagestore.other_files import BACKUP_END, LOG_FILE, MAP_FILES, NEW_END, PAGE_FILE, map_name
from binlog.format.pagestore.page import PAGE_BYTES_MIN, PAGE_COUNT_MAX, ROOT_PAGE, pack_page
from binlog.storage.directory import Directory
from binlog.storage.failures import own_errors
from binlog.storage.files import sync, write_at


def next_start(page_bytes: int, generation: int) -> LogStart:
    """The header of a generation that nobody has begun yet."""
    return LogStart(page_bytes, generation, os.urandom(SALT_BYTES), time.time_ns())


def begin_generation(directory: Directory, log_fd: int, start: LogStart, states: bytes) -> None:
    """The last two steps of a checkpoint.  Raises: FullError; AccessError; PoisonedError."""
    name = map_name(start.generation)
    path = directory.file_path(name)
    with directory.opened(name, writable=True) as fd:
        data = FreeMap(start.page_bytes, start.generation, start.salt, states).pack()
        write_at(fd, data, 0, path)
        with own_errors(path, "cutting off what lies behind a map"):
            os.ftruncate(fd, len(data))
        sync(fd, path)
    path = directory.file_path(LOG_FILE)
    write_at(log_fd, start.pack(), 0, path)
    sync(log_fd, path)


FIRST_GENERATION = 1


def ensure_store(directory: Directory, page_bytes: int | None) -> None:
    """Have a store in the folder; where there is one, it stays as it is.

    Raises: CorruptError where parts of a store are there, and others are not; FullError; AccessError; PoisonedError.
    """
    names = set(directory.names())
    if LOG_FILE in names and PAGE_FILE in names:
        return
    if LOG_FILE in names:
        raise CorruptError(directory.file_path(PAGE_FILE), 0, "missing", "the pages of the store are not there")
    if PAGE_FILE in names:
        _finish(directory, names)
        return
    if PAGE_FILE + BACKUP_END in names:
        raise CorruptError(directory.file_path(PAGE_FILE), 0, "backup", "a backup to this folder was not finished")
    page_bytes = page_bytes or PAGE_BYTES_MIN
    root = pack_page(ROOT_PAGE, IndexHead().pack(), page_bytes, FIRST_GENERATION)
    directory.write_new(PAGE_FILE + NEW_END, root)
    create_whole(directory, page_bytes, b"0")
    finish_store(directory, PAGE_FILE + NEW_END)


def create_whole(directory: Directory, page_bytes: int, states: bytes) -> None:
    """Make all but the pages, of which `states` says which are free.  Raises: FullError; AccessError; PoisonedError."""
    start = next_start(page_bytes, FIRST_GENERATION)
    for name in MAP_FILES:
        is_first = name == map_name(FIRST_GENERATION)
        data = FreeMap(page_bytes, FIRST_GENERATION, start.salt, states).pack() if is_first else b""
        directory.write_new(name, data)
    directory.write_new(LOG_FILE + NEW_END, start.pack().ljust(RECORDS_AT, b"\0"))
    directory.sync()


def finish_store(directory: Directory, pages_name: str) -> None:
    """Give the pages, and then the log, their names.  Raises: AccessError; PoisonedError."""
    directory.rename(pages_name, PAGE_FILE)
    directory.rename(LOG_FILE + NEW_END, LOG_FILE)


def _finish(directory: Directory, names: set[str]) -> None:
    """The pages have their name, and the log has not."""
    path = directory.file_path(LOG_FILE)
    if LOG_FILE + NEW_END not in names:
        raise CorruptError(path, 0, "missing", "the log of the store is not there")
    parse_log_start(directory.read(LOG_FILE + NEW_END, RECORDS_AT), path + NEW_END)
    directory.rename(LOG_FILE + NEW_END, LOG_FILE)


_USED, _FREE = ord("0"), ord("1")


class FreePages:
    """A byte for each page, as `FreeMap` has them.

    ensure: is told of a page that the file does not have yet, and may refuse it.
    """

    def __init__(self, states: bytes, ensure: Callable[[int], None]) -> None:
        self._states = bytearray(states)
        self._ensure = ensure
        self._lowest = 0
        self.free_count = self._states.count(_FREE)

    @property
    def states(self) -> bytes:
        """For each page `1` where it is free, and else `0`."""
        return bytes(self._states)

    @property
    def page_count(self) -> int:
        """Pages, free or not."""
        return len(self._states)

    def is_free(self, number: int) -> bool:
        """Whether nobody has the page."""
        return number >= len(self._states) or self._states[number] == _FREE

    def take(self) -> int:
        """The lowest page that is free, which is in use from now on.  Raises: FullError; AccessError."""
        number = self._states.find(_FREE, self._lowest) if self.free_count else -1
        if number < 0:
            self._lowest = len(self._states)
            return self.take_after_last()
        self._states[number] = _USED
        self._lowest = number + 1
        self.free_count -= 1
        return number

    def take_after_last(self) -> int:
        """The page behind the last one, which is in use from now on.  Raises: FullError; AccessError."""
        number = len(self._states)
        if number > PAGE_COUNT_MAX:
            raise FullError("the store has as many pages as there can be", limit=PAGE_COUNT_MAX)
        self._ensure(number)
        self._states.append(_USED)
        return number

    def take_number(self, number: int) -> None:
        """As `take`, of a page that is free."""
        self._states[number] = _USED
        self.free_count -= 1

    def truncate(self) -> None:
        """Have no free pages behind the last one that is in use."""
        used = len(self._states.rstrip(b"1"))
        self.free_count -= len(self._states) - used
        del self._states[used:]
        self._lowest = min(self._lowest, used)

    def release(self, number: int) -> None:
        """The page is free from now on."""
        self._states[number] = _FREE
        self._lowest = min(self._lowest, number)
        self.free_count += 1
