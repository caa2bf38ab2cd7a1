"""A paging store: the pages of one address.

The last page is written while the first ones are read.

Invariants
- Pages are in the order of their ids, and only the last one, if any, takes messages.
- A page of an earlier process takes none: the bytes after its last message may be the remains of a crash.
- A message is in a page when `append` returns, and survives the process.  The next `sync` makes it durable.
- A page is in `UnsyncedPages` from its first message until a sync that follows its last write.  A page that is being
  depaged stays there too: a transaction with messages in it may still commit.
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
    """The pages that may not be on the disk yet, in order.  The store's mutex guards adding and listing."""

    def __init__(self) -> None:
        self._pages: dict[Page, None] = {}

    def add(self, page: Page) -> None:
        """Add a new page."""
        self._pages[page] = None

    def forget(self, page: Page) -> None:
        """Remove a page that was deleted."""
        self._pages.pop(page, None)

    def all(self) -> list[Page]:
        """Return all of them, to be synced after the mutex is released."""
        return list(self._pages)

    def closed(self) -> list[Page]:
        """Return those that are closed."""
        return [page for page in self.all() if not page.is_open]  # `sync` removes pages meanwhile, in other threads

    def sync(self, pages: list[Page], commit: Commit | None = None) -> None:
        """Sync these pages; the caller holds no lock.  commit: syncs the last one.  Raises: PoisonedError."""
        for page in pages:
            was_open = page.is_open  # a message that is added after the sync, and before the close, is not synced yet
            page.sync(commit if page is pages[-1] else None)
            if not was_open:
                self.forget(page)


RunInBackground = Callable[[Callable[[], None]], None]

# The most that the C code takes at once, with framing.
MESSAGE_BYTES_MAX = (1 << 31) - 128
DROPPED = -1
_NO_ROOM = -2


def _append_nothing(message: bytes, tx_id: int) -> int | None:
    """The `append` of a store that has no page to append to."""
    return None


def _nothing() -> None:
    pass


