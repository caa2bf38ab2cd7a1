"""The paging manager: the stores of all addresses in a folder, their transactions, and depaging."""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from typing import Self

from binlog.errors import BinlogError, ClosedError, FullError, StateError
from binlog.format.paging.names import LOCK_FILE
from binlog.format.paging.store_records import (
    CommitMarker,
    PageReference,
    StoreRecord,
    parse_commit_marker,
    parse_page_reference,
)
from binlog.format.problem import Problem
from binlog.paging.addresses import AddressFolder, find_folders, make_folder, remove_unfinished_folders
from binlog.paging.cursor.cursor import PageCursor
from binlog.paging.depaging import Deliver, Depaging
from binlog.paging.memory import RECHECK_SECONDS, AddressMemory, HeldMessage, Memory
from binlog.paging.options import PagingOptions, Policy
from binlog.paging.page_transaction import PageTransaction
from binlog.paging.pool import Pool
from binlog.paging.store import PagingStore
from binlog.paging.transaction_store import StoreContents, TransactionStore
from binlog.paging.transactions import PageTransactions
from binlog.storage.handle import Handle
from binlog.storage.native import Monitor

# For syncing full pages and removing pages.
_PAGE_THREADS = 3


class PagingManager(Handle):
    """The paging in a folder.  One process has it at a time; its threads may share it.

    transactions: the transactions that have messages in pages.  problems: damage that was found at the start.
    guard: the guard of the whole folder.  A failed write or sync poisons it.  So does an exception, for example of a
    signal handler, that breaks off a change.  After that every call is refused until the paging is opened again.
    """

    kind = "paging"
    lock_name = LOCK_FILE

    def __init__(
        self,
        path: str | os.PathLike[str],
        options: PagingOptions | None = None,
        *,
        store: TransactionStore | None = None,
        stored: StoreContents | None = None,
    ) -> None:
        """store: the transactional store; its user closes it.  stored: its contents at opening.

        Without a store there are no transactions, and `depage` is not available.
        Raises: CorruptError if a record of paging in the store is not valid.
        """
        super().__init__(path)
        self.options = options or PagingOptions()
        self.problems: list[Problem] = []
        self.guard = self._guard
        self._change = self.guard.change()
        self.transactions = PageTransactions(self.guard, store, stored)
        self._depaging = Depaging(self.transactions, stored)
        self._pool = Pool(_PAGE_THREADS)
        # A pool of its own: depaging waits for transactions, and their commit may wait for a page to be synced.
        self._depagers = Pool(self.options.depaging_threads)
        self._waiting_for_memory: set[str] = set()
        self._mutex = Monitor()
        self._stores: dict[str, PagingStore] = {}
        self._cursors: dict[str, PageCursor] = {}
        self._memory = Memory(self.options.memory_bytes_max)
        self._memories: dict[str, AddressMemory] = {}
        self._deliver: Deliver | None = None
        self._complete: list[tuple[int, PageReference]] = []
        self._commit_markers: list[tuple[int, CommitMarker]] = []
        self._unfinished_folders: dict[str, AddressFolder] = {}
        self._deleted_records: set[int] = set()
        self._is_started = False
        for record in stored.records if stored is not None else ():
            if record.user_type == StoreRecord.PAGE_COMPLETE:
                self._complete.append((record.record_id, parse_page_reference(record.body, record.record_id)))
            if record.user_type == StoreRecord.COMMIT_MARKER:
                self._commit_markers.append((record.record_id, parse_commit_marker(record.body, record.record_id)))

    def start(self) -> None:
        """Acquire the folder, and start the store of each address that has a folder in it.

        A second call does nothing.  The folder is created if it does not exist; its parent must exist.
        Raises: BusyError, AccessError, after which it can be called again; ClosedError; PoisonedError.  After any of
        these this process holds nothing of the folder.  After an exception of a signal handler, another manager can be
        started.
        """
        with self._life:
            self._check_open()
            if not self._is_started:
                self._acquire()
                self._is_started = True

    def _open(self, undoing: ExitStack) -> None:
        self.problems.clear()
        undoing.callback(self._stores.clear)
        undoing.callback(self._close_folders)
        undoing.callback(self._pool.drain)
        remove_unfinished_folders(self._directory)
        for directory, file in find_folders(self._directory, self.problems):
            folder = self._unfinished_folders[file.address] = AddressFolder(directory, file, self.guard)
            self._add(folder)
            del self._unfinished_folders[file.address]
        self._delete_stale_records()

    def _delete_stale_records(self) -> None:
        """Delete the records of pages that no longer exist, and of transactions that have nothing left in any page."""
        for record_id, _ in self._complete:
            self._delete_record(record_id)
        for record_id, commit_markers in self._commit_markers:
            store = self._stores.get(commit_markers.address)
            if store.find(commit_markers.page_id) is None if store is not None else not self.problems:
                self._delete_record(record_id)
        idle = [store for store in self._stores.values() if not store.is_paging]
        for store in idle:
            self._depaging.forget(store)
        if len(idle) == len(self._stores) and not self.problems:
            self.transactions.purge(())

    def _delete_record(self, record_id: int) -> None:
        """Delete a record, but only once: a start that was undone may be repeated."""
        if record_id not in self._deleted_records:
            self.transactions.store.append_delete(record_id)
            self._deleted_records.add(record_id)

    @property
    def addresses(self) -> list[str]:
        """The addresses that have a store."""
        return sorted(self._stores)

    def store(self, address: str) -> PagingStore:
        """Return the store of an address; create its folder if it has none.

        Raises: ValueError; FullError; AccessError; StateError; ClosedError; PoisonedError.
        """
        self._check_open()
        return self._stores.get(address) or self._make(address)

    def _make(self, address: str) -> PagingStore:
        with self._change, self._mutex:
            self._check()
            found = self._stores.get(address)
            if found is None:
                folder = self._unfinished_folders.get(address)
                if folder is None:
                    folder = make_folder(self._directory, address, self.options.layout, self.guard)
                self._unfinished_folders[address] = folder  # if the next step fails, a retry reuses this folder
                found = self._add(folder)
                del self._unfinished_folders[address]
        return found

    def cursor(self, address: str) -> PageCursor:
        """Return the cursor of an address, after which the address cannot be depaged.  Raises: as `store`."""
        store = self.store(address)
        with self._change, self._mutex:
            found = self._cursors.get(address)
            if found is None:
                found = self._cursors[address] = PageCursor(store, self.transactions)
        return found

    def begin(self) -> PageTransaction:
        """Begin a transaction for `page` and `PageCursor.ack`.  Raises: StateError; ClosedError; PoisonedError."""
        self._check_open()
        with self._change:
            transaction = self.transactions.begin()
        return transaction  # noqa: RET504 - outside of the block, where an exception after the call poisons nothing

    def depage(self, address: str, deliver: Deliver) -> bool:
        """Deliver all messages of an address's first page; return False if page mode has ended.

        deliver: called with the address, the messages, and the id of a transaction of the store, in which it may record
        its results.  The same transaction records that the page was depaged, so after a crash either both are recorded
        or neither.  Waits for open transactions that have messages in the page.
        Raises: any exception of `deliver`, after which the page is as before; StateError; FullError; PoisonedError;
        ClosedError, also if the manager is stopped during the wait.
        """
        return self._depaging.run(self._store_to_depage(address), deliver)

    def depage_to(self, deliver: Deliver) -> None:
        """Depage every address automatically whenever it has room for the messages in its pages.

        Checks now, whenever a message goes to a page, and whenever messages of any address are released.
        deliver: as in `depage`; it should `hold` the messages.  Threads of the manager call it, one at a time for each
        address.  `drain` raises its exceptions.
        """
        self._deliver = deliver
        for address in self.addresses:
            self._depage_soon(address)

    def admit(
        self, address: str, message: bytes, *, references: int = 1, transaction: PageTransaction | None = None
    ) -> HeldMessage | None:
        """Admit a message: hold it in memory, or return None after putting it into a page or dropping it.

        The message goes to a page if the address is in page mode.  If memory has no room and the policy is PAGE, page
        mode starts.
        references, transaction: as in `AddressMemory.hold` and `PagingStore.page`.
        Blocks: with the policy BLOCK until there is room.
        Raises: FullError with the policy FAIL; and as `store` and `PagingStore.page`.
        """
        store, memory = self.store(address), self.memory(address)
        while not store.page(message, transaction):
            held = memory.try_hold(message, references)
            if held is not None:
                return held
            policy = self.options.policy
            if policy is Policy.PAGE:
                store.start_paging()
            elif policy is Policy.DROP:
                store.dropped_count += 1
                return None
            elif policy is Policy.FAIL:
                limit = memory.bytes_max
                raise FullError(
                    f"the memory limit of {address!r} is reached; release messages, or use Policy.PAGE",
                    limit=limit,
                    size=len(message),
                )
            else:
                memory.wait(len(message), RECHECK_SECONDS)
                self._check_open()
                self._check()
        return None

    def hold(self, address: str, message: bytes, *, references: int = 1) -> HeldMessage:
        """Hold a message in memory regardless of the limits, for example one that was depaged."""
        return self.memory(address).hold(message, references)

    def memory(self, address: str) -> AddressMemory:
        """Return the memory of an address."""
        with self._mutex:
            found = self._memories.get(address)
            if found is None:
                limit = self.options.address_bytes_max
                found = AddressMemory(self._memory, limit, partial(self._released, address))
                self._memories[address] = found
            return found

    def _store_to_depage(self, address: str) -> PagingStore:
        if address in self._cursors:
            raise StateError(f"{address!r} has a cursor and cannot be depaged")
        return self.store(address)

    def _released(self, address: str) -> None:
        """Depage this address, and all others that wait for memory, because messages were released."""
        if self._deliver is not None:
            for each in {address} | self._waiting_for_memory:
                self._depage_soon(each)

    def _depage_soon(self, address: str) -> None:
        """Depage an address in the background if it has pages and there is room in memory."""
        store = self._stores.get(address)
        if self._deliver is None or store is None or not store.is_paging or address in self._cursors:
            return
        if self._may_depage(address):
            with self._change:
                self._depagers.submit_once(address, partial(self._depage_all, address))

    def _depage_all(self, address: str) -> None:
        deliver = self._deliver
        while deliver is not None and self._may_depage(address) and self.depage(address, deliver):
            pass

    def _may_depage(self, address: str) -> bool:
        """Whether there is room for more messages; if not, the next release of messages checks again."""
        self._waiting_for_memory.add(address)  # before the check, so that a release after it is not missed
        if not self._is_started or self._is_closed or not self._has_room(address):
            return False
        self._waiting_for_memory.discard(address)
        return True

    def _has_room(self, address: str) -> bool:
        memory, options = self.memory(address), self.options
        limits = ((memory.used_bytes, options.address_bytes_max), (self._memory.used_bytes, options.memory_bytes_max))
        return all(limit is None or used <= limit * options.resume_ratio for used, limit in limits)

    def drain(self) -> None:
        """Wait until the background work is done: syncing full pages and removing others.

        Raises: the first exception of that work.
        """
        self._depagers.drain()
        self._pool.drain()
        if self._background_failure is not None:
            raise self._background_failure

    @property
    def _background_failure(self) -> Exception | None:
        return self._depagers.failure or self._pool.failure

    def _add(self, folder: AddressFolder) -> PagingStore:
        processed = self._depaging.last_page(folder.address)
        complete = {each.page_id for _, each in self._complete if each.address == folder.address}
        commit_markers = {
            each.page_id: (id_, each.rolled_back)
            for id_, each in self._commit_markers
            if each.address == folder.address
        }
        store = PagingStore(
            folder,
            self.options,
            self._pool.submit,
            processed=processed.page_id,
            processed_identity=processed.identity,
            complete=complete,
            commit_markers=commit_markers,
        )
        store.start()
        store.message_paged = partial(self._depage_soon, folder.address)
        self._stores[folder.address] = store
        return store

    def stop(self) -> None:
        """Make everything durable, and close.

        A second call does nothing, or finishes a call that an exception broke off.  Waits for a page that is being
        depaged.
        Raises: PoisonedError, after which the manager is stopped too.  StateError if a signal handler has interrupted a
        sync of this thread: let the handler raise instead.
        """
        self.close()

    def _end(self) -> None:
        with self._mutex:  # an address that is being created is complete after this, and no other can be created
            ends = [cursor.close for cursor in self._cursors.values()] + [each.stop for each in self._stores.values()]
        self.transactions.stop()
        self._depagers.stop()
        self._depaging.wait()
        self._pool.stop()
        failure = self._background_failure
        first = failure if isinstance(failure, BinlogError) and not isinstance(failure, ClosedError) else None
        for end in ends:
            try:
                end()
            except BinlogError as error:
                first = first or error
        self._close_folders()
        if first is not None:
            raise first

    def check_not_reentered(self) -> None:
        """Raise StateError if a signal handler has interrupted a sync of this thread."""
        for store in list(self._stores.values()):
            store.folder.check_not_reentered()

    _check_not_reentered = check_not_reentered

    def _close_folders(self) -> None:
        for folder in (*self._unfinished_folders.values(), *(store.folder for store in self._stores.values())):
            folder.directory.close()
        self._unfinished_folders.clear()

    def check_owned(self) -> None:
        """Raise StateError in a forked child, and in a process that closed all its descriptors."""
        self._check_open()

    def _check(self) -> None:
        self._check_open()
        if not self._is_started:
            raise StateError(f"the paging {self.path} was not started")

    def __enter__(self) -> Self:
        self.start()
        return self
