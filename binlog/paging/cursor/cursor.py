"""A cursor: the messages of a store one after the other, and which of them were acknowledged.

After the page cursors of HornetQ 2.2: pages stay where they are while their messages are given; a message is
acknowledged by its page and its number in that; a page goes once all its messages were acknowledged.  Nothing is
written for a message that is given, and 24 bytes for one that is acknowledged.

Which messages of a page are to be given.
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
    """What became of messages that follow one another.

    known: of so many it is known; behind them comes one of a transaction that goes on.  runs: those that are to be
    given, each run with the number of its first.  left_out: the numbers of those whose transaction was not committed.
    tx_counts: how many are of which transaction.
    """

    decided_count: int
    runs: list[tuple[int, list[bytes]]]
    uncommitted: list[int]
    tx_counts: dict[int, int]


def select_deliverable(chunk: Chunk, states: bytes, outcome: Callable[[int], Outcome]) -> Deliverable:
    """Look at each message.  marks: what was acknowledged.  outcome: of a transaction."""
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
# Files of acknowledgements that are written to in turns.
_OPEN_FILES_MAX = 64


class Run(NamedTuple):
    """Messages that follow one another in a page.

    place: of the first one, as `PagingStore.append` gives it; that of the next one is larger by one.
    """

    message_id: int
    messages: list[bytes]


class _Position(NamedTuple):
    """Where reading goes on: a page, the place of the message `number` in it; of which `skip` are passed over first."""

    page: Page
    offset: int | None = None
    number: int = 0
    skip: int = 0


class PageCursor:
    """The messages of a store, for whom they are; there is one for a store, and nobody depages that.

    Any thread may read, and acknowledge; each message is given once.  Where a signal handler raises while `read`
    returns, what it was to give comes again with the next start.
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
        """The messages that come next, about so many bytes of them; None where there is none for now.

        A message of a transaction that goes on is not given before that has ended, nor are those behind it.
        Raises: StateError; ClosedError; AccessError.
        """
        self._refuse()
        with self._reading:
            while not self._runs:
                if not (self._read_returned() or self._read_more(bytes_max)):
                    return None
            run, *rest = self._runs
            self._runs = tuple(rest)
            return run

    def seek(self, message_id: int) -> None:
        """Go on with the message at a place, which this process has appended; those before it are given by others.

        Raises: GoneError where its page is gone; StateError.
        """
        self._refuse()
        with self._reading:
            page = self._store.find(message_id >> 32)
            if page is None:
                raise GoneError(f"page {message_id >> 32} of {self._store.address!r} is gone")
            self._runs, self._position = (), _Position(page, skip=message_id & _NUMBER)

    def ack(self, message_id: int, count: int = 1, transaction: PageTransaction | None = None) -> None:
        """Acknowledge messages that follow one another in a page; with a transaction once that is committed.

        It survives the process as soon as this returns, or the commit; and is durable with the next `sync`, or the
        commit.  Messages of a transaction that is rolled back are still the caller's, who may acknowledge them again.
        Raises: StateError where one was acknowledged before; GoneError where the page is gone; ValueError where it has
        no such message; FullError; PoisonedError; AccessError.
        """
        acks = self._acks.get(message_id >> 32) or self._open_acks(message_id >> 32)
        number = message_id & _NUMBER
        if transaction is None:
            try:
                done_count = acks.add(number, count)
            finally:
                self._touched[acks] = None  # only now: a sync that goes on forgets it before it looks at the file
            if done_count == acks.page.message_count:
                self._remove_if_done(acks.page)
            return
        with transaction.mutex, self._change:
            transaction.enlist(acks)
            acks.add(number, count, transaction.tx_id)
            transaction.count += 1
            transaction.on_end(lambda committed: self._resolve(acks, number, count, committed=committed))

    def sync(self, commit: Commit | None = None) -> None:
        """Have all that was acknowledged be durable.  commit: as of `Page.sync`, for the last file.

        Raises: PoisonedError; StateError.
        """
        self._refuse()
        with self._syncing:  # who finds nothing left to sync has waited for who syncs it
            touched = list(self._touched)
            for acks in touched:
                try:
                    self._touched.pop(acks, None)
                    acks.sync(commit if acks is touched[-1] else None)
                except BaseException:
                    self._touched[acks] = None
                    raise

    def close(self) -> None:
        """Have all that was acknowledged be durable, and close the files.  Raises: PoisonedError."""
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
        """How many messages were not given yet, about: those of transactions count that will never be committed."""
        self._refuse()
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
        """How many messages of a page were not acknowledged, from one on."""
        acks = self._acks.get(page.page_id)
        ahead = max(page.count() - number, 0)
        return ahead if acks is None else acks.states(number, ahead).count(AckState.NONE)

    def unacknowledged_count(self) -> int:
        """How many messages were not acknowledged; those of transactions that were not committed until they are read.

        Reads what no page says of itself.  Raises: AccessError; StateError.
        """
        self._refuse()
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
        self._refuse()
        with self._mutex:
            found = self._acks.get(page_id)
            if found is None:
                if self._is_closed:
                    raise ClosedError(f"the paging of {self._store.address!r} was closed")
                page = self._store.find(page_id)
                if page is None or page.is_complete:
                    raise GoneError(f"page {page_id} of {self._store.address!r} is gone")
                with self._change:
                    found = self._acks[page_id] = self._load_acks(page)
            others = list(self._acks.values())
        for acks in others:
            if acks.pending:
                with self._change:
                    self._watch_pending(acks)
            self._remove_if_done(acks.page)  # who acknowledged its last message may have been interrupted
        return found

    def _load_acks(self, page: Page) -> PageAcks:
        found = PageAcks(page, self._transactions.outcome, self._open_files)
        for problem in found.problems:
            self._store.report_problem(problem)
        return found

    def _refuse(self) -> None:
        """Before a mutex is taken, which somebody may hold for ever in a forked child.  Raises: StateError."""
        if fork_generation() != self._generation:
            raise StateError(f"the cursor of {self._store.address!r} is the parent process's")
        self._store.folder.check()

    def _watch_pending(self, acks: PageAcks) -> None:
        while acks.pending:
            with suppress(IndexError):  # another thread has it
                self._watch(acks, acks.pending.pop())

    def _watch(self, acks: PageAcks, ack: Ack) -> None:
        """An acknowledgement of a transaction that an earlier process prepared counts once that is committed."""

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
        """Read messages that were passed over, as a transaction had acknowledged them that was then rolled back."""
        if not self._returned:
            return False
        acks, first, count = self._returned[0]
        page = acks.page
        acks.resolve(first, count, committed=False)
        # What was not passed over yet is read in its turn.
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
        """How many messages of a page reading has passed."""
        position = self._position
        if page.page_id in self._fully_read or (position and page.page_id < position.page.page_id):
            return page.count()
        if position and position.page is page:
            return position.number + position.skip
        return 0

    def _read_more(self, bytes_max: int) -> bool:
        """Read more of a page, or go to the next one; whether there was any."""
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
                return True  # all of it was acknowledged meanwhile
            raise

    def _has_ended(self, page: Page) -> bool:
        return page.is_complete or page.page_id in self._fully_read

    def _finish_page(self, page: Page) -> bool:
        """All of a page was read."""
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
        """Have those messages be given that are to be, up to one of which that is not known; whether there was any."""
        page = position.page
        acks = self._acks.get(page.page_id) or self._open_acks(page.page_id)
        states = acks.states(chunk.number, len(chunk.messages))
        if chunk.tx_ids is None and not any(states):
            run = Run(page.page_id << 32 | chunk.number, chunk.messages)
            # Both at once: no signal handler runs between the two.
            self._runs, self._position = (run,), _Position(page, chunk.end, chunk.number + len(chunk.messages))
            return True
        deliverable = select_deliverable(chunk, states, outcome_in(page, self._transactions))
        if deliverable.decided_count == 0:
            return False
        if deliverable.decided_count < len(chunk.messages):
            chunk_again = self._read_chunk(position, READ_BYTES, deliverable.decided_count)
            assert chunk_again is not None
            chunk = chunk_again
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
        """Remove a page of which nothing is left."""
        self._removal.retry_stalled()
        acks = self._acks.get(page.page_id)
        count = page.message_count
        if page.is_complete or count is None or page.is_open or (count and (acks is None or acks.done_count < count)):
            return
        if page.was_found and page.page_id not in self._fully_read:
            return  # whose transactions its messages are is not known yet
        self._removal.schedule(page)

    def _forget(self, page: Page) -> None:
        """A page has gone, durably."""
        self._fully_read.discard(page.page_id)
        self.deliveries.forget(page.page_id)
        with self._mutex:
            acks = self._acks.pop(page.page_id, None)
        if acks is not None:
            acks.discard()
            self._touched.pop(acks, None)
