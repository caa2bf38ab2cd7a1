"""Removes pages whose messages were all acknowledged, and writes commit markers.

The order of a removal makes sure that no crash restores an acknowledged message, or decrements a transaction's count
twice:
1. If the page has messages of transactions, one store transaction decrements their counts and records the page as
   complete.
2. The page's file is removed, durably.
3. Its acknowledgements are removed.
4. The record of step 1 is deleted, and the commit marker of the page.

A commit marker is one record that says which transactions of a page were committed.  It replaces a record for each of
them.  Otherwise many small transactions would take memory, and space in the store, as long as their messages are in
pages.  A page gets its marker after it is closed, and after all transactions that may have written to it have ended.
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

# A record should be small in any store.  A page in which more transactions were rolled back gets no marker.
_ROLLED_BACK_MAX = 64


def outcome_in(page: Page, transactions: PageTransactions) -> Callable[[int], Outcome]:
    """Return a function that returns the outcome of a transaction with a message in this page."""

    def outcome(tx_id: int) -> Outcome:
        found = transactions.outcome(tx_id)
        # In this order: a page gets its marker before its transactions are forgotten.
        if found is Outcome.UNKNOWN and page.rolled_back is not None and tx_id not in page.rolled_back:
            return Outcome.COMMITTED
        return found

    return outcome


class CommitMarkers:
    """Writes commit markers for the pages of a store if too many transactions are known.

    mutex: held while the counts of a page's transactions are decremented.
    """

    def __init__(self, store: PagingStore, transactions: PageTransactions) -> None:
        self.mutex = Monitor()
        self._store = store
        self._transactions = transactions
        self._waiting: dict[Page, frozenset[int]] = {}
        self._is_due = False

    def closed(self, page: Page) -> None:
        """Note that a page is closed, and write markers if they are due."""
        # All transactions that may have written to the page, also those that have not counted the message yet.
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
        """Forget a page that has its marker, or that was removed."""
        self._waiting.pop(page, None)

    def _write_marker(self, page: Page) -> None:
        counts = dict(page.tx_counts)
        if not counts:
            return
        # Read the page: a thread that was interrupted during an append has not counted its message.
        rolled_back = frozenset(tx_id for tx_id in _tx_ids(page) if not self._transactions.is_committed(tx_id))
        if len(rolled_back) > _ROLLED_BACK_MAX:
            return
        page.rolled_back = rolled_back
        body = CommitMarker(page.page_id, self._store.address, rolled_back).pack()
        page.marker_id = self._transactions.decrement_with_record(counts, StoreRecord.COMMIT_MARKER, body)
        page.tx_counts.clear()


def _tx_ids(page: Page) -> set[int]:
    """Return the transactions that have messages in a page."""
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
    """Removes the pages of a store, and retries if the disk was full."""

    def __init__(
        self,
        store: PagingStore,
        markers: CommitMarkers,
        transactions: PageTransactions,
        acks: Mapping[int, PageAcks],
        mutex: Monitor,
        forget: Callable[[Page], None],
    ) -> None:
        """acks: by page id; mutex: guards it.  forget: called with each page that was removed."""
        self._store = store
        self._markers = markers
        self._transactions = transactions
        self._acks = acks
        self._mutex = mutex
        self._forget = forget
        self._stalled: deque[Page] = deque()
        self._recorded: dict[int, int] = {}

    def schedule(self, page: Page) -> None:
        """Remove a page in the background."""
        with self._store.folder.change:
            self._store.run_in_background(partial(self._remove, page))

    def retry_stalled(self) -> None:
        """Remove the pages for which the disk was full."""
        for _ in range(len(self._stalled)):
            with self._store.folder.change, suppress(IndexError):  # another thread has taken it
                self.schedule(self._stalled.popleft())

    def _remove(self, page: Page) -> None:
        if self._store.folder.guard.failure is None:  # otherwise the page is removed after the paging is opened again
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
        # Until here the page exists, so a sync of its acknowledgements makes them durable.
        self._forget(page)
        remove_acks(page.folder, page.page_id)
        self._markers.forget(page)
        self._recorded.pop(page.page_id, None)
        with suppress(FullError):  # the next start removes them
            for each in filter(None, (record_id, page.marker_id)):
                self._transactions.store.append_delete(each)

    def _record(self, page: Page) -> int:
        """Decrement the counts of the page's transactions, once; return the id of the record that says so, or 0."""
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
