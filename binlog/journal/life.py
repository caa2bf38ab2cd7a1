"""A journal's life: it is started, loaded, which makes what appends, and closed."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self

from binlog.errors import BinlogError, ClosedError, FullError, PoisonedError, StateError
from binlog.format.journal.block import data_bytes_max
from binlog.format.journal.file_header import JournalLayout, aligned
from binlog.format.journal.names import LOCK_FILE
from binlog.format.journal.record import Kind, record_bytes
from binlog.format.values import plain_bytes
from binlog.journal.appender import Appender
from binlog.journal.compaction import Compactor
from binlog.journal.journal_file import JournalFile
from binlog.journal.keeper import Keeper
from binlog.journal.later import ignored_until_later
from binlog.journal.ledger import Ledger
from binlog.journal.loading import Loading
from binlog.journal.options import JournalOptions, Sync
from binlog.journal.record import Loaded
from binlog.storage.collector import collector_paused
from binlog.storage.files import make_directory, open_directory, sync_parent
from binlog.storage.guards import new_guard
from binlog.storage.kept_or_undone import KeptOrUndone, Waiter
from binlog.storage.sole_owner import SoleOwner
from binlog.storage.undisturbed import uninterrupted

# Of each kind without a body and without counts.
_BYTES = {layout: {int(kind): record_bytes(kind, 0, 0, layout) for kind in Kind} for layout in JournalLayout}
# In the oldest layout of JBoss Messaging's these have no body.
_WITHOUT_BODY = (Kind.DELETE_TX, Kind.PREPARE)


class JournalLife:
    """What a journal has while it is this process's, and how that begins and ends: see `Journal`."""

    def __init__(self, path: str | os.PathLike[str], options: JournalOptions | None = None) -> None:
        self.path = os.path.abspath(path)
        self._options = options or JournalOptions()
        self._guard = new_guard(f"the journal {self.path}")
        self._files_guard = new_guard(f"the files of the journal {self.path}")
        self._loading = threading.Lock()  # held by whoever starts, loads or ends it
        self._loader: Waiter | None = None  # of a load that goes on
        self._last: Waiter | None = None  # of the start, or load, that was done last
        self._state = "new"
        self._directory_fd = -1
        self._ownership: SoleOwner | None = None
        self._ledger = Ledger()
        self._is_callback: Callable[[], bool] = lambda: False
        self._record_bytes_max = 0
        self._id = 0

    def start(self) -> None:
        """Make the journal this process's; its folder is made where there is none, in one that is there.

        Raises: StateError where it was started before; BusyError; AccessError.
        """
        self._refuse_loader()
        waiter = Waiter()
        step = KeptOrUndone(partial(self._start, waiter), self._undo, waiter)
        try:
            step.result_of()
        except BaseException:
            waiter.is_left = True
            step.wait_until_undone()
            raise
        waiter.is_kept = True

    def _start(self, waiter: Waiter) -> None:
        with self._loading:
            self._undo_last()
            waiter.check()
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
            self._last = waiter

    def _undo(self) -> None:
        with self._loading:
            self._undo_last()

    def _undo_last(self) -> None:
        """Who left a start, or load, does not know that it was done.

        Where one more handler raised, another call may come to this before the thread does that is to undo it.
        """
        if self._last is None or not self._last.is_left:
            return
        self._last = None
        if self._state == "loaded":
            self._state = "started"
            with contextlib.suppress(BinlogError):
                self._stop()
        elif self._state == "started":
            self._state = "new"
            self._give_up()
            self._ownership = None

    def load(self) -> Loaded:
        """Read all files, and tell what is there; from then on records can be appended.

        Transactions that nobody ended are rolled back, durably.  What is damaged is left out, told, and kept.
        Blocks: for as long as reading all takes; who calls `close` meanwhile waits for it.
        Raises: StateError where it was not started, or loaded before; CorruptError; VersionError; ValueError where the
        layout is another one than was asked for; FullError; AccessError; PoisonedError.  Then nothing of it is left in
        this process, and it can be called again; also where a signal handler raises.
        """
        self._refuse()
        self._refuse_loader()
        waiter = Waiter()
        step = KeptOrUndone(partial(self._load_once, waiter), self._undo, waiter)
        try:
            loaded = step.result_of()
        except BaseException:
            waiter.is_left = True
            step.wait_until_undone()
            raise
        waiter.is_kept = True
        return loaded

    def _load_once(self, waiter: Waiter) -> Loaded:
        with self._loading:
            self._loader = waiter
            try:
                self._undo_last()
                waiter.check()
                if self._state != "started":
                    raise StateError(f"the journal {self.path} is not to be loaded: it is {self._state}")
                loaded = self._load(waiter)
                self._last = waiter
                return loaded
            finally:
                self._loader = None

    def _load(self, waiter: Waiter) -> Loaded:
        with collector_paused():
            loading = Loading(self.path, self._directory_fd, self._options, waiter.check)
        files = loading.files
        try:
            if files.current is None:
                files.take()
            with ignored_until_later():  # on a full disk what is there is told all the same
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
            with ignored_until_later():
                self._keeper.reclaim()
        except BaseException:
            with contextlib.suppress(BinlogError):
                self._stop()
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
        if files.layout is JournalLayout.NATIVE:
            self._record_bytes_max = data_bytes_max(first, options.file_bytes)
        else:
            self._record_bytes_max = options.file_bytes - aligned(first, options.alignment)
        self._appender = Appender(
            self._guard, self._next_file, options.buffer_bytes, options.alignment, options.flush_seconds
        )
        self._appender.begin(files.current, loading.at or first, loading.record_count)
        self._is_callback = self._appender.is_own_thread
        self._compactor = Compactor(self._guard, self._files_guard, files, self._ledger, self._appender, options)
        self._keeper = Keeper(self._guard, self._files_guard, files, self._ledger, self._appender, self._compactor)

    def _roll_back(self, tx_ids: list[int]) -> None:
        """End transactions that nobody ended, durably, so that no later one with the id is taken for the same."""
        with self._guard:
            if self._ledger.failed:
                self._appender.go_on()
            for tx_id in tx_ids:
                self._end(Kind.ROLLBACK, tx_id, b"", b"")
        self._appender.wait_for_all()

    def close(self) -> None:
        """Put all that was appended on the disk, and end; a second call does nothing.

        Transactions that go on are rolled back by the next load, but for those that are prepared.
        Raises: StateError in a signal handler that broke into `load`, or into a change: have it raise instead;
        PoisonedError and others where it fails, and it is closed then too.
        """
        self._refuse_loader()
        self._refuse_callback()
        if self._ownership is None or self._ownership.inherited:
            self._state = "closed"
        else:
            self._refuse_reentry()
            uninterrupted(self._end_all, outlives_main=True)

    def _end_all(self) -> None:
        with self._loading:
            state, self._state = self._state, "closed"
            if self._ownership is None or state == "closed":
                return
            with contextlib.ExitStack() as ending:  # goes on whatever one of them raises
                ending.callback(self._give_up)
                if state == "loaded":
                    ending.callback(self._stop)

    def _give_up(self) -> None:
        """It is this process's no longer."""
        assert self._ownership is not None
        with contextlib.ExitStack() as ending:
            ending.callback(os.close, self._directory_fd)
            ending.callback(self._ownership.release)

    def _stop(self) -> None:
        with contextlib.ExitStack() as ending:
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

    def _end(self, kind: int, tx_id: int, extra: bytes, counts: bytes) -> None:
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
        layout = self._files.layout
        if layout is JournalLayout.JBM_2008_07 and body and kind in _WITHOUT_BODY:
            raise ValueError(f"{Kind(kind).name} has no body in the layout {layout.value!r}")
        size = _BYTES[layout][kind] + len(body) + len(counts)
        if size > self._record_bytes_max:
            text = f"a record of {size} bytes; a file of the journal {self.path} has {self._record_bytes_max}"
            raise FullError(text, limit=self._record_bytes_max, size=size)
        try:
            return self._appender.append(kind, tx_id, record_id, user_type, body, counts, size)
        except OverflowError as error:
            raise ValueError(f"an id or a user's type out of range: {error}") from error

    def _refuse(self, sync: Sync = Sync.LATER) -> None:
        """Before the guard is taken, which somebody may hold for ever in a forked child.  Raises: StateError.

        Also before anything is appended that a future's callback could not wait for.
        """
        if self._ownership is not None and self._ownership.inherited:
            raise StateError(f"the journal {self.path} is the parent process's, or its descriptors were closed")
        self._refuse_reentry()
        if sync is Sync.WAIT:
            self._refuse_callback()
        elif type(sync) is not Sync:
            words = ", ".join(f"Sync.{each.name}" for each in Sync)
            raise TypeError(f"sync is a binlog.journal.Sync: {words}; and not {sync!r}")

    def _refuse_reentry(self) -> None:
        # In a signal handler, or a __del__, in the middle of a call of this thread, which would wait for itself.
        if self._guard.held:
            raise StateError(f"this thread is within a call of the journal {self.path}")

    def _refuse_loader(self) -> None:
        loader = self._loader
        if loader is not None and loader.caller == threading.get_ident() and not loader.is_left:
            raise StateError(f"the journal {self.path} is being loaded by this thread")

    def _refuse_callback(self) -> None:
        if self._is_callback():
            raise StateError("a future's callback cannot wait for the journal, which waits for it")

    def _check(self) -> None:
        if self._state != "loaded":
            if self._state == "closed":
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
