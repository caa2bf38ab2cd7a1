"""Opening a store's files, and bringing the pages to what the log says; see docs/pagestore.md, "Recovery".

What a log's records make of pages.

The first action of a generation on a page has all of it, so that no page is read for this: one that was torn while it
was written at a checkpoint is made from the log alone.

Reading a log: its records from the first to the last whole one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from binlog.errors import CorruptError
from binlog.format.pagestore.free_map import parse_free_map
from binlog.format.pagestore.log import (
    MARK_BYTES,
    RECORDS_AT,
    Action,
    ActionKind,
    LogRecord,
    LogStart,
    declared_bytes,
    parse_log_start,
    parse_record,
)
from binlog.format.pagestore.other_files import LOG_FILE, PAGE_FILE, map_name
from binlog.format.pagestore.page import FREE_CONTENT, page_content_bytes
from binlog.pagestore.options import PageStoreOptions
from binlog.pagestore.pages.cache import Cache, PageFile
from binlog.pagestore.pages.generation import FreePages, begin_generation, ensure_store, next_start
from binlog.storage.directory import Directory
from binlog.storage.files import content_bytes, read_at, sync, write_at

_SCAN_FACTOR_MAX = 16


class Records:
    """The records of a generation; the last one was the last that was written whole.

    data: of the whole file.  end: where the last one ends that was given.
    Raises: CorruptError where one is damaged that was on the disk when a later one was written.
    """

    def __init__(self, data: bytes, start: LogStart, path: str) -> None:
        self._data = data
        self._start = start
        self._path = path
        self.end = RECORDS_AT

    def __iter__(self) -> Iterator[LogRecord]:
        while True:
            try:
                record, end = parse_record(self._data, self.end, self._start, self._path)
            except CorruptError as error:
                if error.rule != "action" and not _was_overtaken(self._data, self.end, self._start, self._path):
                    return
                raise
            self.end = end
            yield record


def _was_overtaken(data: bytes, offset: int, start: LogStart, path: str) -> bool:
    """Whether a record lies behind this place that was written when what is here was on the disk.

    Bytes that begin a record again and again, and are none, are taken for damage once looking at them takes longer than
    reading the log some times.
    """
    mark = start.salt[:MARK_BYTES]
    position, left = offset, _SCAN_FACTOR_MAX * len(data)
    while (position := data.find(mark, position + 1)) >= 0:
        left -= declared_bytes(data, position)
        if left < 0:
            return True
        try:
            record, _ = parse_record(data, position, start, path)
        except CorruptError:
            continue
        if record.synced > offset:
            return True
    return False


class Redo:
    """Pages by their numbers, as they are behind the last record; of a free one its content says so.

    pages: zeros may lack at the end of each.
    record_count: of those that were redone.  tx_id_max: the largest of their transactions.
    """

    def __init__(self, page_bytes: int, path: str) -> None:
        self.pages: dict[int, bytes | bytearray] = {}
        self.record_count = 0
        self.tx_id_max = 0
        self._content_bytes = page_content_bytes(page_bytes)
        self._path = path

    def add(self, records: Iterable[LogRecord]) -> None:
        """Redo them, which follow those that were redone.  Raises: CorruptError."""
        for record in records:
            for action in record.actions:
                self._apply(action)
            self.record_count += 1
            self.tx_id_max = max(self.tx_id_max, record.tx_id)

    def is_free(self, number: int) -> bool:
        """Whether the page is free behind them."""
        return self.pages[number] is FREE_CONTENT

    def content(self, number: int) -> bytes | bytearray | None:
        """What a page holds behind them, with all its zeros unless it is free; None where they say nothing of it."""
        content = self.pages.get(number)
        if content is None or content is FREE_CONTENT:
            return content
        return content.ljust(self._content_bytes, b"\0")

    def update_free_pages(self, free: FreePages) -> None:
        """Have what is free be so.  Raises: CorruptError for a page that no store of these pages has; FullError.

        The lowest free page is used first, so that each page behind the map's last one has its own action in the log.
        """
        beyond = [number for number in self.pages if number >= free.page_count]
        if beyond and max(beyond) >= free.page_count + len(beyond):
            text = f"page {max(beyond)} changes, and the store has {free.page_count} and {len(beyond)} new ones"
            raise CorruptError(self._path, 0, "page", text)
        for number in sorted(self.pages):
            while number >= free.page_count:
                free.release(free.take_after_last())
            if free.is_free(number) != self.is_free(number):
                if self.is_free(number):
                    free.release(number)
                else:
                    free.take_number(number)

    def _apply(self, action: Action) -> None:
        kind, number, offset, data = action
        if kind == ActionKind.DELETE:
            self.pages[number] = FREE_CONTENT
        elif kind != ActionKind.PORTION:
            self.pages[number] = data
        else:
            content = self.pages.get(number, FREE_CONTENT)
            if content is FREE_CONTENT:
                text = f"a part of page {number} changes, and the log does not have the page"
                raise CorruptError(self._path, 0, "first_action", text)
            if not isinstance(content, bytearray):  # most pages are messages, of which no part changes
                content = self.pages[number] = bytearray(content.ljust(self._content_bytes, b"\0"))
            content[offset : offset + len(data)] = data


class StoreFiles:
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
        redo.update_free_pages(self.free)
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
