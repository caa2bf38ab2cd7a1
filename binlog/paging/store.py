"""The store of an address: its pages, of which the last one is written while the first ones are read.

Invariants
- Pages are in the order of their ids, and only the last one, if any, is added to.
- A page that was found at the start is never added to: what lies behind its last message may be what a crash left.
- A message is in a page as soon as `append` has returned, and stays there whatever becomes of the process.  It is
  durable with the next `sync`.

The pages of a store of which something may not be on the disk yet.

A page is among them from its first message until it was synced with nothing added any more; also one that was taken to
be depaged, for a transaction of which it has messages may be committed before it goes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from functools import partial

from binlog.errors import BinlogError, ClosedError, FullError, StateError
from binlog.format.paging.names import PAGE_ID_MAX
from binlog.format.paging.page_record import NO_TRANSACTION
from binlog.format.problem import Problem
from binlog.format.values import plain_bytes
from binlog.paging.addresses import AddressFolder, Commit, last_known_id
from binlog.paging.memory import wait_until
from binlog.paging.options import PagingOptions, Policy
from binlog.paging.page import Page
from binlog.paging.page_recovery import recover_pages
from binlog.paging.page_transaction import PageTransaction
from binlog.storage.native import Monitor, fork_generation


class UnsyncedPages:
    """Pages, in the order in which they were begun.  They are added, and listed, under the store's mutex."""

    def __init__(self) -> None:
        self._pages: dict[Page, None] = {}

    def add(self, page: Page) -> None:
        """A page was begun."""
        self._pages[page] = None

    def forget(self, page: Page) -> None:
        """A page has gone."""
        self._pages.pop(page, None)

    def all(self) -> list[Page]:
        """All of them now, to be synced when the mutex is not held any more."""
        return list(self._pages)

    def closed(self) -> list[Page]:
        """Those to which nothing is added any more."""
        return [page for page in self._pages if not page.is_open]

    def sync(self, pages: list[Page], commit: Commit | None = None) -> None:
        """Have these be on the disk; nothing is locked.  commit: syncs the last one.  Raises: PoisonedError."""
        for page in pages:
            was_open = page.is_open  # what is added behind the sync, before it is closed, is not in it
            page.sync(commit if page is pages[-1] else None)
            if not was_open:
                self.forget(page)


RunInBackground = Callable[[Callable[[], None]], None]

# What C takes at once, with what is around it.
MESSAGE_BYTES_MAX = (1 << 31) - 128
DROPPED = -1
_NO_ROOM = -2


def _append_nothing(message: bytes, tx_id: int) -> int | None:
    """What a store appends by that has no page to append to."""
    return None


def _nothing() -> None:
    pass


