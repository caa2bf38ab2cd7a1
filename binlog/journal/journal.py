"""A journal: records by their ids, added, updated and deleted one by one or in transactions."""

from __future__ import annotations

import contextlib
import os
import threading
from concurrent.futures import Future
from types import TracebackType
from typing import Literal, Self, overload

from binlog.errors import BinlogError, ClosedError, FullError, NotFoundError, PoisonedError, StateError
from binlog.format.journal.file_header import aligned
from binlog.format.journal.names import LOCK_FILE
from binlog.format.journal.record import JOURNAL_COUNT, Kind, record_bytes
from binlog.format.problem import Problem
from binlog.journal.appender import Appender, Ticket
from binlog.journal.compaction import Compactor
from binlog.journal.journal_file import JournalFile
from binlog.journal.keeper import Keeper
from binlog.journal.kept import Kept, kept_files
from binlog.journal.ledger import Ledger, Operation, Transaction
from binlog.journal.loading import Loading
from binlog.journal.options import JournalOptions, Sync
from binlog.journal.record import Loaded
from binlog.journal.uninterrupted import uninterrupted
from binlog.storage.collector import collector_paused
from binlog.storage.files import make_directory, open_directory, sync_parent
from binlog.storage.sole_owner import SoleOwner

_ADD, _UPDATE, _ADD_TX, _UPDATE_TX, _DELETE_TX, _DELETE, _PREPARE, _COMMIT, _ROLLBACK = map(int, Kind)
# Of each kind without a body and without counts.
_BYTES = {int(kind): record_bytes(kind, 0, 0) for kind in Kind}

_Now = Literal[Sync.WAIT, Sync.LATER]
_Later = Literal[Sync.FUTURE]


