"""Opening a store's files, and bringing the pages to what the log says; see docs/pagestore.md, "Recovery"."""

from __future__ import annotations

import os
from contextlib import ExitStack

from binlog.errors import CorruptError
from binlog.format.pagestore.free_map import parse_free_map
from binlog.format.pagestore.log import RECORDS_AT, LogStart, parse_log_start
from binlog.format.pagestore.names import LOG_FILE, PAGE_FILE, map_name
from binlog.pagestore.cache import Cache
from binlog.pagestore.checkpoint import begin_generation, next_start
from binlog.pagestore.creation import ensure_store
from binlog.pagestore.free_pages import FreePages
from binlog.pagestore.log_reading import Records
from binlog.pagestore.options import PageStoreOptions
from binlog.pagestore.page_file import PageFile
from binlog.pagestore.redo import Redo
from binlog.storage.files import content_bytes, open_file, read_at, sync, write_at


class OpenFiles:
    """The files of a store, whose pages are as the log says, which is empty.

    start: of the log's generation.  tx_id_max: the largest id of a transaction that the log had.
    """

    def __init__(self, folder: str, directory_fd: int, options: PageStoreOptions, closing: ExitStack) -> None:
        self._closing = closing
        self.log_fd, path = _open(folder, directory_fd, LOG_FILE, closing)
        start = parse_log_start(read_at(self.log_fd, RECORDS_AT, 0, path), path)
        if options.page_bytes not in (None, start.page_bytes):
            raise ValueError(f"the pages of {folder} have {start.page_bytes} bytes, not {options.page_bytes}")
        file = PageFile(folder, _open(folder, directory_fd, PAGE_FILE, closing)[0], start.page_bytes)
        self.cache = Cache(file, options.cache_pages)
        self.free = FreePages(read_map(folder, directory_fd, start), file.ensure)
        redo = Redo(start.page_bytes, path)
        data = read_at(self.log_fd, content_bytes(self.log_fd), 0, path)
        records = Records(data, start, path)
        redo.add(records)
        self.tx_id_max = redo.tx_id_max
        redo.mark(self.free)
        # Nobody may have synced it, or a sync may have failed, after which another one does nothing: pages that were
        # written before it is on the disk could then have what a power cut takes from the log.
        write_at(self.log_fd, memoryview(data)[: records.end], 0, path)
        sync(self.log_fd, path)
        file.write(sorted(redo.pages.items()), start.generation)
        file.sync()
        self.start = next_start(start.page_bytes, start.generation + 1)
        begin_generation(folder, directory_fd, self.log_fd, self.start, self.free.states)
        self.cache.generation = self.start.generation

    def close(self) -> None:
        """Close them all."""
        self._closing.close()


def open_files(folder: str, directory_fd: int, options: PageStoreOptions) -> OpenFiles:
    """Open them, and make them where there is no store.

    Raises: CorruptError; VersionError; ValueError; FullError; AccessError; PoisonedError.
    """
    ensure_store(folder, directory_fd, options.page_bytes)
    with ExitStack() as opening:
        files = OpenFiles(folder, directory_fd, options, opening)
        files._closing = opening.pop_all()
    return files


def read_map(folder: str, directory_fd: int, start: LogStart) -> bytes:
    """Which pages are free when a generation begins.

    Raises: CorruptError; VersionError; NotFoundError; AccessError.
    """
    with ExitStack() as closing:
        fd, path = _open(folder, directory_fd, map_name(start.generation), closing)
        found = parse_free_map(read_at(fd, content_bytes(fd), 0, path), path)
    if (found.generation, found.salt, found.page_bytes) != (start.generation, start.salt, start.page_bytes):
        raise CorruptError(path, 0, "generation", f"it is of the generation {found.generation}, or of another store")
    return found.states


def _open(folder: str, directory_fd: int, name: str, closing: ExitStack) -> tuple[int, str]:
    path = os.path.join(folder, name)
    fd = open_file(directory_fd, name, path, writable=True)
    closing.callback(os.close, fd)
    return fd, path
