"""Reads and checks a page store from outside, as it was at one moment, while its owner may be running.

The log is read first, and then the pages that it does not have from their file.  Such a page has not changed since the
last checkpoint, unless a record that changes it was written meanwhile, or another checkpoint was made.  In both cases
everything is read again.

`check` repairs nothing.  It does not report the remains of a crash that the next opening cleans up: a record that was
being written, and torn pages that the log has.
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
    """A store at one moment.

    start: the header of its log.  free: its free pages.  record_count: the records in the log.
    """

    def __init__(self, directory: Directory) -> None:
        """directory: of the store; closing it closes the files that this opens.

        Raises: NotFoundError if there is no store; CorruptError; VersionError; AccessError.
        """
        self.directory = directory
        self.log_path, self.page_path = directory.file_path(LOG_FILE), directory.file_path(PAGE_FILE)
        try:
            self._log_fd = directory.open(LOG_FILE, writable=False)
        except NotFoundError as error:
            raise NotFoundError(f"{directory.path} is not a page store: it has no file {LOG_FILE}") from error
        self._page_fd = directory.open(PAGE_FILE, writable=False)
        self.start = self._start()
        self._read: set[int] = set()

    def load(self) -> None:
        """Read the log and the map of free pages.  Raises: CorruptError; VersionError; AccessError."""
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
        """Return the location of a page, for reporting damage."""
        return PageAt(self.page_path, number, self.start.page_bytes)

    def content(self, number: int) -> bytes | bytearray:
        """Return the content of a page, without its check.  Raises: CorruptError; AccessError."""
        found = self._redo.content(number)
        return parse_page(self.raw(number), self.at(number)) if found is None else found

    def raw(self, number: int) -> bytes:
        """Return the bytes of a page in the file.  Raises: AccessError."""
        self._read.add(number)
        size = self.start.page_bytes
        return read_at(self._page_fd, size, number * size, self.page_path)

    def is_logged(self, number: int) -> bool:
        """Whether the log has the page, so that its bytes in the file do not matter."""
        return number in self._redo.pages

    def is_still_so(self) -> bool:
        """Whether everything that was read is unchanged."""
        try:
            return self._start() == self.start and not self._read.intersection(self._read_log().pages)
        except CorruptError:
            return False


def view_store(path: str | os.PathLike[str], work: Callable[[StoreView], _T]) -> _T:
    """Return the result of `work` on a store; start again if the store changed meanwhile.

    Takes no lock and writes nothing.
    Raises: any exception of `work`; NotFoundError if there is no store; CorruptError; VersionError; AccessError;
    BusyError if the store changes faster than it can be read.
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
                # The cause may be a record that was being written, or a map of another generation.  Then the next
                # attempt finds another generation, or a whole record.
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
    """Return every problem of the page store in a folder.

    Reads every page.  Takes no lock and writes nothing.
    Raises: NotFoundError if the folder is not a page store; AccessError; VersionError; BusyError if the store changes
    faster than it can be read.
    """
    try:
        return view_store(path, lambda view: _Check(view).problems)
    except CorruptError as error:
        return [problem_of(error, os.fspath(path))]


class _Check:
    """Checks a store.  problems: the problems that were found."""

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
                    self._report(at.damage("names", f"has {entry.name!r} out of order"))
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
                self._report(at.damage("keys", f"has a key that is not larger than {last}"))
            if not head.valid_count and head.next != NONE:
                self._report(at.damage("empty", "is empty, but is not the last page of its index"))
            last = entries[-1].key if entries else last
            yield from (entry for entry in entries if entry.valid)
            number, previous = head.next, number
        return None

    def _follows(self, number: int, previous: int, head: IndexHead) -> bool:
        """Whether this index page follows the previous one; counts the use of the page."""
        self._users[number] += 1
        if head.previous != previous:
            self._report(self._view.at(number).damage("chain", f"follows page {head.previous}, not {previous}"))
        return head.previous == previous and self._users[number] == 1

    def _message(self, number: int, sharer_counts: list[int]) -> None:
        if len(sharer_counts) > max(1, *sharer_counts):
            text = f"begins a message with {len(sharer_counts)} entries, whose sharer counts are {sharer_counts}"
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
        """Check that each page has one user, or is free."""
        view, page_count = self._view, self._view.free.page_count
        is_sound = not self.problems
        for number, count in self._users.items():
            if count > 1:
                self._report(view.at(number).damage("shared", "is used twice"))
            if view.free.is_free(number):
                self._report(view.at(number).damage("free", "is in use, but the map says that it is free"))
        for number in range(page_count):
            if view.free.is_free(number):
                self._free_page(number)
            elif is_sound and number not in self._users:
                self._report(view.at(number).damage("lost", "is not free, but nothing uses it"))
        del self.problems[_PROBLEMS_MAX:]

    def _free_page(self, number: int) -> None:
        view = self._view
        if view.is_logged(number) or not any(view.raw(number)):
            return  # the log says so, or the page was never used
        try:
            if view.content(number)[0] != FREE:
                self._report(view.at(number).damage("free", "is free, but its content says that it is in use"))
        except CorruptError as error:
            self._report(error)
