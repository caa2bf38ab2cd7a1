"""A page cursor: reads the messages of an address in order, and acknowledges them.

Modelled on the page cursors of HornetQ 2.2.  Pages stay where they are while their messages are delivered.  A message
is acknowledged by its id, and a page is removed once all its messages were acknowledged.  A delivery writes nothing, an
acknowledgement 24 bytes.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from binlog.errors import BinlogError, ClosedError, GoneError, NotFoundError, StateError
from binlog.format.paging.acks_file import Ack
from binlog.format.paging.page_record import NO_TRANSACTION
from binlog.paging.addresses import Commit
from binlog.paging.cursor.page_acks import OpenAckFiles, PageAcks
from binlog.paging.cursor.page_deliveries import PageDeliveries
from binlog.paging.cursor.page_removal import CommitMarkers, PageRemoval, outcome_in
from binlog.paging.page import READ_BYTES, AckState, Chunk, Page
from binlog.paging.page_transaction import Outcome, PageTransaction
from binlog.paging.store import PagingStore
from binlog.paging.transactions import PageTransactions
from binlog.storage.native import Monitor, fork_generation


class Deliverable(NamedTuple):
    """The messages of a chunk that can be delivered.

    decided_count: how many messages were examined; the next one belongs to an open transaction.  runs: consecutive
    messages to deliver, each with the number of the first one.  uncommitted: the numbers of messages whose transaction
    was not committed.
    tx_counts: how many messages belong to each transaction.
    """

    decided_count: int
    runs: list[tuple[int, list[bytes]]]
    uncommitted: list[int]
    tx_counts: dict[int, int]


def select_deliverable(chunk: Chunk, states: bytes, outcome: Callable[[int], Outcome]) -> Deliverable:
    """Select the messages to deliver.

    states: their acknowledgement states.  outcome: returns the outcome of a transaction.
    """
    runs: list[tuple[int, list[bytes]]] = []
    uncommitted: list[int] = []
    tx_counts: dict[int, int] = {}
    gap = True
    for index, message in enumerate(chunk.messages):
        number = chunk.number + index
        tx_id = NO_TRANSACTION if chunk.tx_ids is None else chunk.tx_ids[index]
        found = Outcome.COMMITTED
        if tx_id != NO_TRANSACTION:
            found = outcome(tx_id)
            if found is Outcome.OPEN:
                return Deliverable(index, runs, uncommitted, tx_counts)
            tx_counts[tx_id] = tx_counts.get(tx_id, 0) + 1
        if found is Outcome.UNKNOWN:
            uncommitted.append(number)
        if found is Outcome.UNKNOWN or states[index] != AckState.NONE:
            gap = True
        elif gap:
            runs.append((number, [message]))
            gap = False
        else:
            runs[-1][1].append(message)
    return Deliverable(len(chunk.messages), runs, uncommitted, tx_counts)


_NUMBER = (1 << 32) - 1
# How many files of acknowledgements are open at a time.
_OPEN_FILES_MAX = 64


class Run(NamedTuple):
    """Consecutive messages of a page.

    message_id: of the first message, as `PagingStore.append` returns it; each following id is larger by one.
    """

    message_id: int
    messages: list[bytes]


class _Position(NamedTuple):
    """The reading position: a page, the offset of message `number` in it, and how many messages to skip."""

    page: Page
    offset: int | None = None
    number: int = 0
    skip: int = 0


class PageCursor:
    """A cursor over the messages of a store.  A store has at most one, and is then not depaged.

    Any thread may read and acknowledge; each message is delivered once.  If a signal handler raises while `read`
    returns, the messages are delivered again after the next start.
    """

    def __init__(self, store: PagingStore, transactions: PageTransactions) -> None:
        self._store = store
        self._change = store.folder.change
        self._transactions = transactions
        self._generation = fork_generation()
        self._reading = Monitor()
        self._mutex = Monitor()
        self._runs: tuple[Run, ...] = ()
        self._position: _Position | None = None
        self._returned: deque[tuple[PageAcks, int, int]] = deque()
        self._fully_read: set[int] = set()
        self._acks: dict[int, PageAcks] = {}
        self.deliveries = PageDeliveries(store.folder, store.find)
        self._open_files = OpenAckFiles(_OPEN_FILES_MAX)
        self._touched: dict[PageAcks, None] = {}
        self._syncing = Monitor()
        self._is_closed = False
        self._markers = CommitMarkers(store, transactions)
        self._removal = PageRemoval(store, self._markers, transactions, self._acks, self._mutex, self._forget)
        store.page_closed.extend((self._markers.closed, self._remove_if_done))

    def read(self, bytes_max: int = READ_BYTES) -> Run | None:
        """Return the next messages, about `bytes_max` bytes of them, or None if there are none for now.

        A message of an open transaction is not delivered until that has ended, and neither are the messages after it.
        Raises: StateError; ClosedError; AccessError.
        """
        self._check_open()
        with self._reading:
            while not self._runs:
                if not (self._read_returned() or self._read_more(bytes_max)):
                    return None
            run, *rest = self._runs
            self._runs = tuple(rest)
            return run

    def seek(self, message_id: int) -> None:
        """Continue with a message that this process has appended; the caller delivers the messages before it.

        Raises: GoneError if its page was removed; StateError.
        """
        self._check_open()
        with self._reading:
            page = self._store.find(message_id >> 32)
            if page is None:
                raise GoneError(f"page {message_id >> 32} of {self._store.address!r} was removed")
            self._runs, self._position = (), _Position(page, skip=message_id & _NUMBER)

    def ack(self, message_id: int, count: int = 1, transaction: PageTransaction | None = None) -> None:
        """Acknowledge consecutive messages of a page; with a transaction, once that is committed.

        An acknowledgement survives the process when this call, or the commit, returns.  It is durable after the next
        `sync`, or after the commit.  If the transaction is rolled back, the caller still has the messages, and may
        acknowledge them again.
        Raises: StateError if one of them was acknowledged before; GoneError if the page was removed; ValueError if it
        has no such message; FullError; PoisonedError; AccessError.
        """
        acks = self._acks.get(message_id >> 32) or self._open_acks(message_id >> 32)
        number = message_id & _NUMBER
        if transaction is None:
            try:
                done_count = acks.add(number, count)
            finally:
                self._touched[acks] = (
                    None  # only now: a running sync removes the file from `_touched` before it syncs the file
                )
            if done_count == acks.page.message_count:
                self._remove_if_done(acks.page)
            return
        with transaction.mutex, self._change:
            transaction.enlist(acks)
            acks.add(number, count, transaction.tx_id)
            transaction.count += 1
            transaction.on_end(lambda committed: self._resolve(acks, number, count, committed=committed))

    def sync(self, commit: Commit | None = None) -> None:
        """Make all acknowledgements durable.  commit: as in `Page.sync`, for the last file.

        Raises: PoisonedError; StateError.
        """
        self._check_open()
        with self._syncing:  # so a caller that finds nothing to sync has waited for the running sync
            touched = list(self._touched)
            for acks in touched:
                try:
                    self._touched.pop(acks, None)
                    acks.sync(commit if acks is touched[-1] else None)
                except BaseException:
                    self._touched[acks] = None
                    raise

    def close(self) -> None:
        """Make all acknowledgements durable, and close the files.  Raises: PoisonedError."""
        with self._mutex:
            self._is_closed = True
            all_acks = list(self._acks.values())
        self.deliveries.close()
        failures = []
        for acks in all_acks:
            try:
                acks.close()
            except BinlogError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def unread_count(self) -> int:
        """Return about how many messages were not delivered yet, including those that will never be committed."""
        self._check_open()
        with self._reading:
            position = self._position
            offset, number = (position.page.page_id, position.number + position.skip) if position else (0, 0)
            count = sum(len(run.messages) for run in self._runs)
            for page in self._store.pages:
                if page.page_id > offset:
                    count += self._unacknowledged(page)
                elif page.page_id == offset:
                    count += self._unacknowledged_from(page, number)
            return count

    def _unacknowledged_from(self, page: Page, number: int) -> int:
        """Return how many messages of a page, from this number on, were not acknowledged."""
        acks = self._acks.get(page.page_id)
        ahead = max(page.count() - number, 0)
        return ahead if acks is None else acks.states(number, ahead).count(AckState.NONE)

    def unacknowledged_count(self) -> int:
        """Return how many messages were not acknowledged; uncommitted ones count until they were read.

        Reads pages whose count is not known.  Raises: AccessError; StateError.
        """
        self._check_open()
        return sum(map(self._unacknowledged, self._store.pages))

    def _unacknowledged(self, page: Page) -> int:
        acks = self._acks.get(page.page_id)
        if acks is None and page.was_found and not page.is_complete:
            try:
                acks = self._open_acks(page.page_id)
            except GoneError:
                return 0
        if page.is_complete:
            return 0
        done = acks.done_count if acks is not None else 0  # before the count, which may grow meanwhile
        return max(page.count() - done, 0)

    def _resolve(self, acks: PageAcks, number: int, count: int, *, committed: bool) -> None:
        acks.resolve(number, count, committed=committed)
        self._remove_if_done(acks.page)

    def _open_acks(self, page_id: int) -> PageAcks:
        self._check_open()
        with self._mutex:
            found = self._acks.get(page_id)
            if found is None:
                if self._is_closed:
                    raise ClosedError(f"the paging of {self._store.address!r} is closed")
                page = self._store.find(page_id)
                if page is None or page.is_complete:
                    raise GoneError(f"page {page_id} of {self._store.address!r} was removed")
                with self._change:
                    found = self._acks[page_id] = self._load_acks(page)
            others = list(self._acks.values())
        for acks in others:
            if acks.pending:
                with self._change:
                    self._watch_pending(acks)
            self._remove_if_done(acks.page)  # the thread that acknowledged its last message may have been interrupted
        return found

    def _load_acks(self, page: Page) -> PageAcks:
        found = PageAcks(page, self._transactions.outcome, self._open_files)
        for problem in found.problems:
            self._store.report_problem(problem)
        return found

    def _check_open(self) -> None:
        """Check before taking a mutex, which a forked child may find locked forever.  Raises: StateError."""
        if fork_generation() != self._generation:
            raise StateError(
                f"the cursor of {self._store.address!r} belongs to the parent process; open the paging in this one"
            )
        self._store.folder.check()

    def _watch_pending(self, acks: PageAcks) -> None:
        while acks.pending:
            with suppress(IndexError):  # another thread has taken it
                self._watch(acks, acks.pending.pop())

    def _watch(self, acks: PageAcks, ack: Ack) -> None:
        """Count an acknowledgement of a transaction that an earlier process prepared, once that is committed."""

        def set_message_count(committed: bool) -> None:
            if committed:
                self._resolve(acks, ack.first, ack.message_count, committed=True)
            else:
                self._returned.append((acks, ack.first, ack.message_count))

        transaction = self._transactions.open_transaction(ack.tx_id)
        if transaction is not None:
            transaction.on_end(set_message_count)
        else:  # it has ended meanwhile
            set_message_count(self._transactions.is_committed(ack.tx_id))

    def _read_returned(self) -> bool:
        """Read messages that were skipped because a transaction had acknowledged them, which was then rolled back."""
        if not self._returned:
            return False
        acks, first, count = self._returned[0]
        page = acks.page
        acks.resolve(first, count, committed=False)
        # Messages that were not skipped yet are read in their order.
        passed = min(count, self._passed_count(page) - first)
        chunk = page.read(None, 0, bytes_max=READ_BYTES, skip=first, count_max=passed) if passed > 0 else None
        if chunk is None:
            self._returned.popleft()
            return True
        done = len(chunk.messages)
        self._runs = (Run(page.page_id << 32 | chunk.number, chunk.messages),)
        if done < passed:
            self._returned[0] = (acks, first + done, count - done)
        else:
            self._returned.popleft()
        return True

    def _passed_count(self, page: Page) -> int:
        """Return how many messages of a page the cursor has passed."""
        position = self._position
        if page.page_id in self._fully_read or (position and page.page_id < position.page.page_id):
            return page.count()
        if position and position.page is page:
            return position.number + position.skip
        return 0

    def _read_more(self, bytes_max: int) -> bool:
        """Read more of a page, or move to the next one; return whether there was any."""
        position = self._position
        if position is None or self._has_ended(position.page):
            following = self._store.following(position.page.page_id if position else 0)
            if following is not None:
                self._position = _Position(following)
            return following is not None
        page = position.page
        was_open = page.is_open
        try:
            chunk = self._read_chunk(position, bytes_max)
            if chunk is None:
                return self._finish_page(page) if not was_open else not page.is_open
            return self._deliver(position, chunk)
        except (NotFoundError, GoneError):
            if page.is_complete:
                return True  # all of its messages were acknowledged meanwhile
            raise

    def _has_ended(self, page: Page) -> bool:
        return page.is_complete or page.page_id in self._fully_read

    def _finish_page(self, page: Page) -> bool:
        """Finish a page that was read to its end."""
        if page.problem is not None and page.page_id not in self._fully_read:
            self._store.report_problem(page.problem)
        self._fully_read.add(page.page_id)
        page.close_reader()
        acks = self._acks.get(page.page_id)
        if acks is not None and page.message_count is not None:
            acks.set_message_count(page.message_count)
        self._remove_if_done(page)
        return True

    def _read_chunk(self, position: _Position, bytes_max: int, count_max: int = sys.maxsize) -> Chunk | None:
        page, offset, number, skip = position
        return page.read(offset, number, bytes_max=bytes_max, skip=skip, count_max=count_max)

    def _deliver(self, position: _Position, chunk: Chunk) -> bool:
        """Prepare the messages to deliver, up to one of an open transaction; return whether there was any."""
        page = position.page
        acks = self._acks.get(page.page_id) or self._open_acks(page.page_id)
        states = acks.states(chunk.number, len(chunk.messages))
        if chunk.tx_ids is None and not any(states):
            run = Run(page.page_id << 32 | chunk.number, chunk.messages)
            # Both in one statement: no signal handler runs between the two.
            self._runs, self._position = (run,), _Position(page, chunk.end, chunk.number + len(chunk.messages))
            return True
        deliverable = select_deliverable(chunk, states, outcome_in(page, self._transactions))
        if deliverable.decided_count == 0:
            return False
        if deliverable.decided_count < len(chunk.messages):
            shorter_chunk = self._read_chunk(position, READ_BYTES, deliverable.decided_count)
            assert shorter_chunk is not None
            chunk = shorter_chunk
        for number in deliverable.uncommitted:
            acks.skip(number)
        runs = tuple(Run(page.page_id << 32 | number, messages) for number, messages in deliverable.runs)
        following = _Position(page, chunk.end, chunk.number + len(chunk.messages))
        counts = page.tx_counts
        if page.was_found and page.rolled_back is None:
            counts = {
                tx_id: counts.get(tx_id, 0) + deliverable.tx_counts.get(tx_id, 0)
                for tx_id in counts | deliverable.tx_counts
            }
        self._runs, self._position, page.tx_counts = runs, following, counts
        return True

    def _remove_if_done(self, page: Page) -> None:
        """Remove a page if all its messages were acknowledged."""
        self._removal.retry_stalled()
        acks = self._acks.get(page.page_id)
        count = page.message_count
        if page.is_complete or count is None or page.is_open or (count and (acks is None or acks.done_count < count)):
            return
        if page.was_found and page.page_id not in self._fully_read:
            return  # it may have messages of transactions that are not known yet
        self._removal.schedule(page)

    def _forget(self, page: Page) -> None:
        """Forget a page that was removed durably."""
        self._fully_read.discard(page.page_id)
        self.deliveries.forget(page.page_id)
        with self._mutex:
            acks = self._acks.pop(page.page_id, None)
        if acks is not None:
            acks.discard()
            self._touched.pop(acks, None)