class Journal:
    """The journal in a folder, for this process, whose threads may share it.

    It is started, which makes it this process's; loaded, which tells what is there; and then appended to.  What a call
    did is there for the calls behind it as soon as it returns; when it is on the disk is said with `sync`.  A future is
    done when all that was appended up to its call is on the disk, and has PoisonedError where that failed; futures are
    done in the order of their calls.
    """

    def __init__(self, path: str | os.PathLike[str], options: JournalOptions | None = None) -> None:
        self.path = os.path.abspath(path)
        self._options = options or JournalOptions()
        self._mutex = threading.Lock()
        self._files_mutex = threading.Lock()
        self._closing = threading.RLock()
        self._state = "new"
        self._directory_fd = -1
        self._ownership: SoleOwner | None = None
        self._ledger = Ledger()
        self._record_bytes_max = 0
        self._id = 0

    def start(self) -> None:
        """Make the journal this process's; its folder is made where there is none, in one that is there.

        Raises: StateError where it was started before; BusyError; AccessError.
        """
        if self._state != "new":
            raise StateError(f"the journal {self.path} is not to be started: it is {self._state}")
        make_directory(self.path)
        directory_fd = open_directory(self.path)
        try:
            sync_parent(directory_fd, self.path)
            self._ownership = SoleOwner(self.path, directory_fd, LOCK_FILE, "journal")
        except BaseException:
            os.close(directory_fd)
            raise
        self._directory_fd = directory_fd
        self._state = "started"

    def load(self) -> Loaded:
        """Read all files, and tell what is there; from then on records can be appended.

        Transactions that nobody ended are rolled back, durably.  What is damaged is left out, told, and kept.
        Blocks: for as long as reading all takes.
        Raises: StateError where it was not started, or loaded before; CorruptError; VersionError; ValueError where the
        layout is another one than was asked for; FullError; AccessError; PoisonedError.  Then nothing of it is left in
        this process, and it can be called again.
        """
        self._refuse()
        with self._closing:  # a load that was interrupted may be ending still
            if self._state != "started":
                raise StateError(f"the journal {self.path} is not to be loaded: it is {self._state}")
        with collector_paused():
            loading = Loading(self.path, self._directory_fd, self._options)
        files = loading.files
        try:
            if files.current is None:
                files.take()
            files.prepare()
            files.top_up()
            loaded = loading.loaded()
            self._begin(loading)
        except BaseException:
            files.close()
            raise
        try:
            self._appender.start()
            self._keeper.start()
            self._roll_back(loading.failed_ids())
            self._keeper.reclaim()
        except BaseException:
            with contextlib.suppress(BinlogError):
                uninterrupted(self._stop)
            raise
        self._state = "loaded"
        return loaded

    def _begin(self, loading: Loading) -> None:
        """Make what appends behind what was loaded."""
        self._files = files = loading.files
        self._id = loading.record_id_max
        files.record_id_max = lambda: self._id
        self._ledger = loading.ledger
        assert files.current is not None
        self._ledger.meet(files.current)
        options = self._options
        first = files.layout.header_bytes
        self._record_bytes_max = options.file_bytes - aligned(first, options.alignment)
        self._appender = Appender(
            self._mutex, self._next_file, options.buffer_bytes, options.alignment, options.flush_seconds
        )
        self._appender.begin(files.current, loading.at or first, loading.record_count)
        self._compactor = Compactor(self._mutex, self._files_mutex, files, self._ledger, self._appender, options)
        self._keeper = Keeper(self._mutex, self._files_mutex, files, self._ledger, self._appender, self._compactor)

    def _roll_back(self, tx_ids: list[int]) -> None:
        """End transactions that nobody ended, durably, so that no later one with the id is taken for the same."""
        with self._mutex:
            if self._ledger.failed:
                self._appender.go_on()
            for tx_id in tx_ids:
                self._end(_ROLLBACK, tx_id, b"", b"")
            ticket = self._appender.ticket()
        self._appender.wait_with(ticket)

    def new_id(self) -> int:
        """An id for a record or a transaction: larger than all that the journal has met.

        Raises: StateError before the load; ClosedError; PoisonedError.
        """
        self._refuse()
        with self._mutex:
            self._check()
            self._id += 1
            return self._id

    @overload
    def append_add(self, record_id: int, user_type: int, body: bytes, *, sync: _Now = ...) -> None: ...
    @overload
    def append_add(self, record_id: int, user_type: int, body: bytes, *, sync: _Later) -> Future[None]: ...
    def append_add(self, record_id: int, user_type: int, body: bytes, *, sync: Sync = Sync.WAIT) -> Future[None] | None:
        """Add a record.

        record_id: an i64 that no record has which is there.  user_type: 0 to 255.  body: so much as a file holds.
        Raises: StateError where there is such a record, or the journal is not loaded; ValueError; FullError for one
        that no file can hold, or a full disk; PoisonedError; ClosedError.
        """
        done = self._put(_ADD, record_id, user_type, body, sync)
        if done is False:
            raise StateError(f"there is a record {record_id} already")
        return done

    @overload
    def append_update(self, record_id: int, user_type: int, body: bytes, *, sync: _Now = ...) -> None: ...
    @overload
    def append_update(self, record_id: int, user_type: int, body: bytes, *, sync: _Later) -> Future[None]: ...
    def append_update(
        self, record_id: int, user_type: int, body: bytes, *, sync: Sync = Sync.WAIT
    ) -> Future[None] | None:
        """Add to a record that is there; what was there before stays with it.

        Raises: NotFoundError where there is no such record, also where only a transaction that goes on has it; and as
        `append_add`.
        """
        done = self._put(_UPDATE, record_id, user_type, body, sync)
        if done is False:
            raise NotFoundError(f"there is no record {record_id}")
        return done

    @overload
    def append_delete(self, record_id: int, *, sync: _Now = ...) -> None: ...
    @overload
    def append_delete(self, record_id: int, *, sync: _Later) -> Future[None]: ...
    def append_delete(self, record_id: int, *, sync: Sync = Sync.WAIT) -> Future[None] | None:
        """Delete a record that is there, with all its updates.  Raises: as `append_update`."""
        done = self._put(_DELETE, record_id, 0, b"", sync)
        if done is False:
            raise NotFoundError(f"there is no record {record_id}")
        return done

    def try_append_add(self, record_id: int, user_type: int, body: bytes, *, sync: _Now = Sync.WAIT) -> bool:
        """As `append_add`; False where there is such a record, and nothing is appended."""
        return self._put(_ADD, record_id, user_type, body, sync) is not False

    def try_append_update(self, record_id: int, user_type: int, body: bytes, *, sync: _Now = Sync.WAIT) -> bool:
        """As `append_update`; False where there is no such record, and nothing is appended."""
        return self._put(_UPDATE, record_id, user_type, body, sync) is not False

    def try_append_delete(self, record_id: int, *, sync: _Now = Sync.WAIT) -> bool:
        """As `append_delete`; False where there is no such record, and nothing is appended."""
        return self._put(_DELETE, record_id, 0, b"", sync) is not False

    @overload
    def append_add_tx(self, tx_id: int, record_id: int, user_type: int, body: bytes, *, sync: _Now = ...) -> None: ...
    @overload
    def append_add_tx(
        self, tx_id: int, record_id: int, user_type: int, body: bytes, *, sync: _Later
    ) -> Future[None]: ...
    def append_add_tx(
        self, tx_id: int, record_id: int, user_type: int, body: bytes, *, sync: Sync = Sync.LATER
    ) -> Future[None] | None:
        """Add a record with a transaction, which begins with the first record that names it.

        It is there once the transaction is committed, and on the disk when that is.
        Raises: StateError where the transaction is prepared; and as `append_add`, but for a record that is there.
        """
        return self._join(_ADD_TX, tx_id, record_id, user_type, body, sync)

    @overload
    def append_update_tx(
        self, tx_id: int, record_id: int, user_type: int, body: bytes, *, sync: _Now = ...
    ) -> None: ...
    @overload
    def append_update_tx(
        self, tx_id: int, record_id: int, user_type: int, body: bytes, *, sync: _Later
    ) -> Future[None]: ...
    def append_update_tx(
        self, tx_id: int, record_id: int, user_type: int, body: bytes, *, sync: Sync = Sync.LATER
    ) -> Future[None] | None:
        """Add to a record with a transaction; nobody looks whether there is one.  Raises: as `append_add_tx`."""
        return self._join(_UPDATE_TX, tx_id, record_id, user_type, body, sync)

    @overload
    def append_delete_tx(self, tx_id: int, record_id: int, body: bytes = ..., *, sync: _Now = ...) -> None: ...
    @overload
    def append_delete_tx(self, tx_id: int, record_id: int, body: bytes = ..., *, sync: _Later) -> Future[None]: ...
    def append_delete_tx(
        self, tx_id: int, record_id: int, body: bytes = b"", *, sync: Sync = Sync.LATER
    ) -> Future[None] | None:
        """Delete a record with a transaction; nobody looks whether there is one.

        body: told with the transaction by a load that finds it prepared.  Raises: as `append_add_tx`.
        """
        return self._join(_DELETE_TX, tx_id, record_id, 0, body, sync)

    @overload
    def prepare(self, tx_id: int, extra: bytes = ..., *, sync: _Now = ...) -> None: ...
    @overload
    def prepare(self, tx_id: int, extra: bytes = ..., *, sync: _Later) -> Future[None]: ...
    def prepare(self, tx_id: int, extra: bytes = b"", *, sync: Sync = Sync.WAIT) -> Future[None] | None:
        """Have a transaction, which may have no record, wait for `commit` or `rollback`, also of the next process.

        extra: told by the next load.
        Raises: StateError where it is prepared already; FullError; PoisonedError; ClosedError.
        """
        self._refuse()
        with self._mutex:
            self._check()
            found = self._ledger.transactions.get(tx_id)
            if found is not None and found.prepared:
                raise StateError(f"the transaction {tx_id} is prepared")
            self._end(_PREPARE, tx_id, extra, _counts(found))
            settled = self._appender.settle(sync)
        return self._wait(settled)

    @overload
    def commit(self, tx_id: int, *, sync: _Now = ...) -> None: ...
    @overload
    def commit(self, tx_id: int, *, sync: _Later) -> Future[None]: ...
    def commit(self, tx_id: int, *, sync: Sync = Sync.WAIT) -> Future[None] | None:
        """Have all that a transaction did be there: all of it, or after a crash before it is durable maybe nothing.

        Raises: NotFoundError where there is no such transaction; FullError; PoisonedError; ClosedError.
        """
        self._refuse()
        with self._mutex:
            self._end(_COMMIT, tx_id, b"", _counts(self._transaction(tx_id)))
            settled = self._appender.settle(sync)
        return self._wait(settled)

    @overload
    def rollback(self, tx_id: int, *, sync: _Now = ...) -> None: ...
    @overload
    def rollback(self, tx_id: int, *, sync: _Later) -> Future[None]: ...
    def rollback(self, tx_id: int, *, sync: Sync = Sync.WAIT) -> Future[None] | None:
        """Have nothing that a transaction did be there.  Raises: as `commit`."""
        self._refuse()
        with self._mutex:
            self._transaction(tx_id)
            self._end(_ROLLBACK, tx_id, b"", b"")
            settled = self._appender.settle(sync)
        return self._wait(settled)

    def reclaim(self) -> int:
        """Free all files that nobody needs, which the journal does itself now and then; how many there were.

        Blocks: for a sync, and one for each file.  Raises: StateError; ClosedError; AccessError; PoisonedError.
        """
        self._refuse()
        with self._mutex:
            self._check()
        return self._keeper.reclaim()

    def compact(self) -> int:
        """Write what is alive anew, in fewer files, which the journal does itself; how many files fewer have records.

        Others append meanwhile.  Files with records of a transaction that goes on, or with damage, stay as they are.
        Blocks: until it is done.  Raises: FullError, and nothing was done; and as `reclaim`.
        """
        self._refuse()
        with self._mutex:
            self._check()
        return self._keeper.compact()

    def problems(self) -> list[Problem]:
        """What compactions found damaged since the load; such files stay as they are.

        Raises: StateError; ClosedError; PoisonedError.
        """
        self._refuse()
        with self._mutex:
            self._check()
            return list(self._compactor.problems)

    def why_kept(self) -> list[Kept]:
        """For each file with records but the last one, oldest first, what keeps it from being used again.

        Blocks: for as long as looking at all records takes.  Raises: StateError; ClosedError.
        """
        self._refuse()
        with self._mutex, self._files_mutex:
            self._check()
            return kept_files(self._files.data, self._ledger)

    def close(self) -> None:
        """Put all that was appended on the disk, and end; a second call does nothing.

        Transactions that go on are rolled back by the next load, but for those that are prepared.
        Raises: PoisonedError and others where that fails; it is closed then too.
        """
        if self._ownership is None or self._ownership.inherited:
            self._state = "closed"
        else:
            uninterrupted(self._end_all)

    def _end_all(self) -> None:
        with self._closing:
            state, self._state = self._state, "closed"
            if self._ownership is None or state == "closed":
                return
            with contextlib.ExitStack() as ending:  # goes on whatever one of them raises
                ending.callback(os.close, self._directory_fd)
                ending.callback(self._ownership.release)
                if state == "loaded":
                    ending.callback(self._stop)

    def _stop(self) -> None:
        with self._closing, contextlib.ExitStack() as ending:
            # The last one stops first.
            ending.callback(self._files.close)
            ending.callback(self._appender.stop)
            ending.callback(self._keeper.stop)

    def __enter__(self) -> Self:
        if self._state == "new":
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except BinlogError:
            if error is None:
                raise

    def _put(
        self, kind: int, record_id: int, user_type: int, body: bytes, sync: Sync
    ) -> Future[None] | Literal[False] | None:
        """Append a record outside of transactions; False where there is one of the id and none is wanted, or not."""
        self._refuse()
        with self._mutex:
            self._check()
            appender = self._appender
            if (record_id in self._ledger.records) is (kind == _ADD):
                return False
            file, size = self._append(kind, 0, record_id, user_type, body, b"")
            if kind == _DELETE:
                self._ledger.delete(record_id, file)
            else:
                self._ledger.add(record_id, file, size)
                if record_id > self._id:
                    self._id = record_id
            appender.changing = False
            settled = appender.settle(sync)
        return None if settled is None else self._wait(settled)

    def _join(
        self, kind: int, tx_id: int, record_id: int, user_type: int, body: bytes, sync: Sync
    ) -> Future[None] | None:
        self._refuse()
        with self._mutex:
            self._check()
            appender = self._appender
            found = self._ledger.transactions.get(tx_id)
            if found is not None and found.prepared:
                raise StateError(f"the transaction {tx_id} is prepared")
            if kind == _ADD_TX and record_id in self._ledger.records:
                raise StateError(f"there is a record {record_id} already")
            file, size = self._append(kind, tx_id, record_id, user_type, body, b"")
            self._ledger.join(tx_id, Operation(kind, record_id, file, size))
            self._id = max(self._id, record_id, tx_id)
            appender.changing = False
            settled = appender.settle(sync)
        return None if settled is None else self._wait(settled)

    def _end(self, kind: int, tx_id: int, extra: bytes, counts: bytes) -> None:
        file, _ = self._append(kind, tx_id, 0, 0, extra, counts)
        if kind == _PREPARE:
            self._ledger.prepare(tx_id, extra, file)
            self._id = max(self._id, tx_id)
        elif kind == _COMMIT:
            self._ledger.commit(tx_id, file)
        else:
            self._ledger.roll_back(tx_id, file)
        self._appender.changing = False

    def _append(
        self, kind: int, tx_id: int, record_id: int, user_type: int, body: bytes, counts: bytes
    ) -> tuple[JournalFile, int]:
        if type(body) is not bytes:
            body = memoryview(body).tobytes()
        size = _BYTES[kind] + len(body) + len(counts)
        if size > self._record_bytes_max:
            text = f"a record of {size} bytes; a file of the journal {self.path} has {self._record_bytes_max}"
            raise FullError(text, limit=self._record_bytes_max, size=size)
        try:
            return self._appender.append(kind, tx_id, record_id, user_type, body, counts, size), size
        except OverflowError as error:
            raise ValueError(f"an id or a user's type out of range: {error}") from error

    def _wait(self, settled: Future[None] | Ticket | None) -> Future[None] | None:
        """Where there is something to wait for, wait; the mutex is not held."""
        if isinstance(settled, Ticket):
            self._appender.wait_with(settled)
            return None
        return settled

    def _transaction(self, tx_id: int) -> Transaction:
        self._check()
        found = self._ledger.transactions.get(tx_id)
        if found is None:
            raise NotFoundError(f"there is no transaction {tx_id}")
        return found

    def _refuse(self) -> None:
        """Before the mutex is taken, which somebody may hold for ever in a forked child.  Raises: StateError."""
        if self._ownership is not None and self._ownership.inherited:
            raise StateError(f"the journal {self.path} is the parent process's")

    def _check(self) -> None:
        if self._state != "loaded":
            if self._state == "closed":
                raise ClosedError(f"the journal {self.path} is closed")
            raise StateError(f"the journal {self.path} is not loaded")
        self._appender.check()

    def _next_file(self) -> JournalFile:
        try:
            with self._files_mutex:
                file = self._files.take()
        except PoisonedError as error:
            self._appender.poison(error)
            raise
        self._ledger.meet(file)
        self._keeper.wake()
        return file


def _counts(transaction: Transaction | None) -> bytes:
    """How many records of a transaction each file has, as they lie in its commit."""
    if transaction is None:
        return b""
    return b"".join(
        JOURNAL_COUNT.pack({"file_id": file.header.record_id, "record_count": count})
        for file, count in transaction.counts.items()
    )
