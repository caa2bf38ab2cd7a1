"""The log's end: records are put into a buffer, and a thread writes all that is there, with one sync for all who wait.

It is a thread of its own because no signal handler runs in it: an exception between a sync that failed and the line
that looks at it would hide the failure.  It also makes the checkpoints, for then nothing is being written.

Invariants
- What is written is synced before anything is written behind it, where anybody waits for that; so of a log that a power
  cut left only what was written last may lack in parts.
- Places are counted from the opening on, through all generations; `_base` is where the log's first byte would be.
- The mutex is held by whoever appends, by the thread while it takes what is there, and by it during a checkpoint.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from binlog._codec import pack_transaction
from binlog.errors import AccessError, BinlogError, FullError, InternalError, PoisonedError
from binlog.format.pagestore.log import RECORDS_AT, LogStart, PageAction
from binlog.format.pagestore.names import LOG_FILE
from binlog.storage.files import allocate, sync, write_and_sync, write_at
from binlog.storage.once import Once

# What nobody waits for is synced once it is so much, or so old.
_UNSYNCED_BYTES_MAX = 1 << 20
_IDLE_SECONDS = 0.1
_STEP_BYTES = 4 << 20


class _Group(Once):
    """Those who wait for the same; it happens when they need not any more.

    count: of them.  synced: whether one of them waits for the disk.
    """

    __slots__ = ("count", "synced")

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.synced = False


class Ticket(NamedTuple):
    """To wait with until the log is on the disk up to a place, or for a written one in the kernel's hands."""

    until: int
    synced: bool
    group: _Group


