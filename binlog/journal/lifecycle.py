"""Starting, loading and closing a journal."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from binlog.errors import ClosedError, FullError, PoisonedError, StateError
from binlog.format.journal.block import data_bytes_max
from binlog.format.journal.file_header import JournalLayout, aligned
from binlog.format.journal.names import LOCK_FILE
from binlog.format.journal.record import Kind, record_bytes
from binlog.format.values import plain_bytes
from binlog.journal.appender import Appender
from binlog.journal.compaction.compactor import Compactor
from binlog.journal.compaction.maintenance import MaintenanceThread
from binlog.journal.files.journal_files import JournalFile, suppress_transient
from binlog.journal.ledger import Ledger
from binlog.journal.loading.loading import Loading
from binlog.journal.options import JournalOptions, Sync
from binlog.journal.record import Loaded
from binlog.storage.handle import Handle, new_guard, run_all


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector of the whole process for the block, or until another such block ends.

    The collector walks all objects whenever their number has grown by a quarter.  While a load makes a million records,
    that would take longer than making them.  Records cannot form cycles.
    """
    was_running = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if was_running:
            gc.enable()


# The size of a record of each kind without its body and its counts.
_BYTES = {layout: {int(kind): record_bytes(kind, 0, 0, layout) for kind in Kind} for layout in JournalLayout}
# In JBoss Messaging's layout of July 2008 these kinds have no body.
_WITHOUT_BODY = (Kind.DELETE_TX, Kind.PREPARE)


