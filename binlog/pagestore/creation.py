"""Making a new store.

The log is named last: where it has its name, all is there.  A store that was being made when its process died is made
anew, or finished where its pages have their name already.
"""

from __future__ import annotations

import os

from binlog.errors import CorruptError
from binlog.format.pagestore.free_map import FreeMap
from binlog.format.pagestore.index import IndexHead
from binlog.format.pagestore.log import RECORDS_AT, parse_log_start
from binlog.format.pagestore.names import BACKUP_END, LOG_FILE, MAP_FILES, NEW_END, PAGE_FILE, map_name
from binlog.format.pagestore.page import PAGE_BYTES_MIN, ROOT_PAGE, pack_page
from binlog.pagestore.checkpoint import next_start
from binlog.storage.failures import own_errors
from binlog.storage.files import (
    create_file,
    open_file,
    read_at,
    remove_file,
    rename_file,
    sync,
    sync_directory,
    write_at,
)

FIRST_GENERATION = 1


def ensure_store(folder: str, directory_fd: int, page_bytes: int | None) -> None:
    """Have a store in the folder; where there is one, it stays as it is.

    Raises: CorruptError where parts of a store are there, and others are not; FullError; AccessError; PoisonedError.
    """
    with own_errors(folder, "listing the folder"):
        names = set(os.listdir(directory_fd))
    if LOG_FILE in names and PAGE_FILE in names:
        return
    if LOG_FILE in names:
        raise CorruptError(os.path.join(folder, PAGE_FILE), 0, "missing", "the pages of the store are not there")
    if PAGE_FILE in names:
        _finish(folder, directory_fd, names)
        return
    if PAGE_FILE + BACKUP_END in names:
        raise CorruptError(os.path.join(folder, PAGE_FILE), 0, "backup", "a backup to this folder was not finished")
    page_bytes = page_bytes or PAGE_BYTES_MIN
    _write_anew(
        folder,
        directory_fd,
        PAGE_FILE + NEW_END,
        pack_page(ROOT_PAGE, IndexHead().pack(), page_bytes, FIRST_GENERATION),
    )
    create_whole(folder, directory_fd, page_bytes, b"0")
    finish_store(folder, directory_fd, PAGE_FILE + NEW_END)


def create_whole(folder: str, directory_fd: int, page_bytes: int, states: bytes) -> None:
    """Make all but the pages, of which `states` says which are free.  Raises: FullError; AccessError; PoisonedError."""
    start = next_start(page_bytes, FIRST_GENERATION)
    for name in MAP_FILES:
        is_first = name == map_name(FIRST_GENERATION)
        data = FreeMap(page_bytes, FIRST_GENERATION, start.salt, states).pack() if is_first else b""
        _write_anew(folder, directory_fd, name, data)
    _write_anew(folder, directory_fd, LOG_FILE + NEW_END, start.pack().ljust(RECORDS_AT, b"\0"))
    sync_directory(directory_fd, folder)


def finish_store(folder: str, directory_fd: int, pages_name: str) -> None:
    """Give the pages, and then the log, their names.  Raises: AccessError; PoisonedError."""
    rename_file(directory_fd, pages_name, PAGE_FILE, os.path.join(folder, PAGE_FILE))
    rename_file(directory_fd, LOG_FILE + NEW_END, LOG_FILE, os.path.join(folder, LOG_FILE))


def _finish(folder: str, directory_fd: int, names: set[str]) -> None:
    """The pages have their name, and the log has not."""
    path = os.path.join(folder, LOG_FILE)
    if LOG_FILE + NEW_END not in names:
        raise CorruptError(path, 0, "missing", "the log of the store is not there")
    fd = open_file(directory_fd, LOG_FILE + NEW_END, path + NEW_END, writable=False)
    try:
        parse_log_start(read_at(fd, RECORDS_AT, 0, path), path + NEW_END)
    finally:
        os.close(fd)
    rename_file(directory_fd, LOG_FILE + NEW_END, LOG_FILE, path)


def _write_anew(folder: str, directory_fd: int, name: str, data: bytes) -> None:
    path = os.path.join(folder, name)
    remove_file(directory_fd, name, path)
    fd = create_file(directory_fd, name, path)
    try:
        write_at(fd, data, 0, path)
        sync(fd, path)
    finally:
        os.close(fd)
