"""Recovery of a page store: opens its files, and redoes the log; see docs/pagestore.md, "Recovery".

The first action on a page in each generation has all of the page.  So recovery never reads a page that a checkpoint may
have torn: it rebuilds the page from the log alone.
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
    """The records of a generation, up to the last whole one.

    data: the bytes of the whole file.  end: the end of the last record that was returned.
    Raises: CorruptError if a record is damaged that was on the disk when a later one was written.
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
    """Whether a later record was written after the bytes at this offset were on the disk.

    If many positions resemble the start of a record without being one, they count as damage once checking them takes
    much longer than reading the log.
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
    """The pages after the last record, by number.

    pages: contents, possibly without the zeros at their ends; a free page has FREE_CONTENT.
    record_count: of the records that were redone.  tx_id_max: the largest transaction id in them.
    """

    def __init__(self, page_bytes: int, path: str) -> None:
        self.pages: dict[int, bytes | bytearray] = {}
        self.record_count = 0
        self.tx_id_max = 0
        self._content_bytes = page_content_bytes(page_bytes)
        self._path = path

    def add(self, records: Iterable[LogRecord]) -> None:
        """Redo records; they follow those that were redone before.  Raises: CorruptError."""
        for record in records:
            for action in record.actions:
                self._apply(action)
            self.record_count += 1
            self.tx_id_max = max(self.tx_id_max, record.tx_id)

    def is_free(self, number: int) -> bool:
        """Whether the page is free after the log."""
        return self.pages[number] is FREE_CONTENT

    def content(self, number: int) -> bytes | bytearray | None:
        """Return the content of a page after the log, or None if the log does not have the page."""
        content = self.pages.get(number)
        if content is None or content is FREE_CONTENT:
            return content
        return content.ljust(self._content_bytes, b"\0")

    def update_free_pages(self, free: FreePages) -> None:
        """Update the map of free pages.

        The lowest free page is always used first, so each page after the map's last one has its own action in the log.
        Raises: CorruptError for a page that the store cannot have; FullError.
        """
        beyond = [number for number in self.pages if number >= free.page_count]
        if beyond and max(beyond) >= free.page_count + len(beyond):
            text = (
                f"page {max(beyond)} changes, but the store has only {free.page_count} pages and {len(beyond)} new ones"
            )
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
                text = f"a part of page {number} changes, but the log does not have the page"
                raise CorruptError(self._path, 0, "first_action", text)
            if not isinstance(
                content, bytearray
            ):  # only for a partial change: most pages are messages, which never change in part
                content = self.pages[number] = bytearray(content.ljust(self._content_bytes, b"\0"))
            content[offset : offset + len(data)] = data


class StoreFiles:
    """The open files of a store after recovery: the pages are up to date, and the log is empty.

    start: the header of the log.  tx_id_max: the largest transaction id that the log had.
    """

    def __init__(self, directory: Directory, options: PageStoreOptions) -> None:
        """Open the files, or create a store; closing the directory closes them.

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
        # The log may never have been synced, or a sync may have failed, after which another sync does nothing.  Write
        # it again: otherwise a power cut could take records whose changes are in the pages already.
        write_at(self.log_fd, memoryview(data)[: records.end], 0, path)
        sync(self.log_fd, path)
        file.write(sorted(redo.pages.items()), start.generation)
        file.sync()
        self.start = next_start(start.page_bytes, start.generation + 1)
        begin_generation(directory, self.log_fd, self.start, self.free.states)
        self.cache.generation = self.start.generation


def read_map(directory: Directory, start: LogStart) -> bytes:
    """Read the map of free pages at the start of a generation.

    Raises: CorruptError; VersionError; NotFoundError; AccessError.
    """
    name = map_name(start.generation)
    path = directory.file_path(name)
    found = parse_free_map(directory.read(name), path)
    if (found.generation, found.salt, found.page_bytes) != (start.generation, start.salt, start.page_bytes):
        raise CorruptError(
            path, 0, "generation", f"the map belongs to generation {found.generation}, or to another store"
        )
    return found.states
