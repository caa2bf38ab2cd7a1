"""Depaging: delivers all messages of an address's first page in one transaction.

The transaction also records the id of that page, because the process may die after the commit and before it removes the
page.  The record is deleted after page mode has ended: page ids start again then, at the next start.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress

from binlog.errors import AccessError, FullError, StateError
from binlog.format.paging.page_file import PageLayout
from binlog.format.paging.page_record import NO_TRANSACTION
from binlog.format.paging.store_records import PageReference, StoreRecord, parse_page_reference
from binlog.paging.page import Page
from binlog.paging.page_transaction import Outcome
from binlog.paging.store import PagingStore
from binlog.paging.transaction_store import StoreContents, roll_back_if_possible
from binlog.paging.transactions import PageTransactions
from binlog.storage.native import Monitor

Deliver = Callable[[str, list[bytes], int], None]


class Depaging:
    """Depages all addresses, one page of an address at a time."""

    def __init__(self, transactions: PageTransactions, stored: StoreContents | None) -> None:
        """Raises: CorruptError."""
        self._transactions = transactions
        self._guard = transactions.guard
        self._change = transactions.guard.change()
        self._last: dict[str, tuple[int, PageReference]] = {}
        self._processed: defaultdict[str, list[Page]] = defaultdict(list)
        self._locks: defaultdict[str, Monitor] = defaultdict(Monitor)
        for record in stored.records if stored is not None else ():
            if record.user_type == StoreRecord.LAST_PAGE:
                reference = parse_page_reference(record.body, record.record_id)
                self._last[reference.address] = (record.record_id, reference)

    def last_page(self, address: str) -> PageReference:
        """Return the last page of an address that was depaged; its id is 0 if there was none."""
        return self._last[address][1] if address in self._last else PageReference(0, address)

    def run(self, store: PagingStore, deliver: Deliver) -> bool:
        """Depage the first page; return False if there was none, which ends page mode.

        Raises: any exception of `deliver`, after which the page is as before; StateError; FullError; PoisonedError;
        ClosedError; AccessError.
        """
        transactions = self._transactions.store
        with self._locks[store.address]:
            page, store_tx_id = None, 0
            try:
                with self._change:
                    page = store.depage()
                    if page is None:
                        self.forget(store)
                if page is None:
                    return False
                messages, counts = self._read(store, page)
                store_tx_id = transactions.new_id()
                last = self._record(store_tx_id, store, page)
                deliver(store.address, messages, store_tx_id)
                with self._change:
                    self._transactions.decrement(store_tx_id, counts)
                    self._last[store.address] = last
                    page.close_reader()
                    self._processed[store.address].append(page)
                    page = None
            except BaseException:
                # No signal handler runs before the change begins, so the page is never skipped, which would lose it.
                if page is not None and self._guard.failure is None:
                    with self._change:
                        roll_back_if_possible(transactions, store_tx_id)
                        store.put_back(page)
                elif page is not None:
                    page.close_reader()
                raise
            with (
                self._change,
                suppress(AccessError, FullError),
            ):  # its messages were delivered; the file is removed later
                self._remove_processed(store.address)
            return True

    def wait(self) -> None:
        """Wait for the pages that threads depage; not for one of this thread, whose `deliver` may close the manager."""
        for lock in list(self._locks.values()):
            with suppress(StateError), lock:  # StateError if this thread holds it
                pass

    def _remove_processed(self, address: str) -> None:
        pages = self._processed[address]
        while pages:
            pages[0].delete()
            del pages[0]

    def forget(self, store: PagingStore) -> None:
        """Delete the record of an address whose page mode has ended.

        Raises: AccessError; FullError; PoisonedError; ClosedError.
        """
        found = self._last.get(store.address)
        if found is not None:
            # The pages go first.  Without the record, a page that remains, or that a power cut restores, would be
            # depaged twice.
            self._remove_processed(store.address)
            store.folder.sync()
            self._transactions.store.append_delete(found[0])
            del self._last[store.address]

    def _read(self, store: PagingStore, page: Page) -> tuple[list[bytes], dict[int, int]]:
        """Return the messages of a page, and how many belong to each transaction; wait for open transactions."""
        messages: list[bytes] = []
        counts: dict[int, int] = {}
        for message, tx_id in page.messages():
            if tx_id != NO_TRANSACTION:
                if page.rolled_back is not None:
                    if tx_id in page.rolled_back:
                        continue
                elif self._transactions.wait(tx_id) is Outcome.UNKNOWN:
                    continue
                else:
                    counts[tx_id] = counts.get(tx_id, 0) + 1
            messages.append(message)
        if page.problem is not None:
            store.report_problem(page.problem)
        return messages, counts

    def _record(self, store_tx_id: int, store: PagingStore, page: Page) -> tuple[int, PageReference]:
        """Append to a store transaction that a page was depaged; return the new entry of `_last`."""
        is_jbm = store.folder.layout is PageLayout.JBM
        reference = PageReference(page.page_id, store.address, page.identity() if is_jbm else b"")
        found = self._last.get(reference.address)
        if found is None:
            record_id = self._transactions.store.new_id()
            self._transactions.store.append_add_tx(store_tx_id, record_id, StoreRecord.LAST_PAGE, reference.pack())
            return record_id, reference
        self._transactions.store.append_update_tx(store_tx_id, found[0], StoreRecord.LAST_PAGE, reference.pack())
        return found[0], reference
