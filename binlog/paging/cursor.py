"""A cursor: the messages of a store one after the other, and which of them were acknowledged.

After the page cursors of HornetQ 2.2: pages stay where they are while their messages are given; a message is
acknowledged by its page and its number in that; a page goes once all its messages were acknowledged.  Nothing is
written for a message that is given, and 24 bytes for one that is acknowledged.

How a page goes, so that no crash brings back what was acknowledged, or lowers a transaction's count twice: where it has
messages of transactions, these are lowered and the page is recorded as complete, in one transaction of the store; then
the page's file is removed, durably; then its acknowledgements; then the record.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import NamedTuple

from binlog.errors import GoneError, NotFoundError, StateError
from binlog.format.paging.page_record import NO_TRANSACTION
from binlog.format.paging.store_records import PagePlace, StoreRecord
from binlog.paging.page import READ_BYTES, Page
from binlog.paging.page_acks import PageAcks, remove_acks
from binlog.paging.store import PagingStore
from binlog.paging.transactions import Outcome, PageTransaction, PageTransactions
from binlog.storage.native import fork_generation
from binlog.storage.page_records import Mark

_NUMBER = (1 << 32) - 1


class Run(NamedTuple):
    """Messages that follow one another in a page.

    place: of the first one, as `PagingStore.append` gives it; that of the next one is larger by one.
    """

    place: int
    messages: list[bytes]


class PageCursor:
    """The messages of a store, for whom they are; there is one for a store, and nobody depages that.

    Any thread may read, and acknowledge; each message is given once.
    """

    def __init__(self, store: PagingStore, transactions: PageTransactions) -> None:
        self._store = store
        self._transactions = transactions
        self._generation = fork_generation()
        self._reading = threading.Lock()
        self._mutex = threading.Lock()
        self._runs: deque[Run] = deque()
        self._page: Page | None = None
        self._at: int | None = None
        self._number = 0
        self._skip = 0
        self._read_through: set[int] = set()
        self._acks: dict[int, PageAcks] = {}
        store.page_closed.append(self._look)

    def read(self, bytes_max: int = READ_BYTES) -> Run | None:
        """The messages that come next, about so many bytes of them; None where there is none for now.

        A message of a transaction that goes on is not given before that has ended, nor are those behind it.
        Raises: StateError; ClosedError; AccessError.
        """
        self._refuse()
        with self._reading:
            while not self._runs:
                if not self._read_more(bytes_max):
                    return None
            return self._runs.popleft()

    def seek(self, place: int) -> None:
        """Go on with the message at a place, which this process has appended; those before it are given by others.

        Raises: GoneError where its page is gone; StateError.
        """
        self._refuse()
        with self._reading:
            self._runs.clear()
            page = self._store.find(place >> 32)
            if page is None:
                raise GoneError(f"page {place >> 32} of {self._store.address!r} is gone")
            self._page, self._at, self._number, self._skip = page, None, 0, place & _NUMBER

    def ack(self, place: int, count: int = 1, transaction: PageTransaction | None = None) -> None:
        """Acknowledge messages that follow one another in a page; with a transaction once that is committed.

        It survives the process as soon as this returns, or the commit; and is durable with the next `sync`, or the
        commit.  Raises: StateError where one was acknowledged before; GoneError where the page is gone; FullError;
        PoisonedError; AccessError.
        """
        acks = self._acks.get(place >> 32) or self._open_acks(place >> 32)
        number = place & _NUMBER
        if transaction is None:
            if acks.add(number, count) == acks.page.message_count:
                self._look(acks.page)
            return
        transaction.check()
        acks.add(number, count, transaction.tx_id)
        transaction.wrote(acks)
        transaction.when_ended(lambda committed: self._finish(acks, number, count, committed=committed))

    def sync(self) -> None:
        """Have all that was acknowledged be durable.  Raises: PoisonedError; StateError."""
        self._refuse()
        with self._mutex:
            all_acks = list(self._acks.values())
        for acks in all_acks:
            acks.sync()

    def close(self) -> None:
        """Have all that was acknowledged be durable, and close the files.  Raises: PoisonedError."""
        try:
            self.sync()
        finally:
            with self._mutex:
                for acks in self._acks.values():
                    acks.close()

    def unread_count(self) -> int:
        """How many messages were not given yet, about: those of transactions count that will never be committed."""
        self._refuse()
        with self._reading:
            at, number = self._page.page_id if self._page else 0, self._number + self._skip
            count = sum(len(run.messages) for run in self._runs)
            for page in self._store.pages:
                if page.page_id > at:
                    count += self._left(page)
                elif page.page_id == at:
                    count += max(page.count() - number, 0)
            return count

    def left_count(self) -> int:
        """How many messages were not acknowledged; those of transactions that were not committed until they are read.

        Reads what no page says of itself.  Raises: AccessError; StateError.
        """
        self._refuse()
        return sum(map(self._left, self._store.pages))

    def _left(self, page: Page) -> int:
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

    def _finish(self, acks: PageAcks, number: int, count: int, *, committed: bool) -> None:
        acks.finish(number, count, committed=committed)
        self._look(acks.page)

    def _open_acks(self, page_id: int) -> PageAcks:
        self._refuse()
        with self._mutex:
            found = self._acks.get(page_id)
            if found is None:
                page = self._store.find(page_id)
                if page is None or page.is_complete:
                    raise GoneError(f"page {page_id} of {self._store.address!r} is gone")
                found = self._acks[page_id] = PageAcks(page, self._transactions.outcome)
                for ack in found.pending:
                    self._wait_for(found, ack.first, ack.message_count, ack.tx_id)
            return found

    def _refuse(self) -> None:
        """Before a mutex is taken, which somebody may hold for ever in a forked child.  Raises: StateError."""
        if fork_generation() != self._generation:
            raise StateError(f"the cursor of {self._store.address!r} is the parent process's")

    def _wait_for(self, acks: PageAcks, number: int, count: int, tx_id: int) -> None:
        """An acknowledgement of a transaction that an earlier process prepared counts once that is committed."""
        transaction = self._transactions.open_transaction(tx_id)
        if transaction is not None:
            transaction.when_ended(lambda committed: self._finish(acks, number, count, committed=committed))

    def _read_more(self, bytes_max: int) -> bool:
        """Read more of a page, or go to the next one; whether there was any."""
        page = self._page
        if page is None or self._page_ended(page):
            return self._next_page(page)
        was_open = page.is_open
        try:
            chunk = page.read(self._at, self._number, bytes_max=bytes_max, skip=self._skip)
        except NotFoundError:
            if page.is_complete:
                return True  # all of it was acknowledged meanwhile
            raise
        if chunk is None:
            if was_open:
                return not page.is_open  # there may be more, if it was closed meanwhile
            self._read_through.add(page.page_id)
            page.release()
            if page.problem is not None:
                self._store.problems.append(page.problem)
            self._look(page)
            return True
        try:
            wanted = self._judge(page, chunk.number, chunk.messages, chunk.tx_ids)
        except GoneError:
            return True
        if wanted < len(chunk.messages):
            if wanted == 0:
                return False
            again = page.read(self._at, self._number, bytes_max=bytes_max, skip=self._skip, count_max=wanted)
            assert again is not None
            chunk = again
        self._at, self._number, self._skip = chunk.end, chunk.number + len(chunk.messages), 0
        return True

    def _page_ended(self, page: Page) -> bool:
        return page.is_complete or page.page_id in self._read_through

    def _next_page(self, page: Page | None) -> bool:
        following = self._store.following(page.page_id if page else 0)
        if following is None:
            return False
        self._page, self._at, self._number, self._skip = following, None, 0, 0
        return True

    def _judge(self, page: Page, first: int, messages: list[bytes], tx_ids: list[int] | None) -> int:
        """Have those messages be given that are to be; up to which one that is known."""
        acks = self._acks.get(page.page_id) or self._open_acks(page.page_id)
        marks = acks.marks(first, len(messages))
        if tx_ids is None and not any(marks):
            self._runs.append(Run(page.page_id << 32 | first, messages))
            return len(messages)
        run: list[bytes] = []
        for index, message in enumerate(messages):
            number = first + index
            tx_id = NO_TRANSACTION if tx_ids is None else tx_ids[index]
            outcome = Outcome.COMMITTED if tx_id == NO_TRANSACTION else self._transactions.outcome(tx_id)
            if outcome is Outcome.OPEN:
                self._add_run(page, number, run)
                return index
            if tx_id != NO_TRANSACTION and page.was_found:
                page.tx_counts[tx_id] = page.tx_counts.get(tx_id, 0) + 1
            if outcome is Outcome.UNKNOWN:
                acks.leave_out(number)
            if marks[index] != Mark.NONE or outcome is Outcome.UNKNOWN:
                self._add_run(page, number, run)
                run = []
            else:
                run.append(message)
        self._add_run(page, first + len(messages), run)
        return len(messages)

    def _add_run(self, page: Page, stop: int, run: list[bytes]) -> None:
        if run:
            self._runs.append(Run(page.page_id << 32 | stop - len(run), run))

    def _look(self, page: Page) -> None:
        """Remove a page of which nothing is left."""
        acks = self._acks.get(page.page_id)
        count = page.message_count
        if count is None or page.is_open or (count and (acks is None or acks.done_count < count)):
            return
        if page.was_found and page.page_id not in self._read_through:
            return  # whose transactions its messages are is not known yet
        with self._mutex:
            if page.is_complete:
                return  # another thread removes it
            page.is_complete = True
        self._store.do_later(lambda: self._remove(page, acks))

    def _remove(self, page: Page, acks: PageAcks | None) -> None:
        counts = dict(page.tx_counts)
        if acks is not None:
            for tx_id, count in acks.tx_counts.items():
                counts[tx_id] = counts.get(tx_id, 0) + count
        record_id = 0
        if any(self._transactions.is_committed(tx_id) for tx_id in counts):
            with self._transactions.lowered(counts) as store_tx_id:
                record_id = self._transactions.store.new_id()
                body = PagePlace(page.page_id, self._store.address).pack()
                self._transactions.store.append_add_tx(store_tx_id, record_id, StoreRecord.PAGE_COMPLETE, body)
        page.delete()
        self._store.forget(page)
        self._read_through.discard(page.page_id)
        page.folder.sync()
        with self._mutex:
            # Until here, `sync` has them be durable: the page that they are of was there.
            self._acks.pop(page.page_id, None)
        if acks is not None:
            acks.close()
            remove_acks(page.folder, page.page_id)
        if record_id:
            self._transactions.store.append_delete(record_id)
