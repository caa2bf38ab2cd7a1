"""Removing a page of which all was acknowledged.

How a page goes, so that no crash brings back what was acknowledged, or lowers a transaction's count twice: where it has
messages of transactions, these are lowered and the page is recorded as complete, in one transaction of the store; then
the page's file is removed, durably; then its acknowledgements; then the record, and that of its being settled.

Settling pages: one record for a page says which of its transactions were committed, in place of one for each.

Many small transactions would else take memory, and room in the store, for as long as their messages are in pages.
A page is settled once nothing is added to it any more, and all have ended that may have added something.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from binlog.errors import FullError
from binlog.format.paging.page_record import NO_TRANSACTION
from binlog.format.paging.store_records import CommitMarker, PageReference, StoreRecord
from binlog.paging.cursor.page_acks import PageAcks, remove_acks
from binlog.paging.cursor.page_deliveries import remove_deliveries
from binlog.paging.page import Page
from binlog.paging.page_transaction import Outcome
from binlog.paging.store import PagingStore
from binlog.paging.transactions import PageTransactions
from binlog.storage.native import Monitor

# The body of a record is to be small, whatever its store is; a page in which more were rolled back is not settled.
_ROLLED_BACK_MAX = 64


def outcome_in(page: Page, transactions: PageTransactions) -> Callable[[int], Outcome]:
    """What became of a transaction, of which a message is in the page."""

    def outcome(tx_id: int) -> Outcome:
        found = transactions.outcome(tx_id)
        # In this order: a page says so before its transactions are forgotten.
        if found is Outcome.UNKNOWN and page.rolled_back is not None and tx_id not in page.rolled_back:
            return Outcome.COMMITTED
        return found

    return outcome


class CommitMarkers:
    """The pages of a store that may be settled, once more transactions are known than there may be.

    mutex: held by who lowers what is left of the transactions of a page.
    """

    def __init__(self, store: PagingStore, transactions: PageTransactions) -> None:
        self.mutex = Monitor()
        self._store = store
        self._transactions = transactions
        self._waiting: dict[Page, frozenset[int]] = {}
        self._is_due = False

    def closed(self, page: Page) -> None:
        """Nothing more is added to a page."""
        # All that may have added something, also those that have not counted it yet.
        self._waiting[page] = self._transactions.open_ids
        if self._transactions.committed_count > self._store.options.commit_markers_above and not self._is_due:
            self._is_due = True
            self._store.run_in_background(self._write_due)

    def _write_due(self) -> None:
        self._is_due = False
        with self._store.folder.change, self.mutex:
            for page, open_ids in list(self._waiting.items()):
                if page.is_complete or any(self._transactions.outcome(tx_id) is Outcome.OPEN for tx_id in open_ids):
                    continue
                try:
                    self._write_marker(page)
                except FullError:
                    return  # there may be room when the next page is closed
                self.forget(page)

    def forget(self, page: Page) -> None:
        """A page is settled, or has gone."""
        self._waiting.pop(page, None)

    def _write_marker(self, page: Page) -> None:
        counts = dict(page.tx_counts)
        if not counts:
            return
        # By what is in the page: who was interrupted while a message was added has not counted it.
        rolled_back = frozenset(tx_id for tx_id in _tx_ids(page) if not self._transactions.is_committed(tx_id))
        if len(rolled_back) > _ROLLED_BACK_MAX:
            return
        page.rolled_back = rolled_back
        body = CommitMarker(page.page_id, self._store.address, rolled_back).pack()
        page.marker_id = self._transactions.decrement_with_record(counts, StoreRecord.COMMIT_MARKER, body)
        page.tx_counts.clear()


def _tx_ids(page: Page) -> set[int]:
    """The transactions whose messages are in a page."""
    found: set[int] = set()
    offset, number = None, 0
    try:
        while chunk := page.read(offset, number):
            found.update(chunk.tx_ids or ())
            offset, number = chunk.end, chunk.number + len(chunk.messages)
    finally:
        page.close_reader()
    return found - {NO_TRANSACTION}


class PageRemoval:
    """The pages of a store that go, and those that wait for room on the disk to do so."""

    def __init__(
        self,
        store: PagingStore,
        markers: CommitMarkers,
        transactions: PageTransactions,
        acks: Mapping[int, PageAcks],
        mutex: Monitor,
        forget: Callable[[Page], None],
    ) -> None:
        """acks: of the pages, by their ids; mutex: under which they change.  forget: told of a page that has gone."""
        self._store = store
        self._markers = markers
        self._transactions = transactions
        self._acks = acks
        self._mutex = mutex
        self._forget = forget
        self._stalled: deque[Page] = deque()
        self._recorded: dict[int, int] = {}

    def schedule(self, page: Page) -> None:
        """Have a page go, soon."""
        with self._store.folder.change:
            self._store.run_in_background(partial(self._remove, page))

    def retry_stalled(self) -> None:
        """Have those go for which there was no room."""
        for _ in range(len(self._stalled)):
            with self._store.folder.change, suppress(IndexError):  # another thread has it
                self.schedule(self._stalled.popleft())

    def _remove(self, page: Page) -> None:
        if self._store.folder.guard.failure is None:  # else it goes once all is opened anew
            with self._store.folder.change:
                self._remove_page(page)

    def _remove_page(self, page: Page) -> None:
        with self._mutex:
            if page.is_complete:
                return  # another thread removes it
            page.is_complete = True
        try:
            with self._markers.mutex:
                record_id = self._record(page)
            page.delete()
        except FullError:
            page.is_complete = False
            self._stalled.append(page)
            return
        self._store.forget(page)
        remove_deliveries(page.folder, page.page_id)
        page.folder.sync()
        # Until here what was acknowledged is made durable by a sync of that: the page was there.
        self._forget(page)
        remove_acks(page.folder, page.page_id)
        self._markers.forget(page)
        self._recorded.pop(page.page_id, None)
        with suppress(FullError):  # they go with the next start
            for each in filter(None, (record_id, page.marker_id)):
                self._transactions.store.append_delete(each)

    def _record(self, page: Page) -> int:
        """Lower what is left of transactions, once; the id of the record that says so, 0 for none."""
        record_id = self._recorded.get(page.page_id, 0)
        counts = dict(page.tx_counts)
        acks = self._acks.get(page.page_id)
        if acks is not None:
            for tx_id, count in acks.tx_counts.items():
                counts[tx_id] = counts.get(tx_id, 0) + count
        if not record_id and any(self._transactions.is_committed(tx_id) for tx_id in counts):
            body = PageReference(page.page_id, self._store.address).pack()
            record_id = self._recorded[page.page_id] = self._transactions.decrement_with_record(
                counts, StoreRecord.PAGE_COMPLETE, body
            )
        return record_id
