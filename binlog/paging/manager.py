"""The manager: all stores of a folder, their transactions, and the depaging of those that are depaged."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from binlog.errors import BinlogError, ClosedError, StateError
from binlog.format.paging.page_record import NO_TRANSACTION
from binlog.format.paging.store_records import PagePlace, StoreRecord, parse_page_place
from binlog.format.problem import Problem
from binlog.paging.addresses import AddressFolder, find_folders, make_folder, sweep_folders
from binlog.paging.cursor import PageCursor
from binlog.paging.options import PagingOptions
from binlog.paging.ownership import Ownership
from binlog.paging.page import Page
from binlog.paging.pool import Pool
from binlog.paging.store import PagingStore
from binlog.paging.transaction_store import Stored, TransactionStore
from binlog.paging.transactions import Outcome, PageTransaction, PageTransactions
from binlog.storage.files import make_directory, open_directory, sync_parent

Deliver = Callable[[str, list[bytes], int], None]


class PagingManager:
    """The paging in a folder, for this process, whose threads may share it.

    transactions: those whose messages lie in pages.  problems: what was damaged at the start.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        options: PagingOptions | None = None,
        *,
        store: TransactionStore | None = None,
        stored: Stored | None = None,
    ) -> None:
        """store: where transactions are recorded, its user's to close; stored: what it had when it was opened.

        Without one there are no transactions, and no depaging by `depage`.
        Raises: CorruptError for records of the store that are none of paging's.
        """
        self.path = os.path.abspath(path)
        self.options = options or PagingOptions()
        self.problems: list[Problem] = []
        self.transactions = PageTransactions(store, stored)
        self._store = store
        self._pool = Pool(self.options.depaging_threads + 1)
        self._mutex = threading.Lock()
        self._stores: dict[str, PagingStore] = {}
        self._cursors: dict[str, PageCursor] = {}
        self._last_pages: dict[str, tuple[int, int]] = {}
        self._complete: list[tuple[int, PagePlace]] = []
        self._state = "new"
        self._directory_fd = -1
        self._ownership: Ownership | None = None
        for record in stored.records if stored is not None else ():
            self._restore(record.user_type, record.record_id, record.body)

    def _restore(self, user_type: int, record_id: int, body: bytes) -> None:
        if user_type == StoreRecord.LAST_PAGE:
            place = parse_page_place(body, record_id)
            self._last_pages[place.address] = (record_id, place.page_id)
        elif user_type == StoreRecord.PAGE_COMPLETE:
            self._complete.append((record_id, parse_page_place(body, record_id)))

    def start(self) -> None:
        """Make the paging this process's, and start the store of each address that has a folder.

        A second call does nothing.  The folder is made where there is none, in one that is there.
        Raises: BusyError; AccessError; ClosedError; PoisonedError.
        """
        if self._state == "started":
            return
        if self._state == "stopped":
            raise ClosedError(f"the paging {self.path} was stopped")
        make_directory(self.path)
        self._directory_fd = open_directory(self.path)
        try:
            sync_parent(self._directory_fd, self.path)
            self._ownership = Ownership(self.path, self._directory_fd)
            sweep_folders(self.path)
            for path, file in find_folders(self.path, self.problems):
                self._add(AddressFolder(path, file))
            for record_id, _ in self._complete:
                self.transactions.store.append_delete(record_id)
        except BaseException:
            self._release()
            raise
        self._state = "started"

    @property
    def addresses(self) -> list[str]:
        """The addresses that have a store."""
        with self._mutex:
            return sorted(self._stores)

    def store(self, address: str) -> PagingStore:
        """The store of an address, which has a folder from then on.

        Raises: ValueError; FullError; AccessError; StateError; ClosedError; PoisonedError.
        """
        self._refuse()
        with self._mutex:
            self._check()
            found = self._stores.get(address)
            if found is None:
                folder = make_folder(self.path, self._directory_fd, address, self.options.layout)
                found = self._add(folder)
            return found

    def cursor(self, address: str) -> PageCursor:
        """The cursor of an address, whose store is then not to be depaged.  Raises: as `store`."""
        store = self.store(address)
        with self._mutex:
            found = self._cursors.get(address)
            if found is None:
                found = self._cursors[address] = PageCursor(store, self.transactions)
            return found

    def begin(self) -> PageTransaction:
        """A transaction, for `page` and `PageCursor.ack`.  Raises: StateError; ClosedError; PoisonedError."""
        self._refuse()
        return self.transactions.begin()

    def depage(self, address: str, deliver: Deliver) -> bool:
        """Have all messages of an address's first page be delivered; False where page mode has ended.

        deliver: is given the address, the messages, and the id of a transaction of the store, in which it may record
        what it makes of them.  That these are not in the page any more is recorded in the same one; so after a
        crash either is so, or neither.  Messages of transactions that go on are waited for.
        Raises: what `deliver` raises, and then the page is there as before; StateError; FullError; PoisonedError;
        ClosedError, also where this waits and the manager is stopped.
        """
        store = self.store(address)
        if address in self._cursors:
            raise StateError(f"{address!r} has a cursor, and is not depaged")
        page = store.depage()
        if page is None:
            self._forget_last_page(address)
            return False
        try:
            self._process(store, page, deliver)
        except BaseException:
            store.put_back(page)
            raise
        page.delete()
        return True

    def drain(self) -> None:
        """Wait for what is done beside its callers: full pages are synced, and others removed.

        Raises: what that raised first.
        """
        self._pool.drain()
        if self._pool.failure is not None:
            raise self._pool.failure

    def _process(self, store: PagingStore, page: Page, deliver: Deliver) -> None:
        messages: list[bytes] = []
        counts: dict[int, int] = {}
        for message, tx_id in page.messages():
            if tx_id != NO_TRANSACTION:
                if self.transactions.wait(tx_id) is Outcome.UNKNOWN:
                    continue
                counts[tx_id] = counts.get(tx_id, 0) + 1
            messages.append(message)
        if page.problem is not None:
            store.problems.append(page.problem)
        with self.transactions.lowered(counts) as store_tx_id:
            record_id = self._record_last_page(store_tx_id, PagePlace(page.page_id, store.address))
            deliver(store.address, messages, store_tx_id)
        self._last_pages[store.address] = (record_id, page.page_id)

    def _record_last_page(self, store_tx_id: int, place: PagePlace) -> int:
        found = self._last_pages.get(place.address)
        if found is None:
            record_id = self.transactions.store.new_id()
            self.transactions.store.append_add_tx(store_tx_id, record_id, StoreRecord.LAST_PAGE, place.pack())
            return record_id
        self.transactions.store.append_update_tx(store_tx_id, found[0], StoreRecord.LAST_PAGE, place.pack())
        return found[0]

    def _forget_last_page(self, address: str) -> None:
        """Page mode has ended, so ids begin anew with the next start."""
        found = self._last_pages.pop(address, None)
        if found is not None:
            self.transactions.store.append_delete(found[0])

    def _add(self, folder: AddressFolder) -> PagingStore:
        processed = self._last_pages.get(folder.address, (0, 0))[1]
        complete = {place.page_id for _, place in self._complete if place.address == folder.address}
        store = PagingStore(folder, self.options, processed=processed, complete=complete, later=self._pool.do)
        store.start()
        self._stores[folder.address] = store
        return store

    def stop(self) -> None:
        """Have all be durable, and end; a second call does nothing.  Raises: PoisonedError; it is stopped then too."""
        with self._mutex:
            state, self._state = self._state, "stopped"
        if state != "started" or self._inherited:
            return
        self.transactions.stop()
        self._pool.stop()
        first: BinlogError | None = None
        ends = [cursor.close for cursor in self._cursors.values()] + [each.stop for each in self._stores.values()]
        for end in ends:
            try:
                end()
            except BinlogError as error:
                first = first or error
        self._release()
        if first is not None:
            raise first

    def _release(self) -> None:
        if self._ownership is not None:
            self._ownership.release()
        fd, self._directory_fd = self._directory_fd, -1
        if fd >= 0:
            os.close(fd)

    @property
    def _inherited(self) -> bool:
        return self._ownership is not None and self._ownership.inherited

    def _refuse(self) -> None:
        if self._inherited:
            raise StateError(f"the paging {self.path} is the parent process's")

    def _check(self) -> None:
        if self._state == "stopped":
            raise ClosedError(f"the paging {self.path} was stopped")
        if self._state != "started":
            raise StateError(f"the paging {self.path} was not started")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        except BinlogError:
            if error is None:
                raise
