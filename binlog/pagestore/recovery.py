"""Opening a store's files, and bringing the pages to what the log says; see docs/pagestore.md, "Recovery"."""

from __future__ import annotations

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
from binlog.storage.directory import Directory
from binlog.storage.files import content_bytes, read_at, sync, write_at


class OpenFiles:
    """The files of a store, whose pages are as the log says, which is empty.

    start: of the log's generation.  tx_id_max: the largest id of a transaction that the log had.
    """

    def __init__(self, directory: Directory, options: PageStoreOptions) -> None:
        """Open them, and make them if there is no store; they are closed with the directory.

        Raises: CorruptError; VersionError; ValueError; FullError; AccessError; PoisonedError.
        """
        ensure_store(directory, options.page_bytes)
        self.log_fd, path = directory.open(LOG_FILE, writable=True), directory.file_path(LOG_FILE)
        start = parse_log_start(read_at(self.log_fd, RECORDS_AT, 0, path), path)
        if options.page_bytes not in (None, start.page_bytes):
            raise ValueError(f"the pages of {directory.path} have {start.page_bytes} bytes, not {options.page_bytes}")
        file = PageFile(directory.path, directory.open(PAGE_FILE, writable=True), start.page_bytes)
        self.cache = Cache(file, options.cache_pages)
        self.free = FreePages(read_map(directory, start), file.ensure)
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
        begin_generation(directory, self.log_fd, self.start, self.free.states)
        self.cache.generation = self.start.generation


def read_map(directory: Directory, start: LogStart) -> bytes:
    """Which pages are free when a generation begins.

    Raises: CorruptError; VersionError; NotFoundError; AccessError.
    """
    name = map_name(start.generation)
    path = directory.file_path(name)
    found = parse_free_map(directory.read(name), path)
    if (found.generation, found.salt, found.page_bytes) != (start.generation, start.salt, start.page_bytes):
        raise CorruptError(path, 0, "generation", f"it is of the generation {found.generation}, or of another store")
    return found.states