class PagingStore:
    """The pages of one address, for this process, whose threads may share it.  options: how they are kept.

    dropped_count: messages that were dropped as there was no room.  problems: what is wrong with pages that were read.
    page_closed: told each page to which nothing is added any more.  message_paged: called when `page` has put one.
    """

    def __init__(
        self,
        folder: AddressFolder,
        options: PagingOptions,
        run_in_background: RunInBackground,
        *,
        processed: int = 0,
        processed_identity: bytes = b"",
        complete: Collection[int] = (),
        commit_markers: Mapping[int, tuple[int, frozenset[int]]] | None = None,
    ) -> None:
        """later: does what need not be done now.

        processed: pages up to this one were depaged; processed_identity: of it, in JBoss Messaging's layout.
        complete: of these pages all was acknowledged.  All of these may still be there, and are removed.
        settled: of these pages a record, its id first, says which of their transactions were rolled back.
        """
        self.folder = folder
        self._guard = folder.guard
        self._change = folder.change
        self.address = folder.address
        self.dropped_count = 0
        self.problems: list[Problem] = []
        self.page_closed: list[Callable[[Page], None]] = []
        self.message_paged: Callable[[], None] = _nothing
        self.options = options
        self._processed = processed
        self._processed_identity = processed_identity
        self._complete = complete
        self._commit_markers = commit_markers or {}
        self._run_in_background = run_in_background
        self._generation = fork_generation()
        self._mutex = Monitor()
        self._pages: deque[Page] = deque()
        self._by_id: dict[int, Page] = {}
        self._unsynced = UnsyncedPages()
        self._current: Page | None = None
        self._append: Callable[[bytes, int], int | None] = _append_nothing
        self._due_work: deque[Callable[[], None]] = deque()
        self._is_paging = False
        self._state = "new"
        self._is_ended = False
        self._next_id = 1

    def start(self) -> None:
        """Find the pages that there are; where there are any, page mode goes on.  A second call does nothing.

        Pages without a message are removed, and those that were processed.  Raises: AccessError; ClosedError.
        """
        with self._mutex:
            if self._state == "started":
                return
            if self._state == "stopped":
                raise ClosedError(f"the store of {self.address!r} was stopped")
            self._next_id = max(last_known_id(self.folder), self._processed, *self._complete, *self._commit_markers) + 1
            for page in recover_pages(self.folder, self._processed, self._processed_identity, self._complete):
                self._pages.append(page)
                self._by_id[page.page_id] = page
                page.marker_id, page.rolled_back = self._commit_markers.get(page.page_id, (0, None))
                if page.problem is not None:
                    self.report_problem(page.problem)
            self._is_paging = bool(self._pages)
            self._state = "started"

    def report_problem(self, problem: Problem) -> None:
        """Have it be among the `problems`, once."""
        if problem not in self.problems:
            self.problems.append(problem)

    @property
    def is_paging(self) -> bool:
        """Whether messages go to pages."""
        return self._is_paging

    @property
    def pages(self) -> list[Page]:
        """The pages there are, the oldest first."""
        return list(self._pages)

    @property
    def page_count(self) -> int:
        """How many pages there are."""
        return len(self._pages)

    def start_paging(self) -> bool:
        """Have messages go to pages from now on, a new one first; False where they do already.

        Raises: FullError, AccessError, and then they do not; StateError; ClosedError; PoisonedError.
        """
        self._refuse()
        with self._change, self._mutex:
            self._check()
            was_paging = self._is_paging
            if not was_paging:
                self._open_next()
                self._is_paging = True
        return not was_paging

    def page(self, message: bytes, transaction: PageTransaction | None = None) -> bool:
        """Put a message into the current page, or the next one; False where this is not page mode.

        It is there as soon as this returns, also for the next process; and durable with the next `sync`.  With a
        transaction it is there, and durable, once that is committed.
        Blocks: for the write; with the policy BLOCK while there are as many pages as there may be.
        Raises: FullError; StateError; ClosedError; PoisonedError; TypeError; ValueError.
        """
        if self.append(message, transaction) is None:
            return False
        self.message_paged()
        return True

    def append(self, message: bytes, transaction: PageTransaction | None = None) -> int | None:
        """As `page`, and give the message's place: the page's id times 2**32, and its number in the page.

        None where this is not page mode, DROPPED where it was dropped.
        """
        if transaction is None and type(message) is bytes and self._guard.failure is None:
            message_id = self._append(message, NO_TRANSACTION)
            if message_id is not None:
                return message_id
        self._refuse()
        if type(message) is not bytes:
            message = plain_bytes(message)
        if len(message) > MESSAGE_BYTES_MAX:
            raise ValueError(f"a message of {len(message)} bytes; {MESSAGE_BYTES_MAX} are possible")
        append = self._append_or_no_room if transaction is None else partial(self._append_in_transaction, transaction)
        while (message_id := append(message)) == _NO_ROOM:
            self.wait_for_room()
        return message_id

    def _append_in_transaction(self, transaction: PageTransaction, message: bytes) -> int | None:
        tx_id = transaction.tx_id
        with transaction.mutex, self._change:
            transaction.enlist(self)
            message_id = self._append(message, tx_id)
            if message_id is None:
                message_id = self._append_or_no_room(message, tx_id)
            if message_id is not None and message_id >= 0:
                page = self._by_id.get(message_id >> 32)
                if page is not None:  # else it is depaged already, where the messages of each are counted anew
                    page.tx_counts[tx_id] = page.tx_counts.get(tx_id, 0) + 1
                transaction.count += 1
        return message_id

    def _append_or_no_room(self, message: bytes, tx_id: int = NO_TRANSACTION) -> int | None:
        """As `append`, or _NO_ROOM if the caller is to wait until there may be another page."""
        with self._change:
            with self._mutex:
                message_id = self._append_locked(message, tx_id)
            self._run_due_work()
        return message_id

    def depage(self) -> Page | None:
        """Take the first page, as a whole; it can be read, and is to be deleted.  None ends page mode.

        The page that is added to is taken too, where it is the only one and has a message; another one follows it.
        Nothing is read here, and others add messages meanwhile.
        Raises: FullError, and nothing was taken; StateError; ClosedError; AccessError; PoisonedError.
        """
        self._refuse()
        with self._change:
            with self._mutex:
                self._check()
                page = self._take() if self._is_paging else None
            self._run_due_work()
        return page

    def _take(self) -> Page | None:
        if len(self._pages) == 1 and self._pages[0] is self._current:
            if self._current.state().message_count:
                self._open_next()
            else:
                self._end_paging()
        elif not self._pages:
            self._end_paging()
        if not self._is_paging:
            return None
        page = self._pages.popleft()
        self._by_id.pop(page.page_id, None)
        # It stays among those to be synced: a transaction of which it has messages may be committed before it goes.
        self._mutex.notify()
        return page

    def put_back(self, page: Page) -> None:
        """Have a page that was taken be the first one again: it could not be processed."""
        with self._mutex:
            self._pages.appendleft(page)
            self._by_id[page.page_id] = page
            self._is_paging = True

    def forget(self, page: Page) -> None:
        """A page was removed that nobody took."""
        with self._mutex:
            if page in self._pages:
                self._pages.remove(page)
            self._by_id.pop(page.page_id, None)
            self._unsynced.forget(page)
            self._mutex.notify()

    def following(self, page_id: int) -> Page | None:
        """The first page whose id is larger, or None."""
        return next((page for page in self.pages if page.page_id > page_id), None)

    def find(self, page_id: int) -> Page | None:
        """The page with this id, or None."""
        return self._by_id.get(page_id)

    @property
    def has_room(self) -> bool:
        """Whether there may be another page."""
        limit = self.options.page_count_max
        return limit is None or len(self._pages) < limit

    def wait_for_room(self, timeout: float | None = None) -> bool:
        """Wait until there may be another page; whether there may.  Raises: ClosedError; PoisonedError; StateError."""
        self._refuse()
        with self._mutex:
            wait_until(self._mutex, lambda: self.has_room or self._state != "started" or self._guard.failure, timeout)
            self._check()
            return self.has_room

    def sync(self, commit: Commit | None = None) -> None:
        """Have all messages that are in pages be durable.  Blocks: for a sync of each page that was written to.

        commit: as of `Page.sync`, for the last one.
        Raises: PoisonedError, and from then on nothing is added; ClosedError; StateError.
        """
        self._refuse()
        with self._mutex:
            self._check()
            pages = self._unsynced.all()
        self._unsynced.sync(pages, commit)

    def run_in_background(self, work: Callable[[], None]) -> None:
        """Have it be done soon, by a thread that may wait for the disk; at once where there is none."""
        self._run_in_background(work)

    def stop(self) -> None:
        """Have all be durable, and end; a second call does nothing, or what one left that an exception ended.

        Raises: PoisonedError, also where something failed before that had it refuse all; it is stopped then too.
        """
        if fork_generation() != self._generation or self._is_ended:
            return
        with self._mutex:
            self._state = "stopped"
            self._append = _append_nothing
            pages, current = list(self._pages), self._current
            unsynced = self._unsynced.all()
            self._mutex.notify()
        failure = None
        try:
            if current is not None:
                current.close()
            self.folder.check()
            self._unsynced.sync(unsynced)
        except BinlogError as error:
            failure = error
        for page in pages:
            page.close_reader()
        for page in unsynced:
            page.close_writer_file()
        self.folder.directory.close()
        self._is_ended = True
        if failure is not None:
            raise failure

    def _append_locked(self, message: bytes, tx_id: int) -> int | None:
        self._check()
        while self._is_paging:
            message_id = self._append(message, tx_id)
            if message_id is None:
                message_id = self._make_room()
            if message_id is not None:
                return message_id
        return None

    def _make_room(self) -> int | None:
        """Make room for a message that the current page did not take; or DROPPED, or _NO_ROOM.  The mutex is held."""
        page = self._current
        if page is not None:
            page.clear_failed_write()
        limit = self.options.page_count_max
        if limit is not None and len(self._pages) >= limit:
            if self.options.full_policy is Policy.DROP:
                self.dropped_count += 1
                return DROPPED
            if self.options.full_policy is Policy.BLOCK:
                return _NO_ROOM
            text = f"the address {self.address!r} has {limit} pages, and may not have more"
            raise FullError(text, limit=limit * self.options.page_bytes)
        self._open_next()
        return None

    def _open_next(self) -> None:
        """Go on to another page.  The mutex is held.

        Raises: FullError, AccessError, and all is as it was; PoisonedError.
        """
        if self._next_id > PAGE_ID_MAX:
            raise FullError(f"the address {self.address!r} has used all ids of pages")
        new = Page.create(self.folder, self._next_id, self.options.page_bytes)
        self._by_id[self._next_id] = new
        self._next_id += 1
        page, self._current = self._current, new
        assert new.writer is not None
        self._append = new.writer.append
        self._pages.append(new)
        self._unsynced.add(new)
        if page is not None:
            self._close(page)

    def _close(self, page: Page) -> None:
        """Nothing more is added to a page; it is synced, soon."""
        page.close()
        self._due_work.extend(partial(report_problem, page) for report_problem in self.page_closed)
        # Where the disk is slower than who appends, who goes on to the next page waits for it.
        waiting = self._unsynced.closed()
        if len(waiting) > self.options.unsynced_pages_max:
            self._due_work.append(partial(self._unsynced.sync, waiting))
        else:
            self._due_work.append(partial(self._run_in_background, partial(self._unsynced.sync, [page])))

    def _run_due_work(self) -> None:
        """What was to be done once the mutex is free."""
        while self._due_work:
            try:
                work = self._due_work.popleft()
            except IndexError:
                return  # another thread has it
            work()

    def _end_paging(self) -> None:
        """The mutex is held."""
        page, self._current = self._current, None
        self._append = _append_nothing
        self._is_paging = False
        self._mutex.notify()
        if page is not None:
            page.close()
            if page.message_count:  # who appended had not come to the mutex yet
                self._is_paging = True
                return
            self._pages.remove(page)
            self._by_id.pop(page.page_id, None)
            page.delete()
            self._unsynced.forget(page)  # behind that: of a file that cannot be removed `stop` closes what is open

    def _refuse(self) -> None:
        """Before the mutex is taken, which somebody may hold for ever in a forked child.  Raises: StateError."""
        if fork_generation() != self._generation:
            raise StateError(f"the store of {self.address!r} is the parent process's")
        self._check()

    def _check(self) -> None:
        if self._state != "started":
            if self._state == "stopped":
                raise ClosedError(f"the store of {self.address!r} was stopped")
            raise StateError(f"the store of {self.address!r} was not started")
        self.folder.check()
