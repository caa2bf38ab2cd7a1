"""A page store: named queues, and transactions over them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import count
from typing import TypeVar, TypeVarTuple
from weakref import ReferenceType, ref

from binlog.errors import AccessError, BinlogError, NotFoundError, PoisonedError
from binlog.format.pagestore.index import NAME_BYTES_MAX
from binlog.format.pagestore.log import LogStart
from binlog.format.pagestore.other_files import LOCK_FILE, LOG_FILE
from binlog.format.pagestore.prepared import PREPARED_QUEUE, Xid
from binlog.pagestore.backup import Backup
from binlog.pagestore.deliveries import Deliveries
from binlog.pagestore.options import PageStoreOptions
from binlog.pagestore.pages.generation import begin_generation, next_start
from binlog.pagestore.prepared import PreparedTransaction, PreparedTransactions
from binlog.pagestore.queues import Queues
from binlog.pagestore.recovery import StoreFiles
from binlog.pagestore.transaction import Message, State, Taken, Transaction
from binlog.pagestore.transaction_log import TransactionLog
from binlog.storage.handle import Handle
from binlog.storage.mode import Mode, waits_for_sync

_T = TypeVar("_T")
_Arguments = TypeVarTuple("_Arguments")


class PageStore(Handle):
    """The page store in a folder.  One process has it at a time; its threads may share it.

    Every change of memory is a step that holds the guard.  If an exception of a signal handler breaks off a step, it
    poisons the store.
    """

    kind = "page store"
    lock_name = LOCK_FILE

    def __init__(self, path: str | os.PathLike[str], options: PageStoreOptions | None = None) -> None:
        """Open the store; create its folder if it does not exist, in an existing parent.

        Blocks: for the recovery of a log that a crash left.
        Raises: BusyError; CorruptError; VersionError; ValueError if the pages have another size; FullError;
        AccessError; PoisonedError; StateError if no thread can be started.  After any of these, or an exception of a
        signal handler, this process holds nothing of the store.
        """
        self._options = options or PageStoreOptions()
        self._shrinks = False
        self._truncate_failure: AccessError | None = None
        # The messages that transactions have taken, by weak references.  If a transaction is freed without an end, for
        # example because a signal handler raised before its block, the callback, which is not Python code, queues it
        # for the next step.
        self._taken: dict[ReferenceType[Transaction], list[Taken]] = {}
        self._abandoned: deque[ReferenceType[Transaction]] = deque()
        super().__init__(path)
        self._acquire()

    def _open(self, undoing: ExitStack) -> None:
        options, directory = self._options, self._directory
        self._files = files = StoreFiles(directory, options)
        self._cache, self._free = files.cache, files.free
        self._tx_ids = count(files.tx_id_max + 1)
        log_path = directory.file_path(LOG_FILE)
        self._log = TransactionLog(
            log_path, files.log_fd, files.start, self._guard, options.log_bytes, self._checkpoint
        )
        self._deliveries = Deliveries(directory)
        self._content = Queues(self._cache, self._free, self._log, self._deliveries, options)
        self._prepared = PreparedTransactions(self._content)
        undoing.callback(self._log.worker.stop)
        self._log.worker.start()

    def _end(self) -> None:
        """Make a checkpoint.  Open transactions are rolled back."""
        with suppress(PoisonedError), self._guard:
            pass  # wait for a running step
        self._log.stop()

    @property
    def queues(self) -> list[str]:
        """The names of all queues."""
        return sorted(self._content.first_pages.keys() - {PREPARED_QUEUE})

    @property
    def page_bytes(self) -> int:
        """The size of a page."""
        return self._cache.file.page_bytes

    def create_queue(self, name: str) -> bool:
        """Create a queue durably; return False if it exists.

        name: 1 to 1,024 bytes in UTF-8.
        Raises: ValueError; FullError; CorruptError; AccessError; ClosedError; PoisonedError.
        """
        if not 1 <= len(name.encode()) <= NAME_BYTES_MAX:
            raise ValueError(f"the name of a queue has 1 to {NAME_BYTES_MAX} bytes")
        if name == PREPARED_QUEUE:
            raise ValueError(f"the name {name!r} is reserved for prepared transactions")
        is_new = self._step(self._content.create, name)
        if is_new:
            self._log.wait(self._log.end)
        return is_new

    def delete_queue(self, name: str) -> None:
        """Delete a queue with all its messages, durably; a crash meanwhile may leave some of them.

        Raises: NotFoundError; StateError if a transaction has a message of it; and as `create_queue`.
        """
        self._find((name,))
        while not self._step(partial(self._content.delete_some, name)):
            pass
        self._log.wait(self._log.end)

    def waiting_count(self, name: str) -> int:
        """Return how many messages of a queue can be got.  Raises: NotFoundError; CorruptError; ClosedError."""
        self._find((name,))
        return self._step(lambda: self._content.get(name).waiting_count)

    def unreadable(self, name: str) -> list[int]:
        """Return the keys of messages that `get` could not read, and skips until the store is opened again.

        They are still in the queue, and `get` reports them again after the next opening.  `remove` removes one.
        Raises: NotFoundError; CorruptError; AccessError; ClosedError.
        """
        self._find((name,))
        return self._step(lambda: sorted(self._content.get(name).unreadable))

    def transaction(self) -> Transaction:
        """Begin a transaction; as a context manager, it commits at the end of the block, or rolls back if that raises.

        Raises: StateError; ClosedError.
        """
        self._check_open()
        return Transaction(self, next(self._tx_ids))

    @property
    def prepared(self) -> list[PreparedTransaction]:
        """The prepared transactions, in order.  Raises: StateError; ClosedError; PoisonedError."""
        return self._step(self._prepared.all)

    def commit_prepared(self, xid: Xid) -> None:
        """Commit a prepared transaction durably.

        Raises: NotFoundError; FullError; CorruptError; AccessError; ClosedError; PoisonedError.
        """
        self._run_durably(partial(self._prepared.commit, xid))

    def rollback_prepared(self, xid: Xid) -> None:
        """Roll back a prepared transaction durably.  Raises: as `commit_prepared`."""
        self._run_durably(partial(self._prepared.roll_back, xid))

    def _run_durably(self, change: Callable[[], None]) -> None:
        self._step(change)
        self._log.wait(self._log.end)

    def checkpoint(self) -> None:
        """Write all pages to the disk and start a new log generation; the store also does this automatically.

        Raises: FullError, AccessError, after which it is made later; ClosedError; PoisonedError.
        """
        self._step(_nothing)
        self._log.make_checkpoint()

    def shrink(self) -> int:
        """Truncate the file after the last page in use, with a checkpoint; return the new number of pages.

        Raises: as `checkpoint`.
        """
        self._shrinks = True
        self.checkpoint()
        if (failure := self._truncate_failure) is not None:
            raise AccessError(str(failure), errno=failure.errno or 0, path=failure.filename) from failure
        return self._free.page_count

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the store to a new or empty folder, which can then be opened as a store; other threads continue.

        Everything that was committed before this call is in the copy.
        Raises: StateError if the folder is not empty, or another backup is running; CorruptError if a page is damaged;
        FullError; AccessError, also if a write or sync of the copy fails; ClosedError; PoisonedError.  After any
        exception before the copy is complete, the folder is refused as a store.
        """
        self._step(_nothing)  # so that a poisoned store creates no folder
        with closing(Backup(os.fspath(path), self._cache, self._free)) as backup:
            self._step(backup.begin)
            try:
                while not self._step(backup.copy_some):
                    pass
            finally:
                self._step(backup.end)
            self._log.wait(self._log.end)
            backup.finish()

    def _get(self, transaction: Transaction, name: str) -> Message | None:
        self._find((name,))
        return self._step(self._take_next, transaction, name)

    def _remove(self, transaction: Transaction, name: str, key: int) -> None:
        self._find((name,))
        self._step(self._take_by_key, transaction, name, key)

    def _take_next(self, transaction: Transaction, name: str) -> Message | None:
        self._watch(transaction)
        return self._content.take_next(transaction, name)

    def _take_by_key(self, transaction: Transaction, name: str, key: int) -> None:
        self._watch(transaction)
        self._content.take_by_key(transaction, name, key)

    def _watch(self, transaction: Transaction) -> None:
        if not transaction.taken:
            self._taken[ref(transaction, self._abandoned.append)] = transaction.taken

    def _commit(self, transaction: Transaction, mode: Mode | str | None) -> None:
        synced = waits_for_sync(self._options.mode if mode is None else mode, "page store")
        if self._step(self._content.commit, transaction):
            self._log.wait(self._log.end, synced=synced)

    def _prepare(self, transaction: Transaction, xid: Xid) -> None:
        def prepare() -> None:
            self._prepared.prepare(transaction, xid)
            transaction.xid = xid

        self._run_durably(prepare)

    def _roll_back(self, transaction: Transaction, delay: float = 0.0) -> None:
        self._step(partial(self._content.roll_back, transaction, delay))

    def _abandon(self, transaction: Transaction) -> None:
        """Roll back if possible; the caller raises another exception."""
        try:
            if transaction.state is State.OPEN:
                self._roll_back(transaction)
        except BinlogError:
            return  # it was committed meanwhile, or the store refuses everything

    def _checkpoint(self) -> LogStart:
        """Make a checkpoint, between two generations of the log; see pages/generation.py."""
        self._cache.flush()
        if self._shrinks:
            self._free.truncate()
        start = next_start(self.page_bytes, self._log.start.generation + 1)
        begin_generation(self._directory, self._files.log_fd, start, self._free.states)
        self._cache.generation = start.generation
        self._cache.logged.clear()
        if self._shrinks:
            self._shrinks = False
            self._truncate()
        return start

    def _truncate(self) -> None:
        """Truncate the file; if that fails, the free pages stay in it, which is harmless."""
        self._truncate_failure = None
        try:
            self._cache.file.truncate(self._free.page_count)
        except AccessError as error:
            self._truncate_failure = error

    def _find(self, names: tuple[str, ...]) -> None:
        """Check that queues exist; the next step checks the owner.  Raises: NotFoundError; ClosedError."""
        if self._is_closed:
            self._check_open()
        for name in names:
            if name not in self._content.first_pages or name == PREPARED_QUEUE:
                raise NotFoundError(f"no queue is named {name!r}")

    def _step(self, work: Callable[[*_Arguments], _T], *arguments: *_Arguments) -> _T:
        """Run a change of the store.  Raises: its exceptions; StateError; ClosedError; PoisonedError."""
        with self._guard, self._guard.change():
            if self._is_closed:
                self._check_open()
            while self._abandoned:
                self._content.return_messages(self._taken.pop(self._abandoned.popleft()), 0)
            result = work(*arguments)
        return result  # noqa: RET504 - outside of the block, where an exception after the call leaves no step broken off


def _nothing() -> None:
    """A step that only checks whether the store is usable."""
