"""The log's end: records go to a buffer; a caller that waits for its record leads, and writes and syncs for all.

If a checkpoint is due, the next leader makes it, because no other thread writes then.  What no caller waits for is
written by a thread of the log, and synced after 0.1 s.

Invariants
- What is written is synced before anything is written after it, if anybody waits for that; so of a log that a power cut
  left only what was written last may lack in parts.
- Places are counted from the opening on, through all generations; `_base` is where the log's first byte would be.
- The guard is held by callers of `append`, by a leader while it takes what is there, and during a checkpoint.
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

# What no caller waits for is synced once it is so much, or so old.
_UNSYNCED_BYTES_MAX = 1 << 20
_IDLE_SECONDS = 0.1
_STEP_BYTES = 4 << 20
_NEVER = (1 << 64) - 1


class TransactionLog:
    """The log of a generation, and then of the next.

    checkpoint: what begins the next one, called with the guard held; returns its header.
    delay: why the last checkpoint that could not be made is made later.
    worker: syncs what no caller waits for.
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
        """Up to this place all is on the disk."""
        return self._group.durable

    @property
    def end(self) -> int:
        """Where the next record goes."""
        return self._group.appended

    def pack(self, tx_id: int, actions: list[PageAction]) -> bytes:
        """The record that would come next.  The guard is held, up to `append`."""
        at, base = self._group.appended - self._base, self._base
        return pack_transaction(tx_id, self.durable - base, self.start.salt, at, actions)

    def reserve(self, record_bytes: int) -> None:
        """Have space for a record.  The guard is held.  Raises: FullError; AccessError."""
        stop = self._group.appended - self._base + record_bytes
        if stop > self._allocated:
            size = max(stop, min(self._allocated + _STEP_BYTES, self._log_bytes))
            allocate(self._fd, self._allocated, size, self.path)
            self._allocated = size

    def append(self, record: bytes) -> int:
        """Put a record, for which there is space, after all others; return where it ends.  The guard is held."""
        begin = self._group.appended
        end = begin + len(record)
        self._group.append(record, begin - self._base, end)
        if end - self._base >= self._due:
            self._group.by_caller = True  # for the checkpoint
        self.worker.ring_once()
        return end

    def wait(self, until: int, *, synced: bool = True) -> None:
        """Return once the log is on the disk up to a place, or written.  The guard is not held.

        Raises: PoisonedError; StateError in a signal handler that broke into a commit of this thread.
        """
        synced = synced or self.end - self._group.durable > _UNSYNCED_BYTES_MAX
        with self._group.turn(until, synced) as leads:
            if leads:
                self._commit(synced=synced)

    def make_checkpoint(self) -> None:
        """Make one now.  The guard is not held.

        Raises: FullError, AccessError, and the log has what the pages lack; PoisonedError.
        """
        with self._group.turn(_NEVER):  # nothing is appended up to there, so the block always leads
            self._commit(synced=True, is_due=True)
        if self.delay is not None:
            raise self.delay

    def fail(self, error: BinlogError) -> None:
        """Do nothing more in this store, and say so to all who wait."""
        self._guard.fail(error)

    def stop(self) -> None:
        """Make a checkpoint, and end; if there is no space for it, the log has what the pages lack.

        Raises: PoisonedError.
        """
        self.worker.stop()
        with suppress(FullError, AccessError):
            self.make_checkpoint()

    def _work(self) -> None:
        """Sync what no caller waits for, once it is old enough."""
        try:
            if not self.worker.stopping.wait(_IDLE_SECONDS):
                with self._guard:
                    self.worker.is_rung = False
                self.wait(self.end)
        except BinlogError as error:
            self._guard.fail(error)
        except Exception as error:  # noqa: BLE001 - nobody sees what a thread raises; the next caller does
            self._guard.fail(InternalError(f"in the log: {error!r}"))

    def _commit(self, *, synced: bool, is_due: bool = False) -> None:
        """Write all that is there, sync it, and make a checkpoint if one is due; this thread leads."""
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
        """A checkpoint.  The guard is held."""
        try:
            self.start = self._checkpoint()
        except (FullError, AccessError) as error:
            # The log goes on, for as long as there is space for it.
            self.delay = error
            self._due = self.end - self._base + self._log_bytes // 2
        else:
            self.delay = None
            self._base = self.end - RECORDS_AT
            self._due = self._log_bytes
