"""The appender: places records at the end of a journal, and writes and syncs them.

Appends copy records to a buffer under the journal's guard.  A thread that waits for its record leads a commit: it
writes the whole buffer and syncs it once for all waiting threads (`CommitGroup`), while the next buffer fills.  A
worker thread commits records that no caller waits for.  After a cutover to another file, the next leader also completes
the previous file: it writes the rest of its records, syncs it, writes where they end, and closes it.

A signal handler may raise between any two steps of a thread that appends.  `append` begins a change, and the caller
ends it after it has updated the ledger; an exception in between poisons the journal (`Guard`).

Invariants
- All records of a file are durable before the first byte of the next file is written.
- Futures complete in the order of their records, in the worker thread.
- After a failed write or sync, nothing is written any more, and no caller learns that a record is durable.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

from binlog._codec import pack_journal
from binlog.errors import BinlogError, InternalError, PoisonedError
from binlog.format.journal.block import BLOCK_BYTES, HEAD_BYTES
from binlog.format.journal.compiled import pack_jbm_2008_07
from binlog.format.journal.file_header import JOURNAL_END, JournalLayout, aligned
from binlog.format.journal.record import record_end
from binlog.journal.files.journal_files import JournalFile
from binlog.journal.options import Sync
from binlog.storage.files import check_commit, commit_at
from binlog.storage.native import CommitGroup, Guard
from binlog.storage.waiting.worker import Worker

_BUFFERS_MAX = 4  # with this many buffers of `buffer_bytes`, or this many unclosed files, an append has to wait
_LATER, _WAIT = Sync.LATER, Sync.WAIT
_ROOM = 128  # a record of n bytes takes less than 2 * n + _ROOM with the heads of its fragments
# At least as many as `zeros_end` asks for: a reused file may have an old head at the place of the next one.
_ZEROS = 2 * HEAD_BYTES


class _ClosedFile(NamedTuple):
    """A file that takes no more appends: its last bytes and their offset, not written yet.

    end, record_count: of the whole file.
    """

    file: JournalFile
    offset: int
    data: bytes
    end: int
    record_count: int


class Appender:
    """Appends records to the current file, and cuts over to the next one.

    guard: held by the caller of `append`, and only briefly.  next_file: returns a file for the cutover.
    worker: writes records that no caller waits for, and completes futures.
    """

    def __init__(
        self,
        guard: Guard,
        next_file: Callable[[], JournalFile],
        buffer_bytes: int,
        alignment: int,
        seconds: float,
    ) -> None:
        self._guard = guard
        self._group = CommitGroup(guard)
        self._next_file = next_file
        self._buffer_bytes = buffer_bytes
        self._alignment = alignment
        self._seconds = seconds
        self._closed: list[_ClosedFile] = []
        self._record_count = 0
        self._end = 0
        self._futures: deque[tuple[int, Future[None]]] = deque()
        self.worker = Worker(self._work)
        self.file: JournalFile | None = None

    @property
    def appended(self) -> int:
        """The count of records and cutovers so far, which `wait` takes."""
        return self._group.appended

    def start_in(self, file: JournalFile, at: int, record_count: int) -> None:
        """Continue in a file after the records that it has."""
        self.file = file
        self._record_count = record_count
        self._write_to(file, at)

    def _write_to(self, file: JournalFile, at: int) -> None:
        header = file.header
        self._is_native = header.layout is JournalLayout.NATIVE
        self._pack = pack_jbm_2008_07 if header.layout is JournalLayout.JBM_2008_07 else pack_journal
        self._file_id, self._salt = header.record_id, header.salt
        self._end = at
        self._group.open(file.fd)

    def append(
        self, kind: int, tx_id: int, record_id: int, user_type: int, body: Any, counts: bytes, size: int
    ) -> tuple[JournalFile, int]:
        """Append one record; return its file and the bytes that it takes there.  The caller holds the guard.

        size: as `record_bytes` returns it.
        Leaves the guard `changing`; the caller resets it after it has updated the ledger.
        Raises: OverflowError, TypeError, and what next_file raises; then nothing was appended.
        """
        file, group = self.file, self._group
        assert file is not None
        is_native = self._is_native
        at = self._end if is_native or group.pending else aligned(self._end, self._alignment)
        # The exact end is expensive, so compute it only if the record may not fit.
        if at + 2 * size + _ROOM > file.file_bytes and record_end(at, size, file.header.layout) > file.file_bytes:
            file = self._next()
            at = self._end if is_native else aligned(self._end, self._alignment)
        record = self._pack(self._file_id, self._salt, at, kind, tx_id, record_id, user_type, body, counts)
        end = at + len(record)
        if is_native:
            zeros, skipped = _ZEROS, -at % BLOCK_BYTES  # `fragment_start`, without the call
            if skipped > HEAD_BYTES:
                skipped = 0
        else:
            zeros, skipped = aligned(end, self._alignment) - end, 0
        self._guard.changing = True
        group.append(record, at, group.appended + 1, min(zeros, file.file_bytes - end))
        self._end = end
        self._record_count += 1
        return file, end - at - skipped

    def when_durable(self, sync: Sync) -> Future[None] | tuple[int, bool] | None:
        """Return a future, or arguments for `wait`, to be called without the guard, or None to return at once."""
        if sync is _WAIT:
            return self._group.appended, True
        if sync is _LATER:
            pending = self._group.pending
            if pending >= self._buffer_bytes:
                self.worker.notify()
            self.worker.notify_once()
            must_wait = pending >= _BUFFERS_MAX * self._buffer_bytes or len(self._closed) >= _BUFFERS_MAX
            return (self._group.appended, False) if must_wait else None
        future: Future[None] = Future()
        future.set_running_or_notify_cancel()  # a record cannot be taken back
        self._futures.append((self.appended, future))
        self.worker.notify()
        return future

    def wait(self, until: int, synced: bool = True) -> None:
        """Return when all records and cutovers up to a count are durable, or just written.  Call it without the guard.

        Raises: PoisonedError; StateError in a signal handler that interrupted a commit of the same thread.
        """
        with self._group.lead_or_wait(until, synced) as leads:
            if leads:
                self._commit(synced)

    def wait_for_all(self) -> None:
        """Return when all records are durable.  Raises: as `wait`."""
        self.wait(self.appended)

    def stop(self) -> None:
        """Make all records durable and stop the worker; a second call does nothing.  Raises: PoisonedError."""
        self.worker.stop()
        try:
            self.wait_for_all()
            self._guard.check()
        finally:
            self._resolve_futures()

    def cut_over(self) -> None:
        """Continue in the next file, unless this one is empty.  Raises: as `append`.

        The guard stays held, so the caller's next record is the first one in the new file.
        """
        if self._record_count:
            self._next()

    def fail(self, error: BinlogError) -> None:
        """Poison the journal, and wake all waiting threads."""
        self._guard.fail(error)
        self.worker.notify()

    def _next(self) -> JournalFile:
        file = self.file
        assert file is not None
        file.record_count = self._record_count
        self._guard.changing = True
        try:
            new = self._next_file()
        except BinlogError:
            self._guard.changing = False  # nothing was changed
            raise
        self._closed.append(_ClosedFile(file, *self._group.take_pending(), self._end, self._record_count))
        self._group.by_caller = True
        self._group.appended += 1  # callers can wait for the end of the previous file, too
        self.file = new
        self._record_count = 0
        self._write_to(new, new.header.layout.header_bytes)
        self._guard.changing = False
        self.worker.notify()
        return new

    def _commit(self, synced: bool) -> None:
        """Complete closed files, then write and sync the buffer; this thread is the leader."""
        assert self.file is not None
        check_commit(self._group.failed, self.file.path)
        with self._guard:
            self._guard.changing = True
            last = self.file
            closed, self._closed = self._closed, []
            offset, data = self._group.take(synced)
        for each in closed:
            file = each.file
            if each.data:
                file.write(each.data, each.offset)
            file.sync()
            if file.header.layout is JournalLayout.NATIVE:
                file.write(file.header.pack_end(each.end, each.record_count), JOURNAL_END.base)
            file.close()
        commit_at(self._group, last.fd, data, offset, last.path)

    def _work(self) -> None:
        """Write records that no caller waits for, and sync them if a future waits."""
        if not (self._futures or self._closed or self._group.pending >= self._buffer_bytes or self._guard.failure):
            self.worker.pause(self._seconds)
        try:
            with self._guard:
                self.worker.is_notified = False
            self.wait(self.appended, bool(self._futures))
        except BinlogError as error:
            self._guard.fail(error)
        except Exception as error:  # noqa: BLE001 - the guard hands it to the next caller; a thread would swallow it
            self._guard.fail(InternalError(f"while writing a journal: {error!r}"))
        self._resolve_futures()

    def _resolve_futures(self) -> None:
        """Complete the futures whose records are durable; after a failure, all of them."""
        while self._futures and self._futures[0][0] <= self._group.durable:
            _resolve(self._futures.popleft()[1], None)
        try:
            self._guard.check()
        except PoisonedError as error:
            while self._futures:
                _resolve(self._futures.popleft()[1], error)


def _resolve(future: Future[None], error: BaseException | None) -> None:
    try:
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
    except BaseException as failure:  # noqa: BLE001 - `sys.exit()` in a callback must not end this thread
        thread = threading.current_thread()
        threading.excepthook(threading.ExceptHookArgs((type(failure), failure, failure.__traceback__, thread)))
