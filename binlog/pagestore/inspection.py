"""Reading a page store from outside, as it was at one moment, while another process may have it.

The log is read first, and pages that it does not have are then read from their file.  Such a page has not changed since
the last checkpoint, unless a record was written meanwhile that changes it, or a checkpoint was made: then all is done
again.

Looking for everything that is wrong with a page store, and repairing nothing.

May run while its owner goes on.  After a crash nothing is told of what the next opening does by itself: a record that
was being written, and pages that were, which the log has.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TypeVar

from binlog.errors import BusyError, CorruptError, NotFoundError
from binlog.format.pagestore.index import IndexHead, QueueEntry, RootEntry, parse_queue_page, parse_root_page
from binlog.format.pagestore.log import RECORDS_AT, LogStart, parse_log_start
from binlog.format.pagestore.other_files import LOG_FILE, PAGE_FILE
from binlog.format.pagestore.page import FREE, NONE, ROOT_PAGE, PageAt, parse_message_page, parse_page
from binlog.format.problem import Problem, problem_of
from binlog.pagestore.pages.generation import FreePages
from binlog.pagestore.recovery import Records, Redo, read_map
from binlog.storage.directory import Directory
from binlog.storage.files import content_bytes, read_at

_T = TypeVar("_T")
_TRIES = 64


class StoreView:
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
        self._redo.update_free_pages(self.free)

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


def view_store(path: str | os.PathLike[str], work: Callable[[StoreView], _T]) -> _T:
    """What comes of looking at a store; it is begun again where the store changed meanwhile.

    Takes no lock and writes nothing.
    Raises: what `work` raises; NotFoundError where there is no store; CorruptError; VersionError; AccessError;
    BusyError where the store changes faster than it can be read.
    """
    folder = os.path.abspath(path)
    before = None
    for _ in range(_TRIES):
        with Directory(folder) as directory:
            view: StoreView | None = None
            try:
                view = StoreView(directory)
                view.load()
            except CorruptError as error:
                # It may be of a record that was being written, or of a map for another generation.  Neither is so
                # when the next look begins, which then has another generation, or finds the record whole.
                failed = view and view.start, str(error)
                if failed == before:
                    raise
                before = failed
                continue
            try:
                found = work(view)
            except CorruptError:
                if view.is_still_so():
                    raise
                continue
            if view.is_still_so():
                return found
    raise BusyError(f"the store {folder} changes faster than it can be read", holder=None)


_PROBLEMS_MAX = 100


def check_page_store(path: str | os.PathLike[str]) -> list[Problem]:
    """Every problem found in the page store in a folder; an empty list for none.

    Reads every page.  Takes no lock and writes nothing.
    Raises: NotFoundError where the folder is no page store; AccessError; VersionError; BusyError where the store
    changes faster than it can be read.
    """
    try:
        return view_store(path, lambda view: _Check(view).problems)
    except CorruptError as error:
        return [problem_of(error, os.fspath(path))]


class _Check:
    """problems: of a store."""

    def __init__(self, view: StoreView) -> None:
        self.problems: list[Problem] = []
        self._view = view
        self._users: Counter[int] = Counter()
        self._messages: dict[int, list[int]] = {}
        for entry in self._root():
            for queue_entry in self._queue(entry):
                self._messages.setdefault(queue_entry.message_page, []).append(queue_entry.sharer_count)
        for first_page, sharer_counts in self._messages.items():
            self._message(first_page, sharer_counts)
        self._pages()

    def _report(self, error: CorruptError) -> None:
        self.problems.append(problem_of(error, error.path))

    def _root(self) -> Iterator[RootEntry]:
        number, previous, last = ROOT_PAGE, NONE, b""
        while number != NONE:
            at = self._view.at(number)
            try:
                head, entries = parse_root_page(self._view.content(number), at)
            except CorruptError as error:
                return self._report(error)
            if not self._follows(number, previous, head):
                return None
            for entry in entries:
                if entry.name.encode() <= last:
                    self._report(at.damage("names", f"has {entry.name!r} out of its order"))
                last = entry.name.encode()
                yield entry
            number, previous = head.next, number
        return None

    def _queue(self, queue: RootEntry) -> Iterator[QueueEntry]:
        number, previous, last = queue.first_page, NONE, None
        while number != NONE:
            at = self._view.at(number)
            try:
                head, entries = parse_queue_page(self._view.content(number), at)
            except CorruptError as error:
                return self._report(error)
            if not self._follows(number, previous, head):
                return None
            if last is not None and entries and entries[0].key <= last:
                self._report(at.damage("keys", f"has a key that is not behind {last}"))
            if not head.valid_count and head.next != NONE:
                self._report(at.damage("empty", "has no entry, and is not the last one of its index"))
            last = entries[-1].key if entries else last
            yield from (entry for entry in entries if entry.valid)
            number, previous = head.next, number
        return None

    def _follows(self, number: int, previous: int, head: IndexHead) -> bool:
        """Whether a page of an index is the one behind another; it is in use by that, from now on."""
        self._users[number] += 1
        if head.previous != previous:
            self._report(self._view.at(number).damage("chain", f"follows page {head.previous}, not {previous}"))
        return head.previous == previous and self._users[number] == 1

    def _message(self, number: int, sharer_counts: list[int]) -> None:
        if len(sharer_counts) > max(1, *sharer_counts):
            text = f"begins a message of {len(sharer_counts)} entries, which say {sharer_counts}"
            self._report(self._view.at(number).damage("sharers", text))
        previous = NONE
        while number != NONE:
            self._users[number] += 1
            if self._users[number] > 1:
                return
            try:
                page = parse_message_page(self._view.content(number), previous, self._view.at(number))
            except CorruptError as error:
                self._report(error)
                return
            number, previous = page.next, number

    def _pages(self) -> None:
        """Each page is somebody's, or free."""
        view, page_count = self._view, self._view.free.page_count
        is_sound = not self.problems
        for number, count in self._users.items():
            if count > 1:
                self._report(view.at(number).damage("shared", "is used twice"))
            if view.free.is_free(number):
                self._report(view.at(number).damage("free", "is in use, and is said to be free"))
        for number in range(page_count):
            if view.free.is_free(number):
                self._free_page(number)
            elif is_sound and number not in self._users:
                self._report(view.at(number).damage("lost", "is nobody's, and is not free"))
        del self.problems[_PROBLEMS_MAX:]

    def _free_page(self, number: int) -> None:
        view = self._view
        if view.is_logged(number) or not any(view.raw(number)):
            return  # the log says it; or nobody has ever used it
        try:
            if view.content(number)[0] != FREE:
                self._report(view.at(number).damage("free", "says that it is in use, and is free"))
        except CorruptError as error:
            self._report(error)
