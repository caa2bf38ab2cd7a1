"""The manager: all stores of a folder, their transactions, and the depaging of those that are depaged."""

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

# For full pages, which are synced, and those that go.
_PAGE_THREADS = 3


class PagingManager(Handle):
    """The paging in a folder, for this process, whose threads may share it.

    transactions: those whose messages lie in pages.  problems: what was damaged at the start.
    guard: of all that is changed in the folder.  A failed write or sync poisons it, and so does an exception, of a
    signal handler say, that leaves a change half done; then all is refused until it is opened anew.
    """

    what = "paging"
    lock_name = LOCK_FILE

    def __init__(
        self,
        path: str | os.PathLike[str],
        options: PagingOptions | None = None,
        *,
        store: TransactionStore | None = None,
        stored: StoreContents | None = None,
    ) -> None:
        """store: where transactions are recorded, its user's to close; stored: what it had when it was opened.

        Without one there are no transactions, and no depaging by `depage`.
        Raises: CorruptError for records of the store that are none of paging's.
        """
        super().__init__(path)
        self.options = options or PagingOptions()
        self.problems: list[Problem] = []
        self.guard = self._guard
        self._change = self.guard.change()
        self.transactions = PageTransactions(self.guard, store, stored)
        self._depaging = Depaging(self.transactions, stored)
        self._pool = Pool(_PAGE_THREADS)
        # Their own: a depage waits for transactions, whose commit may wait for a page to be synced.
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
        """Make the paging this process's, and start the store of each address that has a folder.

        A second call does nothing.  The folder is made where there is none, in one that is there.
        Raises: BusyError; AccessError; ClosedError; and then it can be called again; PoisonedError.  Then nothing of it
        is left in this process.  After an exception of a signal handler another manager can be started.
        """
        with self._life:
            self._refuse()
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
        """Records of pages that are gone, and of transactions of which nothing is in any."""
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
        """Remove a record, once: a start that was undone may be done again."""
        if record_id not in self._deleted_records:
            self.transactions.store.append_delete(record_id)
            self._deleted_records.add(record_id)

    @property
    def addresses(self) -> list[str]:
        """The addresses that have a store."""
        return sorted(self._stores)

    def store(self, address: str) -> PagingStore:
        """The store of an address, which has a folder from then on.

        Raises: ValueError; FullError; AccessError; StateError; ClosedError; PoisonedError.
        """
        self._refuse()
        return self._stores.get(address) or self._make(address)

    def _make(self, address: str) -> PagingStore:
        with self._change, self._mutex:
            self._check()
            found = self._stores.get(address)
            if found is None:
                folder = self._unfinished_folders.get(address)
                if folder is None:
                    folder = make_folder(self._directory, address, self.options.layout, self.guard)
                self._unfinished_folders[address] = folder  # where what follows fails there is no second one
                found = self._add(folder)
                del self._unfinished_folders[address]
        return found

    def cursor(self, address: str) -> PageCursor:
        """The cursor of an address, whose store is then not to be depaged.  Raises: as `store`."""
        store = self.store(address)
        with self._change, self._mutex:
            found = self._cursors.get(address)
            if found is None:
                found = self._cursors[address] = PageCursor(store, self.transactions)
        return found

    def begin(self) -> PageTransaction:
        """A transaction, for `page` and `PageCursor.ack`.  Raises: StateError; ClosedError; PoisonedError."""
        self._refuse()
        with self._change:
            transaction = self.transactions.begin()
        return transaction  # noqa: RET504 - outside of the block, where an exception after the call poisons nothing

    def depage(self, address: str, deliver: Deliver) -> bool:
        """Have all messages of an address's first page be delivered; False where page mode has ended.

        deliver: is given the address, the messages, and the id of a transaction of the store, in which it may record
        what it makes of them.  That these are not in the page any more is recorded in the same one; so after a
        crash either is so, or neither.  Messages of transactions that go on are waited for.
        Raises: what `deliver` raises, and then the page is there as before; StateError; FullError; PoisonedError;
        ClosedError, also where this waits and the manager is stopped.
        """
        return self._depaging.run(self._store_to_depage(address), deliver)

    def depage_to(self, deliver: Deliver) -> None:
        """Have the manager depage by itself whenever an address has room for what is in its pages.

        It looks now, when messages come to pages, and when some are released, of this address or of another one.
        deliver: as in `depage`; it is to `hold` what it is given.  It is called by threads of the manager, for each
        address by one at a time.  What it raises is told by `drain`.
        """
        self._deliver = deliver
        for address in self.addresses:
            self._depage_soon(address)

    def admit(
        self, address: str, message: bytes, *, references: int = 1, transaction: PageTransaction | None = None
    ) -> HeldMessage | None:
        """Take a message in: it is held in memory, or None: it was put into a page, or dropped.

        It goes to a page where the address is in page mode, and where there is no room for it in memory and the policy
        is PAGE, which starts page mode.  references, transaction: as in `AddressMemory.hold` and `PagingStore.page`.
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
                raise FullError(f"there is no room in memory for {address!r}", limit=limit, size=len(message))
            else:
                memory.wait(len(message), RECHECK_SECONDS)
                self._refuse()
                self._check()
        return None

    def hold(self, address: str, message: bytes, *, references: int = 1) -> HeldMessage:
        """Hold a message in memory whatever the limits are, as of one that was depaged."""
        return self.memory(address).hold(message, references)

    def memory(self, address: str) -> AddressMemory:
        """What an address has in memory."""
        with self._mutex:
            found = self._memories.get(address)
            if found is None:
                limit = self.options.address_bytes_max
                found = AddressMemory(self._memory, limit, partial(self._released, address))
                self._memories[address] = found
            return found

    def _store_to_depage(self, address: str) -> PagingStore:
        if address in self._cursors:
            raise StateError(f"{address!r} has a cursor, and is not depaged")
        return self.store(address)

    def _released(self, address: str) -> None:
        """Messages of an address were, and others may have waited for that."""
        if self._deliver is not None:
            for each in {address} | self._waiting_for_memory:
                self._depage_soon(each)

    def _depage_soon(self, address: str) -> None:
        """Where there is room for more of its messages, and there are some in pages."""
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
        """Whether there is room for more of its messages; where not, who releases some looks again."""
        self._waiting_for_memory.add(address)  # before the look: what is released behind it is told to this address
        if not self._is_started or self._is_closed or not self._has_room(address):
            return False
        self._waiting_for_memory.discard(address)
        return True

    def _has_room(self, address: str) -> bool:
        memory, options = self.memory(address), self.options
        limits = ((memory.used_bytes, options.address_bytes_max), (self._memory.used_bytes, options.memory_bytes_max))
        return all(limit is None or used <= limit * options.resume_ratio for used, limit in limits)

    def drain(self) -> None:
        """Wait for what is done beside its callers: full pages are synced, and others removed.

        Raises: what that raised first.
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
        complete = {place.page_id for _, place in self._complete if place.address == folder.address}
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
        """Have all be durable, and end; a second call does nothing, or what one left that an exception ended.

        Waits for a page that is being depaged, no other.
        Raises: PoisonedError; it is stopped then too.  StateError in a signal handler that broke into a sync of this
        thread: have it raise instead.
        """
        self.close()

    def _end(self) -> None:
        with self._mutex:  # an address that is being made is there, and no other one is made from here on
            ends = [cursor.close for cursor in self._cursors.values()] + [each.stop for each in self._stores.values()]
        self.transactions.stop()
        self._depagers.stop()
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

    def refuse_reentry(self) -> None:
        """Raises: StateError in a signal handler that broke into a sync of this thread."""
        for store in list(self._stores.values()):
            store.folder.refuse_reentry()

    _refuse_reentry = refuse_reentry

    def _close_folders(self) -> None:
        for folder in (*self._unfinished_folders.values(), *(store.folder for store in self._stores.values())):
            folder.directory.close()
        self._unfinished_folders.clear()

    def check_owned(self) -> None:
        """Raise StateError in a forked child, and in a process that closed all its descriptors."""
        self._refuse()

    def _check(self) -> None:
        self._refuse()
        if not self._is_started:
            raise StateError(f"the paging {self.path} was not started")

    def __enter__(self) -> Self:
        self.start()
        return self
