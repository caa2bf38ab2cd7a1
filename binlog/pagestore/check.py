"""Looking for everything that is wrong with a page store, and repairing nothing.

May run while its owner goes on.  After a crash nothing is told of what the next opening does by itself: a record that
was being written, and pages that were, which the log has.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

from binlog.errors import CorruptError
from binlog.format.pagestore.index import IndexHead, QueueEntry, RootEntry, parse_queue_page, parse_root_page
from binlog.format.pagestore.page import FREE, NONE, ROOT_PAGE, parse_message_page
from binlog.format.problem import Problem, problem_of
from binlog.pagestore.inspection import StoreLook, look_at

_TOLD_MAX = 100


def check_page_store(path: str | os.PathLike[str]) -> list[Problem]:
    """Every problem found in the page store in a folder; an empty list for none.

    Reads every page.  Takes no lock and writes nothing.
    Raises: NotFoundError where the folder is no page store; AccessError; VersionError; BusyError where the store
    changes faster than it can be read.
    """
    try:
        return look_at(path, lambda look: _Check(look).problems)
    except CorruptError as error:
        return [problem_of(error, os.fspath(path))]


class _Check:
    """problems: of a store."""

    def __init__(self, look: StoreLook) -> None:
        self.problems: list[Problem] = []
        self._look = look
        self._users: Counter[int] = Counter()
        self._messages: dict[int, list[int]] = {}
        for entry in self._root():
            for queue_entry in self._queue(entry):
                self._messages.setdefault(queue_entry.message_page, []).append(queue_entry.sharer_count)
        for first_page, sharer_counts in self._messages.items():
            self._message(first_page, sharer_counts)
        self._pages()

    def _tell(self, error: CorruptError) -> None:
        self.problems.append(problem_of(error, error.path))

    def _root(self) -> Iterator[RootEntry]:
        number, previous, last = ROOT_PAGE, NONE, b""
        while number != NONE:
            at = self._look.at(number)
            try:
                head, entries = parse_root_page(self._look.content(number), at)
            except CorruptError as error:
                return self._tell(error)
            if not self._follows(number, previous, head):
                return None
            for entry in entries:
                if entry.name.encode() <= last:
                    self._tell(at.damage("names", f"has {entry.name!r} out of its order"))
                last = entry.name.encode()
                yield entry
            number, previous = head.next, number
        return None

    def _queue(self, queue: RootEntry) -> Iterator[QueueEntry]:
        number, previous, last = queue.first_page, NONE, None
        while number != NONE:
            at = self._look.at(number)
            try:
                head, entries = parse_queue_page(self._look.content(number), at)
            except CorruptError as error:
                return self._tell(error)
            if not self._follows(number, previous, head):
                return None
            if last is not None and entries and entries[0].key <= last:
                self._tell(at.damage("keys", f"has a key that is not behind {last}"))
            if not head.valid_count and head.next != NONE:
                self._tell(at.damage("empty", "has no entry, and is not the last one of its index"))
            last = entries[-1].key if entries else last
            yield from (entry for entry in entries if entry.valid)
            number, previous = head.next, number
        return None

    def _follows(self, number: int, previous: int, head: IndexHead) -> bool:
        """Whether a page of an index is the one behind another; it is in use by that, from now on."""
        self._users[number] += 1
        if head.previous != previous:
            self._tell(self._look.at(number).damage("chain", f"follows page {head.previous}, not {previous}"))
        return head.previous == previous and self._users[number] == 1

    def _message(self, number: int, sharer_counts: list[int]) -> None:
        if len(sharer_counts) > max(1, *sharer_counts):
            text = f"begins a message of {len(sharer_counts)} entries, which say {sharer_counts}"
            self._tell(self._look.at(number).damage("sharers", text))
        previous = NONE
        while number != NONE:
            self._users[number] += 1
            if self._users[number] > 1:
                return
            try:
                page = parse_message_page(self._look.content(number), previous, self._look.at(number))
            except CorruptError as error:
                self._tell(error)
                return
            number, previous = page.next, number

    def _pages(self) -> None:
        """Each page is somebody's, or free."""
        look, page_count = self._look, self._look.free.page_count
        is_sound = not self.problems
        for number, count in self._users.items():
            if count > 1:
                self._tell(look.at(number).damage("shared", "is used twice"))
            if look.free.is_free(number):
                self._tell(look.at(number).damage("free", "is in use, and is said to be free"))
        for number in range(page_count):
            if look.free.is_free(number):
                self._free_page(number)
            elif is_sound and number not in self._users:
                self._tell(look.at(number).damage("lost", "is nobody's, and is not free"))
        del self.problems[_TOLD_MAX:]

    def _free_page(self, number: int) -> None:
        look = self._look
        if look.is_logged(number) or not any(look.raw(number)):
            return  # the log says it; or nobody has ever used it
        try:
            if look.content(number)[0] != FREE:
                self._tell(look.at(number).damage("free", "says that it is in use, and is free"))
        except CorruptError as error:
            self._tell(error)