class JournalLifecycle(Handle):
    """The state that a journal has while this process owns it: the base class of `Journal`."""

    kind = "journal"
    lock_name = LOCK_FILE

    def __init__(self, path: str | os.PathLike[str], options: JournalOptions | None = None) -> None:
        super().__init__(path)
        self._options = options or JournalOptions()
        self._files_guard = new_guard(f"the files of the journal {self.path}")
        self._state = "new"
        self._ledger = Ledger()
        self._appender: Appender
        self._bytes_of: dict[int, int] = {}
        self._has_bodies_for_all = True
        self._is_running = False  # a load has started the threads
        self._record_bytes_max = 0
        self._id = 0

    def start(self) -> None:
        """Make this process the owner of the journal.  Creates the folder, but not its parent.

        Raises: StateError if the journal was started or closed before; BusyError; AccessError.
        """
        with self._life:
            if self._state != "new" or self._is_closed:
                raise StateError(f"the journal {self.path} cannot be started: it was started or closed before")
            self._acquire()

    def load(self) -> Loaded:
        """Read all files and return the records and transactions.  After that, records can be appended.

        Rolls back transactions that were left open, durably.  Damage is skipped, reported and kept.
        Blocks: until all files are read; a concurrent `close` waits for the load.
        Raises: StateError if the journal is not started, is loaded already, or no thread can be started; CorruptError;
        VersionError; ValueError if the layout differs from the one in the options; FullError; AccessError;
        PoisonedError.  After any of these, and after an exception of a signal handler, `load` can be called again.
        """
        if not self._guard.is_ours:
            self._check_open()
        self._check_not_reentered()
        with self._life:
            if self._state != "started":
                raise StateError(f"the journal {self.path} cannot be loaded: it is {self._state}")
            with contextlib.suppress(PoisonedError):
                self._stop()  # the threads of an earlier load that an exception ended
            self._guard = new_guard(f"the journal {self.path}")
            assert self._lock is not None
            self._lock.bind(self._guard)
            loaded = self._load()
            self._state = "loaded"
        return loaded

    def _load(self) -> Loaded:
        with collector_paused():
            loading = Loading(self._directory, self._options)
        files = loading.files
        try:
            if files.current is None:
                files.take()
            with suppress_transient():  # a full disk must not keep the caller from its records
                files.prepare()
                files.top_up()
            loaded = loading.loaded()
            self._begin(loading)
            self._roll_back(loading.failed_ids())
            with suppress_transient():
                self._maintenance.reclaim()
        except BaseException:
            with contextlib.suppress(PoisonedError):
                self._stop()
            files.close()
            raise
        return loaded

    def _begin(self, loading: Loading) -> None:
        """Start to append after the last record that was loaded."""
        self._files = files = loading.files
        self._id = loading.record_id_max
        files.record_id_max = lambda: self._id
        self._ledger = loading.ledger
        assert files.current is not None
        self._ledger.track(files.current)
        options = self._options
        first = files.layout.header_bytes
        self._bytes_of = _BYTES[files.layout]
        self._has_bodies_for_all = files.layout is not JournalLayout.JBM_2008_07
        if files.layout is JournalLayout.NATIVE:
            self._record_bytes_max = data_bytes_max(first, options.file_bytes)
        else:
            self._record_bytes_max = options.file_bytes - aligned(first, options.alignment)
        self._appender = Appender(
            self._guard, self._next_file, options.buffer_bytes, options.alignment, options.flush_seconds
        )
        self._appender.start_in(files.current, loading.at or first, loading.record_count)
        self._compactor = Compactor(self._guard, self._files_guard, files, self._ledger, self._appender, options)
        self._maintenance = MaintenanceThread(
            self._guard, self._files_guard, files, self._ledger, self._appender, self._compactor
        )
        self._is_running = True
        self._appender.worker.start()
        self._maintenance.worker.start()

    def _roll_back(self, tx_ids: list[int]) -> None:
        """Roll back transactions that were left open, durably.

        Otherwise their records would join a later transaction with the same id.
        """
        with self._guard:
            if self._ledger.failed:
                self._appender.cut_over()
            for tx_id in tx_ids:
                self._end_transaction(Kind.ROLLBACK, tx_id, b"", b"")
        self._appender.wait_for_all()

    def _end(self) -> None:
        """Make all records durable, and stop the threads."""
        self._state = "closed"
        with contextlib.suppress(PoisonedError), self._guard:
            pass  # wait until a running append is complete
        self._stop()

    def _stop(self) -> None:
        if self._is_running:
            run_all(self._maintenance.stop, self._appender.stop)  # the maintenance first, because it uses the appender
            self._is_running = False

    def _open(self, undoing: contextlib.ExitStack) -> None:
        """Leave the files of the directory to `load`."""
        self._state = "started"

    def __enter__(self) -> Self:
        if self._state == "new":
            self.start()
        return self

    def _end_transaction(self, kind: int, tx_id: int, extra: bytes, counts: bytes) -> None:
        file, _ = self._append(kind, tx_id, 0, 0, extra, counts)
        if kind == Kind.PREPARE:
            self._ledger.prepare(tx_id, extra, file)
            self._id = max(self._id, tx_id)
        elif kind == Kind.COMMIT:
            self._ledger.commit(tx_id, file)
        else:
            self._ledger.roll_back(tx_id, file)
        self._guard.changing = False

    def _append(
        self, kind: int, tx_id: int, record_id: int, user_type: int, body: bytes, counts: bytes
    ) -> tuple[JournalFile, int]:
        if type(body) is not bytes:
            body = plain_bytes(body)
        if not self._has_bodies_for_all and body and kind in _WITHOUT_BODY:
            raise ValueError(f"{Kind(kind).name} has no body in the layout {self._files.layout.value!r}")
        size = self._bytes_of[kind] + len(body) + len(counts)
        if size > self._record_bytes_max:
            text = f"the record takes {size} bytes, and a file of the journal {self.path} has room for "
            text += f"{self._record_bytes_max}: raise file_bytes"
            raise FullError(text, limit=self._record_bytes_max, size=size)
        try:
            return self._appender.append(kind, tx_id, record_id, user_type, body, counts, size)
        except OverflowError as error:
            raise ValueError(f"an id or user_type is out of range: {error}") from error

    def close(self) -> None:
        """Make all records durable and close the journal; a second call does nothing.

        The next load rolls back open transactions, except prepared ones.
        Raises: StateError in a callback of a future, and in a signal handler that interrupted a change or `load` in the
        same thread; PoisonedError and others if closing fails, and the journal is closed nevertheless.
        """
        if self._is_running and self._appender.worker.is_own_thread():
            raise StateError("a future's callback cannot close the journal, which waits for it")
        super().close()

    def _no_sync(self, sync: object) -> TypeError:
        words = ", ".join(f"Sync.{each.name}" for each in Sync)
        return TypeError(f"sync must be one of binlog.journal.Sync: {words}; not {sync!r}")

    def _refuse_state(self) -> None:
        if self._is_closed:
            raise ClosedError(f"the journal {self.path} is closed")
        raise StateError(f"the journal {self.path} is not loaded")

    def _next_file(self) -> JournalFile:
        try:
            with self._files_guard:
                file = self._files.take()
        except PoisonedError as error:
            self._appender.fail(error)
            raise
        self._ledger.track(file)
        self._maintenance.wake()
        return file
