"""The transaction log: records go to a buffer, and a leader writes and syncs them for all waiting threads.

If a checkpoint is due, the next leader makes it, because no other thread writes then.  A thread of the log writes
records that no caller waits for, and syncs them after 0.1 s.

Invariants
- If any thread waits for a record, everything written is synced before anything is written after it.  So after a power
  cut only the last write can be incomplete.
- Positions count from the opening, through all generations; `_base` is the position of the log's first byte.
- The guard is held by callers of `append`, by a leader while it takes the buffer, and during a checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from binlog._codec import pack_transaction
from binlog.errors import AccessError, BinlogError, FullError, InternalError
from binlog.format.pagestore.log import RECORDS_AT, LogStart, PageAction
from binlog.storage.files import allocate, check_commit, commit_at
from binlog.storage.native import CommitGroup, Guard
from binlog.storage.waiting.worker import Worker

# Records that no caller waits for are synced at this size, or at this age.
_UNSYNCED_BYTES_MAX = 1 << 20
_IDLE_SECONDS = 0.1
_STEP_BYTES = 4 << 20
_NEVER = (1 << 64) - 1


class TransactionLog:
    """The log of the current generation.

    checkpoint: begins the next generation and returns its header; called with the guard held.
    delay: the reason why the last checkpoint failed, and is made later.
    worker: syncs records that no caller waits for.
    """

    def __init__(
        self,
        path: str,
        fd: int,
        start: LogStart,
        guard: Guard,
        log_bytes: int,
        checkpoint: Callable[[], LogStart],
    ) -> None:
        self.path = path
        self.start = start
        self._fd = fd
        self._guard = guard
        self._group = CommitGroup(guard, RECORDS_AT)
        self._log_bytes = log_bytes
        self._checkpoint = checkpoint
        self._allocated = os.fstat(fd).st_size
        self._base = 0
        self._due = log_bytes
        self._group.open(fd)
        self.worker = Worker(self._work)
        self.delay: FullError | AccessError | None = None

    @property
    def durable(self) -> int:
        """The position up to which the log is on the disk."""
        return self._group.durable

    @property
    def end(self) -> int:
        """The position of the next record."""
        return self._group.appended

    def pack(self, tx_id: int, actions: list[PageAction]) -> bytes:
        """Return the bytes of the next record; the caller holds the guard until `append`."""
        at, base = self._group.appended - self._base, self._base
        return pack_transaction(tx_id, self.durable - base, self.start.salt, at, actions)

    def reserve(self, record_bytes: int) -> None:
        """Allocate space for a record; the caller holds the guard.  Raises: FullError; AccessError."""
        stop = self._group.appended - self._base + record_bytes
        if stop > self._allocated:
            size = max(stop, min(self._allocated + _STEP_BYTES, self._log_bytes))
            allocate(self._fd, self._allocated, size, self.path)
            self._allocated = size

    def append(self, record: bytes) -> int:
        """Append a record and return its end.  The caller has reserved space, and holds the guard."""
        begin = self._group.appended
        end = begin + len(record)
        self._group.append(record, begin - self._base, end)
        if end - self._base >= self._due:
            self._group.by_caller = True  # so that a caller makes the checkpoint
        self.worker.notify_once()
        return end

    def wait(self, until: int, *, synced: bool = True) -> None:
        """Wait until the log is on the disk, or written, up to a position; the caller does not hold the guard.

        Raises: PoisonedError; StateError if a signal handler has interrupted a commit of this thread.
        """
        synced = synced or self.end - self._group.durable > _UNSYNCED_BYTES_MAX
        with self._group.lead_or_wait(until, synced) as leads:
            if leads:
                self._commit(synced=synced)

    def make_checkpoint(self) -> None:
        """Make a checkpoint now; the caller does not hold the guard.

        Raises: FullError, AccessError, after which the log still has what the pages lack; PoisonedError.
        """
        with self._group.lead_or_wait(_NEVER):  # no record reaches this position, so this thread always leads
            self._commit(synced=True, is_due=True)
        if self.delay is not None:
            raise self.delay

    def fail(self, error: BinlogError) -> None:
        """Poison the store, and wake all waiting threads."""
        self._guard.fail(error)

    def stop(self) -> None:
        """Make a checkpoint, and end; if the disk is full, the log keeps what the pages lack.

        Raises: PoisonedError.
        """
        self.worker.stop()
        with suppress(FullError, AccessError):
            self.make_checkpoint()

    def _work(self) -> None:
        """Sync records that no caller waits for, once they are old enough."""
        try:
            if not self.worker.stopping.wait(_IDLE_SECONDS):
                with self._guard:
                    self.worker.is_notified = False
                self.wait(self.end)
        except BinlogError as error:
            self._guard.fail(error)
        except Exception as error:  # noqa: BLE001 - no caller sees it; the next call raises it
            self._guard.fail(InternalError(f"in the log: {error!r}"))

    def _commit(self, *, synced: bool, is_due: bool = False) -> None:
        """Write and sync the buffer, and make a checkpoint if one is due; this thread is the leader."""
        group = self._group
        check_commit(group.failed, self.path)
        with self._guard as guard:
            guard.changing = True
            offset, data = group.take(synced)
        commit_at(group, self._fd, data, offset, self.path)
        if is_due or group.written - self._base >= self._due:
            with self._guard as guard:
                guard.changing = True
                offset, data = group.take(True)
                commit_at(group, self._fd, data, offset, self.path)
                self._begin_generation()

    def _begin_generation(self) -> None:
        """Make a checkpoint; the caller holds the guard."""
        try:
            self.start = self._checkpoint()
        except (FullError, AccessError) as error:
            # Continue with the log as long as it has space.
            self.delay = error
            self._due = self.end - self._base + self._log_bytes // 2
        else:
            self.delay = None
            self._base = self.end - RECORDS_AT
            self._due = self._log_bytes
