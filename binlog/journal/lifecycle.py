"""A journal's life: it is started, loaded, which makes what appends, and closed.

The cyclic garbage collector, held back while very many objects are made of which none leads to itself.

It goes through all objects each time a quarter more are there than the last time, which while a million records are
made takes longer than making them.
"""

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
from binlog.journal.compaction.maintenance import Keeper
from binlog.journal.files.journal_files import JournalFile, ignored_until_later
from binlog.journal.ledger import Ledger
from binlog.journal.loading.loading import Loading
from binlog.journal.options import JournalOptions, Sync
from binlog.journal.record import Loaded
from binlog.storage.handle import Handle, new_guard


@contextmanager
def collector_paused() -> Iterator[None]:
    """For the block, where it runs at all.  It is the whole process's, and goes on with the first block that ends."""
    was_running = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if was_running:
            gc.enable()


# Of each kind without a body and without counts.
_BYTES = {layout: {int(kind): record_bytes(kind, 0, 0, layout) for kind in Kind} for layout in JournalLayout}
# In the oldest layout of JBoss Messaging's these have no body.
_WITHOUT_BODY = (Kind.DELETE_TX, Kind.PREPARE)


class JournalLife(Handle):
    """What a journal has while it is this process's, and how that begins and ends: see `Journal`."""

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
        self._is_running = False  # with what was made by a load
        self._record_bytes_max = 0
        self._id = 0

    def start(self) -> None:
        """Make the journal this process's; its folder is made where there is none, in one that is there.

        Raises: StateError where it was started before; BusyError; AccessError.
        """
        with self._life:
            if self._state != "new" or self._is_closed:
                raise StateError(f"the journal {self.path} is not to be started: it was started, or closed, before")
            self._acquire()

    def load(self) -> Loaded:
        """Read all files, and tell what is there; from then on records can be appended.

        Transactions that nobody ended are rolled back, durably.  What is damaged is left out, told, and kept.
        Blocks: for as long as reading all takes; who calls `close` meanwhile waits for it.
        Raises: StateError where it was not started, or loaded before, or no thread can be made; CorruptError;
        VersionError; ValueError where the layout is another one than was asked for; FullError; AccessError;
        PoisonedError.  Then it can be called again; also where a signal handler raises.
        """
        if not self._guard.is_ours:
            self._refuse()
        self._refuse_reentry()
        with self._life:
            if self._state != "started":
                raise StateError(f"the journal {self.path} is not to be loaded: it is {self._state}")
            with contextlib.suppress(PoisonedError):
                self._stop()  # what an exception has left of an earlier load
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
            with ignored_until_later():  # on a full disk what is there is told all the same
                files.prepare()
                files.top_up()
            loaded = loading.loaded()
            self._begin(loading)
            self._roll_back(loading.failed_ids())
            with ignored_until_later():
                self._keeper.reclaim()
        except BaseException:
            with contextlib.suppress(PoisonedError):
                self._stop()
            files.close()
            raise
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
        self._bytes_of = _BYTES[files.layout]
        self._has_bodies_for_all = files.layout is not JournalLayout.JBM_2008_07
        if files.layout is JournalLayout.NATIVE:
            self._record_bytes_max = data_bytes_max(first, options.file_bytes)
        else:
            self._record_bytes_max = options.file_bytes - aligned(first, options.alignment)
        self._appender = Appender(
            self._guard, self._next_file, options.buffer_bytes, options.alignment, options.flush_seconds
        )
        self._appender.begin(files.current, loading.at or first, loading.record_count)
        self._compactor = Compactor(self._guard, self._files_guard, files, self._ledger, self._appender, options)
        self._keeper = Keeper(self._guard, self._files_guard, files, self._ledger, self._appender, self._compactor)
        self._is_running = True
        self._appender.worker.start()
        self._keeper.worker.start()

    def _roll_back(self, tx_ids: list[int]) -> None:
        """End transactions that nobody ended, durably, so that no later one with the id is taken for the same."""
        with self._guard:
            if self._ledger.failed:
                self._appender.go_on()
            for tx_id in tx_ids:
                self._end_transaction(Kind.ROLLBACK, tx_id, b"", b"")
        self._appender.wait_for_all()

    def _end(self) -> None:
        """Put all that was appended on the disk."""
        self._state = "closed"
        with contextlib.suppress(PoisonedError), self._guard:
            pass  # an append that has begun is done
        self._stop()

    def _stop(self) -> None:
        if self._is_running:
            with contextlib.ExitStack() as ending:
                # The last one stops first.
                ending.callback(self._appender.stop)
                ending.callback(self._keeper.stop)
            self._is_running = False

    def _open(self, undoing: contextlib.ExitStack) -> None:
        """What is in the directory is opened by `load`."""
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
            text = f"a record of {size} bytes; a file of the journal {self.path} has {self._record_bytes_max}"
            raise FullError(text, limit=self._record_bytes_max, size=size)
        try:
            return self._appender.append(kind, tx_id, record_id, user_type, body, counts, size)
        except OverflowError as error:
            raise ValueError(f"an id or a user's type out of range: {error}") from error

    def close(self) -> None:
        """Put all that was appended on the disk, and end; a second call does nothing.

        Transactions that go on are rolled back by the next load, but for those that are prepared.
        Raises: StateError in a signal handler that broke into `load`, or into a change, and in a callback of a future;
        PoisonedError and others where it fails, and it is closed then too.
        """
        if self._is_running and self._appender.worker.is_own_thread():
            raise StateError("a future's callback cannot close the journal, which waits for it")
        super().close()

    def _no_sync(self, sync: object) -> TypeError:
        words = ", ".join(f"Sync.{each.name}" for each in Sync)
        return TypeError(f"sync is a binlog.journal.Sync: {words}; and not {sync!r}")

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
        self._ledger.meet(file)
        self._keeper.wake()
        return file
