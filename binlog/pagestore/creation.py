"""Making a new store.

The log is named last: where it has its name, all is there.  A store that was being made when its process died is made
anew, or finished where its pages have their name already.
"""

from __future__ import annotations

from binlog.errors import CorruptError
from binlog.format.pagestore.free_map import FreeMap
from binlog.format.pagestore.index import IndexHead
from binlog.format.pagestore.log import RECORDS_AT, parse_log_start
from binlog.format.pagestore.names import BACKUP_END, LOG_FILE, MAP_FILES, NEW_END, PAGE_FILE, map_name
from binlog.format.pagestore.page import PAGE_BYTES_MIN, ROOT_PAGE, pack_page
from binlog.pagestore.checkpoint import next_start
from binlog.storage.directory import Directory

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