class TransactionLog:
    """The log of a generation, and then of the next.

    checkpoint: what begins the next one, called by the log's thread with the mutex held; gives its header.
    durable: up to this place all is on the disk.  end: where the next record goes.  delay: why the last checkpoint that
    could not be made is made later.
    """

    def __init__(
        self,
        folder: str,
        fd: int,
        start: LogStart,
        mutex: threading.Lock,
        log_bytes: int,
        checkpoint: Callable[[], LogStart],
    ) -> None:
        self.path = os.path.join(folder, LOG_FILE)
        self.start = start
        self._fd = fd
        self._mutex = mutex
        self._log_bytes = log_bytes
        self._checkpoint = checkpoint
        self._allocated = os.fstat(fd).st_size
        self._base = 0
        self.end = self.durable = self._written = RECORDS_AT
        self._parts: list[bytes] = []
        self._group = _Group()  # for what is not taken to be written yet
        self._asked = _Group()  # for a checkpoint
        self._failed: list[_Group] = []
        self._due = log_bytes
        self._bell = threading.Lock()
        self._bell.acquire()
        self._stopping = False
        self.failure: PoisonedError | None = None
        self.delay: FullError | AccessError | None = None
        self.group_count = 0
        self._thread = threading.Thread(target=self._run, name="binlog page store", daemon=True)

    def begin(self) -> None:
        """Let it be appended to."""
        self._thread.start()

    def pack(self, tx_id: int, actions: list[PageAction]) -> bytes:
        """The record that would come next.  The mutex is held, up to `append`."""
        at, base = self.end - self._base, self._base
        return pack_transaction(tx_id, self.durable - base, self.start.salt, at, actions)

    def reserve(self, record_bytes: int) -> None:
        """Have space for a record.  The mutex is held.  Raises: FullError; AccessError; PoisonedError."""
        self.check()
        stop = self.end - self._base + record_bytes
        if stop > self._allocated:
            size = max(stop, min(self._allocated + _STEP_BYTES, self._log_bytes))
            allocate(self._fd, self._allocated, size, self.path)
            self._allocated = size

    def append(self, record: bytes) -> int:
        """Put a record, for which there is space, behind all others; where it ends.  The mutex is held."""
        self._parts.append(record)
        self.end += len(record)
        return self.end

    def ticket(self, *, synced: bool) -> Ticket:
        """To wait for all that was appended.  The mutex is held."""
        return self._ticket(self._group, synced=synced)

    def ask_for_checkpoint(self) -> Ticket:
        """To wait for a checkpoint that begins after this.  The mutex is held."""
        return self._ticket(self._asked, synced=True)

    def _ticket(self, group: _Group, *, synced: bool) -> Ticket:
        group.count += 1
        group.synced |= synced
        return Ticket(self.end, synced, group)

    @property
    def has_work(self) -> bool:
        """Whether the thread is to be rung for."""
        return bool(self._parts or self._group.count or self._asked.count)

    def wait(self, ticket: Ticket) -> None:
        """Return once it is so.  The mutex is not held.  Raises: PoisonedError."""
        ticket.group.wait()
        if (self.durable if ticket.synced else self._written) < ticket.until or self.failure is not None:
            self.check()

    def check(self) -> None:
        """Raises: PoisonedError where something failed for good."""
        if self.failure is not None:
            raise PoisonedError(str(self.failure)) from self.failure

    def ring(self) -> None:
        """Have the thread look for work."""
        if self._bell.locked():  # else it rings already
            with suppress(RuntimeError):  # another thread was quicker
                self._bell.release()

    def stop(self) -> None:
        """Make a checkpoint, and end.  Raises: PoisonedError; FullError, and then the log has what the pages lack."""
        if self._thread.ident is None:
            return
        with self._mutex:
            ticket = self.ask_for_checkpoint()
            self._stopping = True
        self.ring()
        self._thread.join()
        self.check()
        if not ticket.group.has_happened:
            raise InternalError("the log of a page store has ended without a word")

    def fail(self, error: BaseException) -> PoisonedError:
        """Append nothing more, and tell so all who wait.  The mutex is held."""
        if self.failure is None:
            self.failure = PoisonedError(f"nothing more is done in this store: {error}")
            self.failure.__cause__ = error
        for group in (*self._failed, self._group, self._asked):
            group.happen()
        self.ring()
        return self.failure

    def _run(self) -> None:
        try:
            while self._write_more():
                pass
        except BaseException as error:  # noqa: BLE001 - nobody sees what a thread raises, and all who append are told
            with self._mutex:
                self.fail(error if isinstance(error, BinlogError) else InternalError(f"in the log: {error!r}"))

    def _write_more(self) -> bool:
        """Wait for something to do, and do it; whether there may be more."""
        is_idle = not self._bell.acquire(timeout=_IDLE_SECONDS if self._written > self.durable else -1)
        with self._mutex:
            self.check()
            parts, self._parts = self._parts, []
            end = self.end
            group, self._group = self._group, _Group()
            stopping = self._stopping
        synced = is_idle or group.synced or end - self.durable > _UNSYNCED_BYTES_MAX
        try:
            self._write(parts, end, synced=synced)
        except BaseException:
            self._failed.append(group)  # who waits is told of the failure
            raise
        group.happen()
        if self._asked.count or end - self._base >= self._due:
            with self._mutex:
                self._begin_anew()
        return not stopping

    def _write(self, parts: list[bytes], end: int, *, synced: bool) -> None:
        at = self._written - self._base
        if parts and synced:
            # One call: between two this thread would stand in line for the interpreter, behind all that it has woken.
            write_and_sync(self._fd, b"".join(parts), at, self.path)
        elif parts:
            write_at(self._fd, b"".join(parts), at, self.path)
        elif synced and self._written > self.durable:
            sync(self._fd, self.path)
        self._written = end
        if synced and self.durable < end:
            self.durable = end
            self.group_count += 1

    def _begin_anew(self) -> None:
        """A checkpoint.  The mutex is held."""
        parts, self._parts = self._parts, []
        self._write(parts, self.end, synced=True)
        asked, self._asked = self._asked, _Group()
        try:
            self.start = self._checkpoint()
        except (FullError, AccessError) as error:
            # The log goes on, for as long as there is space for it.
            self.delay = error
            self._due = self.end - self._base + self._log_bytes // 2
        except BaseException:
            self._asked = asked
            raise
        else:
            self._base = self.end - RECORDS_AT
            self._due = self._log_bytes
        asked.happen()