class PagingStore:
    """The pages of one address.  One process has it at a time; its threads may share it.

    dropped_count: messages that were dropped for lack of room.  problems: damage in the pages that were read.
    page_closed: called with each page that is closed.  message_paged: called when `page` has put a message.
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
        """run_in_background: runs work that can wait.

        processed: pages up to this one were depaged.  processed_identity: its identity, in the layout of JBoss
        Messaging.
        complete: pages whose messages were all acknowledged.  All of these may still exist, and are removed.
        commit_markers: for each page with a commit marker, the id of the record and the transactions that were rolled
        back.
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
        """Recover the existing pages; if there are any, the address is in page mode.  A second call does nothing.

        Pages without messages, and pages that were depaged, are removed.  Raises: AccessError; ClosedError.
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
        """Add a problem to `problems`, once."""
        if problem not in self.problems:
            self.problems.append(problem)

    @property
    def is_paging(self) -> bool:
        """Whether messages go to pages."""
        return self._is_paging

    @property
    def pages(self) -> list[Page]:
        """The existing pages, oldest first."""
        return list(self._pages)

    @property
    def page_count(self) -> int:
        """The number of existing pages."""
        return len(self._pages)

    def start_paging(self) -> bool:
        """Start page mode with a new page; return False if the address is in page mode already.

        Raises: FullError, AccessError, after which page mode has not started; StateError; ClosedError; PoisonedError.
        """
        self._check_open()
        with self._change, self._mutex:
            self._check()
            was_paging = self._is_paging
            if not was_paging:
                self._open_next()
                self._is_paging = True
        return not was_paging

    def page(self, message: bytes, transaction: PageTransaction | None = None) -> bool:
        """Put a message into the current page or the next one; return False if the address is not in page mode.

        The message survives the process when this returns, and is durable after the next `sync`.  In a transaction,
        both hold only after the commit.
        Blocks: for the write; with the policy BLOCK also while all pages are full.
        Raises: FullError; StateError; ClosedError; PoisonedError; TypeError; ValueError.
        """
        if self.append(message, transaction) is None:
            return False
        self.message_paged()
        return True

    def append(self, message: bytes, transaction: PageTransaction | None = None) -> int | None:
        """Put a message as `page` does, and return its message id: the page id times 2**32 plus its number in the page.

        Returns None if the address is not in page mode, and DROPPED if the message was dropped.
        """
        if transaction is None and type(message) is bytes and self._guard.failure is None:
            message_id = self._append(message, NO_TRANSACTION)
            if message_id is not None:
                return message_id
        self._check_open()
        if type(message) is not bytes:
            message = plain_bytes(message)
        if len(message) > MESSAGE_BYTES_MAX:
            raise ValueError(f"a message of {len(message)} bytes; the maximum is {MESSAGE_BYTES_MAX}")
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
                if page is not None:  # otherwise the page was depaged, which counts its messages again
                    page.tx_counts[tx_id] = page.tx_counts.get(tx_id, 0) + 1
                transaction.count += 1
        return message_id

    def _append_or_no_room(self, message: bytes, tx_id: int = NO_TRANSACTION) -> int | None:
        """Put a message as `append` does, or return _NO_ROOM if the caller has to wait for another page."""
        with self._change:
            with self._mutex:
                message_id = self._append_locked(message, tx_id)
            self._run_due_work()
        return message_id

    def depage(self) -> Page | None:
        """Take the first page, which the caller reads and then deletes; return None if page mode has ended.

        If the current page is the only one and has messages, it is taken too, and another one follows it.  Nothing is
        read here, and other threads may add messages meanwhile.
        Raises: FullError, after which nothing was taken; StateError; ClosedError; AccessError; PoisonedError.
        """
        self._check_open()
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
        # The page stays in `_unsynced`: a transaction with messages in it may commit before the page is deleted.
        self._mutex.notify()
        return page

    def put_back(self, page: Page) -> None:
        """Make a page that was taken the first one again, because it could not be processed."""
        with self._mutex:
            self._pages.appendleft(page)
            self._by_id[page.page_id] = page
            self._is_paging = True

    def forget(self, page: Page) -> None:
        """Remove a page that was deleted without being taken."""
        with self._mutex:
            if page in self._pages:
                self._pages.remove(page)
            self._by_id.pop(page.page_id, None)
            self._unsynced.forget(page)
            self._mutex.notify()

    def following(self, page_id: int) -> Page | None:
        """Return the first page with a larger id, or None."""
        return next((page for page in self.pages if page.page_id > page_id), None)

    def find(self, page_id: int) -> Page | None:
        """Return the page with this id, or None."""
        return self._by_id.get(page_id)

    @property
    def has_room(self) -> bool:
        """Whether another page is allowed."""
        limit = self.options.page_count_max
        return limit is None or len(self._pages) < limit

    def wait_for_room(self, timeout: float | None = None) -> bool:
        """Wait until another page is allowed, and return whether it is.

        Raises: ClosedError; PoisonedError; StateError.
        """
        self._check_open()
        with self._mutex:
            wait_until(self._mutex, lambda: self.has_room or self._state != "started" or self._guard.failure, timeout)
            self._check()
            return self.has_room

    def sync(self, commit: Commit | None = None) -> None:
        """Make all messages in pages durable.  Blocks: for a sync of each page that was written to.

        commit: as in `Page.sync`, for the last one.
        Raises: PoisonedError, after which nothing can be added; ClosedError; StateError.
        """
        self._check_open()
        with self._mutex:
            self._check()
            pages = self._unsynced.all()
        self._unsynced.sync(pages, commit)

    def run_in_background(self, work: Callable[[], None]) -> None:
        """Run work in a thread that may wait for the disk, or at once if there is none."""
        self._run_in_background(work)

    def stop(self) -> None:
        """Make everything durable, and close.

        A second call does nothing, or finishes a call that an exception broke off.
        Raises: PoisonedError, also if an earlier failure has poisoned the store; it is stopped then too.
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
        """Make room for a message, or return DROPPED or _NO_ROOM; the caller holds the mutex."""
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
            text = f"the address {self.address!r} has {limit} pages, which is its limit; read some first"
            raise FullError(text, limit=limit * self.options.page_bytes)
        self._open_next()
        return None

    def _open_next(self) -> None:
        """Open the next page; the caller holds the mutex.

        Raises: FullError, AccessError, after which nothing has changed; PoisonedError.
        """
        if self._next_id > PAGE_ID_MAX:
            raise FullError(f"the address {self.address!r} has used all page ids")
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
        """Close a page, and sync it soon."""
        page.close()
        self._due_work.extend(partial(report_problem, page) for report_problem in self.page_closed)
        # If the disk is slower than the producers, the thread that opens the next page waits for the disk.
        waiting = self._unsynced.closed()
        if len(waiting) > self.options.unsynced_pages_max:
            self._due_work.append(partial(self._unsynced.sync, waiting))
        else:
            self._due_work.append(partial(self._run_in_background, partial(self._unsynced.sync, [page])))

    def _run_due_work(self) -> None:
        """Run the work that had to wait until the mutex was released."""
        while self._due_work:
            try:
                work = self._due_work.popleft()
            except IndexError:
                return  # another thread has taken it
            work()

    def _end_paging(self) -> None:
        """End page mode; the caller holds the mutex."""
        page, self._current = self._current, None
        self._append = _append_nothing
        self._is_paging = False
        self._mutex.notify()
        if page is not None:
            page.close()
            if page.message_count:  # a producer that did not need the mutex was faster
                self._is_paging = True
                return
            self._pages.remove(page)
            self._by_id.pop(page.page_id, None)
            page.delete()
            self._unsynced.forget(page)  # last: if the file cannot be removed, `stop` still closes its descriptors

    def _check_open(self) -> None:
        """Check before taking the mutex, which a forked child may find locked forever.  Raises: StateError."""
        if fork_generation() != self._generation:
            raise StateError(
                f"the store of {self.address!r} belongs to the parent process; open the paging in this one"
            )
        self._check()

    def _check(self) -> None:
        if self._state != "started":
            if self._state == "stopped":
                raise ClosedError(f"the store of {self.address!r} was stopped")
            raise StateError(f"the store of {self.address!r} was not started")
        self.folder.check()
