"""Where the next record goes, and how records come to the disk.

Records go to a buffer, under the journal's guard.  A thread that waits for its record leads a commit: it writes all
that is there, and syncs it once for everyone who waits (`CommitGroup`).  Meanwhile the next buffer fills.  A thread of
the journal commits what nobody waits for.  After the journal went on in another file, the next leader also writes the
end of the file before, and closes it.

A signal handler may raise between any two steps of a thread that appends.  `append` begins a change, and the caller
ends it once the ledger knows of it too; what an exception leaves half done poisons the journal (`Guard`).

Invariants
- A file is on the disk, whole, before the first byte of the next one is written.
- Futures are done in the order of the records, in the journal's own thread.
- After a write or a sync failed nothing is written any more, and no caller hears that something is on the disk.
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
from binlog.format.journal.compiled import pack_old
from binlog.format.journal.file_header import JOURNAL_END, JournalLayout, aligned
from binlog.format.journal.record import record_end
from binlog.journal.files.journal_files import JournalFile
from binlog.journal.options import Sync
from binlog.storage.files import check_commit, commit_at
from binlog.storage.native import CommitGroup, Guard
from binlog.storage.waiting.worker import Worker

_BUFFERS_MAX = 4  # so many times `buffer_bytes` may wait, or so many files may have to be ended, before appends wait
_LATER, _WAIT = Sync.LATER, Sync.WAIT
_ROOM = 128  # a record of n bytes takes less than 2 * n + this, with its heads
# At least as many as `zeros_end` asks for: a file that is used again may have an old head where a reader looks next.
_ZEROS = 2 * HEAD_BYTES


class _Ended(NamedTuple):
    """A file that the journal went on from: its last bytes, and where they go.

    end, record_count: of the whole file.
    """

    file: JournalFile
    offset: int
    data: bytes
    end: int
    record_count: int


class Appender:
    """The end of a journal.

    guard: held by callers of `append`, and never for long.  next_file: returns the file to go on in.
    appended: how many records were appended, and how many files were gone on from.  worker: writes what no caller waits
    for, and calls back futures.
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
        self._ended: list[_Ended] = []
        self._record_count = 0
        self._end = 0
        self._futures: deque[tuple[int, Future[None]]] = deque()
        self.worker = Worker(self._work)
        self.file: JournalFile | None = None

    @property
    def appended(self) -> int:
        """How many records were appended, and how many files were gone on from."""
        return self._group.appended

    def begin(self, file: JournalFile, at: int, record_count: int) -> None:
        """Go on in a file, after the records that it has."""
        self.file = file
        self._record_count = record_count
        self._go_to(file, at)

    def _go_to(self, file: JournalFile, at: int) -> None:
        header = file.header
        self._is_native = header.layout is JournalLayout.NATIVE
        self._pack = pack_old if header.layout is JournalLayout.JBM_2008_07 else pack_journal
        self._file_id, self._salt = header.record_id, header.salt
        self._end = at
        self._group.open(file.fd)

    def append(
        self, kind: int, tx_id: int, record_id: int, user_type: int, body: Any, counts: bytes, size: int
    ) -> tuple[JournalFile, int]:
        """Put a record after all others; return its file, and how many bytes it takes there.  The guard is held.

        size: as `record_bytes` returns it.
        The guard is `changing` from then on, until the caller has done the rest of the change.
        Raises: what making a file raises, OverflowError, TypeError; then nothing was appended.
        """
        file, group = self.file, self._group
        assert file is not None
        is_native = self._is_native
        at = self._end if is_native or group.pending else aligned(self._end, self._alignment)
        # Where exactly it ends is looked for only if it may be behind the file's end.
        if at + 2 * size + _ROOM > file.file_bytes and record_end(at, size, file.header.layout) > file.file_bytes:
            file = self._next()
            at = self._end if is_native else aligned(self._end, self._alignment)
        record = self._pack(self._file_id, self._salt, at, kind, tx_id, record_id, user_type, body, counts)
        end = at + len(record)
        if is_native:
            zeros, skipped = _ZEROS, -at % BLOCK_BYTES  # `fragment_place`, without the call
            if skipped > HEAD_BYTES:
                skipped = 0
        else:
            zeros, skipped = aligned(end, self._alignment) - end, 0
        self._guard.changing = True
        group.append(record, at, group.appended + 1, min(zeros, file.file_bytes - end))
        self._end = end
        self._record_count += 1
        return file, end - at - skipped

    def settle(self, sync: Sync) -> Future[None] | tuple[int, bool] | None:
        """Return a future, or the arguments of `wait`, which the caller calls without the guard, or None."""
        if sync is _WAIT:
            return self._group.appended, True
        if sync is _LATER:
            pending = self._group.pending
            if pending >= self._buffer_bytes:
                self.worker.notify()
            self.worker.notify_once()
            must_wait = pending >= _BUFFERS_MAX * self._buffer_bytes or len(self._ended) >= _BUFFERS_MAX
            return (self._group.appended, False) if must_wait else None
        future: Future[None] = Future()
        future.set_running_or_notify_cancel()  # what is appended cannot be taken back
        self._futures.append((self.appended, future))
        self.worker.notify()
        return future

    def wait(self, until: int, synced: bool = True) -> None:
        """Return when all up to a count is on the disk, or written.  The guard is not held.

        Raises: PoisonedError; StateError in a signal handler that broke into a commit of this thread.
        """
        with self._group.lead_or_wait(until, synced) as leads:
            if leads:
                self._commit(synced)

    def wait_for_all(self) -> None:
        """Return when all that was appended is on the disk.  Raises: as `wait`."""
        self.wait(self.appended)

    def stop(self) -> None:
        """Put all on the disk, and end.  It can be called again.  Raises: PoisonedError."""
        self.worker.stop()
        try:
            self.wait_for_all()
            self._guard.check()
        finally:
            self._tell_futures()

    def go_on(self) -> None:
        """Go on in the next file, if this one has any record.  Raises: as `append`.

        The guard is held all the time: nobody appends before the caller has done what comes next.
        """
        if self._record_count:
            self._next()

    def fail(self, error: BinlogError) -> None:
        """Append nothing more, and say so to all who wait."""
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
            self._guard.changing = False  # nothing was done
            raise
        self._ended.append(_Ended(file, *self._group.take_pending(), self._end, self._record_count))
        self._group.by_caller = True
        self._group.appended += 1  # that the file before is whole, and closed, is something to wait for as well
        self.file = new
        self._record_count = 0
        self._go_to(new, new.header.layout.header_bytes)
        self._guard.changing = False
        self.worker.notify()
        return new

    def _commit(self, synced: bool) -> None:
        """End the files that the journal went on from, write all that is there, and sync it; this thread leads."""
        assert self.file is not None
        check_commit(self._group.failed, self.file.path)
        with self._guard:
            self._guard.changing = True
            last = self.file
            ended, self._ended = self._ended, []
            offset, data = self._group.take(synced)
        for each in ended:
            file = each.file
            if each.data:
                file.write(each.data, each.offset)
            file.sync()
            if file.header.layout is JournalLayout.NATIVE:
                file.write(file.header.pack_end(each.end, each.record_count), JOURNAL_END.base)
            file.close()
        commit_at(self._group, last.fd, data, offset, last.path)

    def _work(self) -> None:
        """Write what no caller waits for, and sync it for futures."""
        if not (self._futures or self._ended or self._group.pending >= self._buffer_bytes or self._guard.failure):
            self.worker.pause(self._seconds)
        try:
            with self._guard:
                self.worker.is_notified = False
            self.wait(self.appended, bool(self._futures))
        except BinlogError as error:
            self._guard.fail(error)
        except Exception as error:  # noqa: BLE001 - nobody sees what a thread raises; the next caller does
            self._guard.fail(InternalError(f"while writing a journal: {error!r}"))
        self._tell_futures()

    def _tell_futures(self) -> None:
        """Tell those whose records are on the disk, or, after a failure, all of them."""
        while self._futures and self._futures[0][0] <= self._group.durable:
            _tell(self._futures.popleft()[1], None)
        try:
            self._guard.check()
        except PoisonedError as error:
            while self._futures:
                _tell(self._futures.popleft()[1], error)


def _tell(future: Future[None], error: BaseException | None) -> None:
    try:
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
    except BaseException as failure:  # noqa: BLE001 - a callback's `sys.exit()`, which must not end this thread
        thread = threading.current_thread()
        threading.excepthook(threading.ExceptHookArgs((type(failure), failure, failure.__traceback__, thread)))
