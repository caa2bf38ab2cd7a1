"""The log's group commit: an open log file as the C knows it, and one append to it.

native/log/group.c documents how writers lead and wait, and native/log/commit.c the order of a commit.
"""

from __future__ import annotations

import errno
import os
from typing import Any

from binlog.errors import BinlogError, UnknownOutcomeError
from binlog.format.log_header import LOG_HEADER, Flag, LogHeader, block_seed
from binlog.format.record import LENGTH_BYTES, frame
from binlog.storage.boot import boot_id
from binlog.storage.descriptors import Identity, identity_of
from binlog.storage.failures import NO_SPACE, failure, poisoned
from binlog.storage.locking.locks import busy
from binlog.storage.mode import Mode
from binlog.storage.native import FastPath, address, ffi, lib
from binlog.storage.staging_area import StagingArea
from binlog.storage.waiting.doorbell import Doorbell

# The C frames and copies records up to this size.
RECORD_BYTES_COPIED = int(lib.BINLOG_COPY_BYTES_MAX) - LENGTH_BYTES
_IDENTITY = slice(LOG_HEADER.offset("magic"), LOG_HEADER.offset("published_tail"))
_NEEDS_SLOW_PATH = int(lib.BINLOG_NEEDS_SLOW_PATH)
_SECONDS_MAX = 10**9


class Append:
    """An append of one or several records, with its outcome.  For one thread at a time.

    timeout: seconds to wait for the file's lock; None waits forever.
    """

    _area: StagingArea | None = None
    file: CommitFile | None = None

    def __init__(self, *, timeout: float | None = None) -> None:
        self.request = ffi.new("struct binlog_append *")
        self.request.timeout_ns = -1 if timeout is None else int(min(max(timeout, 0), _SECONDS_MAX) * 1e9)
        self.request.ticket = -1
        self._data: bytes | bytearray | memoryview = b""

    def __del__(self) -> None:
        self.withdraw()

    def fill(self, data: bytes | bytearray | memoryview, record_count: int, mode: Mode, *, framed: bool) -> None:
        """Set the records.  framed: `data` contains the records' lengths; else it is one record without."""
        self._data = data
        request = self.request
        request.data = ffi.from_buffer("uint8_t[]", data)  # `_data` keeps it alive
        request.bytes = len(data)
        request.record_count = record_count
        request.framed = framed
        request.mode = mode

    def stage(self, area: StagingArea | None) -> bool:
        """Copy the records to the writer's ring, for the next leader to commit; return False if there is no room."""
        if area is None or not area.has_ring:
            return False
        self.set_area(area)
        return bool(lib.binlog_stage(area.core, self.request, 1) >= 0)

    def set_area(self, area: StagingArea | None) -> None:
        """Set the staging area before staging, so that an exception that ends the staging call can withdraw it."""
        if self.request.ticket < 0:
            self._area = area

    def keep(self, record: bytes) -> None:
        """Keep the record that the C appends; it may have to be withdrawn, and appended to another file."""
        self._data = record

    def withdraw(self) -> bool:
        """Remove it from the ring, or stop waiting for it; return False if a leader has taken it."""
        return self._area is None or self.request.ticket < 0 or self._area.take_back(self.request)

    def done(self) -> bool:
        """Return whether it was staged and a leader has committed it."""
        return self.has_outcome() and self.request.outcome == 0

    def has_outcome(self) -> bool:
        """Return whether it was staged and a leader has committed it, or failed to.  True once."""
        if self._area is None or self.request.ticket < 0:
            return False
        return bool(lib.binlog_outcome(self._area.core, self.request))

    def check_outcome(self, path: str) -> None:
        """Raise the error of the commit, if it failed, after `has_outcome`.  path: the log's, for the message."""
        if self.request.outcome != 0:
            raise commit_failure(-self.request.outcome, self.request.step, path)

    @property
    def place(self) -> tuple[int, int]:
        """The file's number, and the offset of the first record in it, after the append is done."""
        return self.request.number, self.request.offset

    def framed(self) -> bytes | bytearray | memoryview:
        """Return the records with their lengths."""
        return self._data if self.request.framed else frame(self._data)


class CommitFile:
    """A log file open for appending.

    fd: its descriptor, which the caller closes.
    prepare_bytes: the largest step in which space is allocated.
    strict: sync again after publishing, as in a log that other programs write too.
    """

    def __init__(self, fd: int, number: int, path: str, *, prepare_bytes: int, strict: bool) -> None:
        self._path = path
        self.core = ffi.gc(ffi.new("struct binlog_file *"), lib.binlog_file_free)
        self.core.fd = fd
        self.core.number = number
        self.core.prepare_bytes = prepare_bytes
        self.core.strict = strict
        if lib.binlog_file_init(self.core) != 0:
            raise MemoryError("no memory for a group of records")

    def watch(self, file: Identity, directory_fd: int, directory: Identity, at: int, name: str) -> None:
        """Make each commit check that the descriptor, the directory and the name still belong to the same file.

        at, name: the file's name, and the directory that it is relative to; see LogDirectory.lookup_place.
        """
        self._name = ffi.new("char[]", os.fsencode(name))
        self.core.place = {
            "device": file.device, "inode": file.inode, "directory": directory_fd, "directory_device": directory.device,
            "directory_inode": directory.inode, "at": at, "name": self._name,
        }  # fmt: skip

    def remember_header(self, header: LogHeader, doorbell: Doorbell) -> None:
        """Remember the header, read under the lock, so that the next commit can detect a change by another process."""
        core = self.core
        core.seed = block_seed(header.uuid, header.number)
        core.epoch = header.epoch
        core.counter = header.confirmed_counter
        core.file_bytes = 0
        core.identity = header.pack()[_IDENTITY]
        core.boot_id = boot_id()
        core.must_queue = bool(header.flags & Flag.FOREIGN_WRITERS)
        core.bell = doorbell.address() or ffi.NULL

    def count_in(self, counters: Any) -> None:
        """Count what this writer leads, and its waits, in a `struct binlog_counters`."""
        self._counters = counters  # keeps it alive
        self.core.counters = counters

    def write_index_to(self, index_fd: int) -> None:
        """Write the index with each commit from now on.  index_fd: its descriptor, which the caller closes; -1 for
        none."""
        index = identity_of(index_fd) if index_fd >= 0 else Identity(0, 0)
        self.core.index = {"fd": index_fd, "device": index.device, "inode": index.inode}

    def flush_index(self) -> None:
        """Write the index entries that are collected in memory.  The caller holds the file's lock."""
        lib.binlog_index_flush(self.core)

    @property
    def has_unwritten_entries(self) -> bool:
        """Whether index entries are collected in memory."""
        return bool(self.core.index.fd >= 0 and self.core.index.kept_count)

    @property
    def writes_index(self) -> bool:
        """Whether commits write the index; they stop if something is wrong with it."""
        return bool(self.core.index.fd >= 0)

    def append(self, append: Append, area: StagingArea | None, *, locked: bool = False) -> bool | None:
        """Append, alone or in a group; if it is staged already, wait for its outcome.

        locked: the caller holds the file's lock.
        Returns True when it is done.  Returns False if the caller must first check the file under its lock, and None
        after a signal; in both cases nothing was done, but the records may be staged.
        Raises: BusyError at the timeout; FullError; AccessError; PoisonedError; UnknownOutcomeError.
        """
        request, shared = append.request, area.core if area is not None else ffi.NULL
        append.set_area(area)
        if locked:
            result = lib.binlog_append_locked(self.core, shared, request)
        elif request.ticket >= 0:
            result = lib.binlog_await_outcome(self.core, shared, request)
        else:
            result = lib.binlog_append(self.core, shared, request)
        return self._answer(result, request.step)

    def await_staged(self, area: StagingArea, timeout: float) -> bool:
        """Wait until everything that this writer has staged has its outcome, and lead if necessary.

        Returns False if the caller must first check the file under its lock.  After `timeout` seconds it returns
        True in any case.  Raises: as `append`, but BusyError.
        """
        waiting = Append(timeout=timeout)
        while (result := lib.binlog_await_staged(self.core, area.core, waiting.request)) == -errno.EINTR:
            pass
        return True if result == -errno.EBUSY else bool(self._answer(result, self.core.step))

    def arm(self, fast_path: FastPath, append: Append, area: StagingArea | None) -> None:
        """Let the fast path append to this file, with `append` as the request that it fills in."""
        append.file = self
        append.set_area(area)
        fast_path.arm(address(self.core), address(append.request), append)

    def check_answer(self, append: Append) -> None:
        """Raise the error of an append that failed on the fast path; return if the slow path must resume it."""
        self._answer(append.request.answer, append.request.step)

    def drain(self, area: StagingArea | None, *, confirm: bool, locked: bool = False) -> bool | None:
        """Commit everything that all processes have staged.  confirm: sync everything in the file.

        locked: the caller holds the file's lock.
        Returns and raises as `append`.
        """
        shared = area.core if area is not None else ffi.NULL
        run = lib.binlog_drain_locked if locked else lib.binlog_drain
        return self._answer(run(self.core, shared, lib.BINLOG_CONFIRM if confirm else 0), self.core.step)

    def commit_written(self, area: StagingArea | None, *, size: int, crc: int, record_count: int) -> bool | None:
        """Commit and confirm `size` bytes that are already written after the tail, and clear Flag.INTENT in the
        same write.

        crc: their CRC-32C.  The caller holds the lock, and has confirmed everything before them.
        Returns and raises as `append`.
        """
        shared = area.core if area is not None else ffi.NULL
        result = lib.binlog_commit_written(self.core, shared, size, crc, record_count)
        return self._answer(result, self.core.step)

    def _answer(self, result: int, step: int) -> bool | None:
        if result == 0:
            return True
        if result == _NEEDS_SLOW_PATH:
            return False
        if result == -errno.EINTR:
            return None
        if result == -errno.EBUSY:
            raise busy(self.core.fd, self._path)
        raise commit_failure(-result, step, self._path)


def commit_failure(number: int, step: int, path: str) -> BinlogError:
    """Return the error for an errno of a commit.  step: in which it failed."""
    if number == errno.ETIMEDOUT:
        return UnknownOutcomeError(
            f"{path}: the record may or may not be in the log; read the log before you append it again"
        )
    if step in (lib.BINLOG_STEP_DATA, lib.BINLOG_STEP_SLOT) and number != errno.EIO:
        return failure(number, path, "appending")  # nothing was published, and bytes beyond the tail mean nothing
    if step == lib.BINLOG_STEP_PUBLISH and number in NO_SPACE:
        return UnknownOutcomeError(f"{path}: the record is on the disk, and could not be published; it may appear")
    if step == 0:
        return failure(number, path, "locking the file or reading its header")  # the commit had not begun
    synced = step in (lib.BINLOG_STEP_SYNC, lib.BINLOG_STEP_PUBLISH_SYNC)
    return poisoned(number, path, "a sync" if synced else "a write")


def commit_foreign(fd: int, data: bytes | bytearray | memoryview, offset: int, path: str) -> None:
    """Append to a file that another program made: write the data, sync, write the tail, sync.

    Such a file has none of our header fields.  The caller holds its lock.
    Raises: FullError or AccessError, with nothing changed; PoisonedError.
    """
    step = ffi.new("int *")
    buffer = ffi.from_buffer("uint8_t[]", data)
    result = lib.binlog_commit_foreign(fd, buffer, len(data), offset, offset + len(data), step)
    if result != 0:
        raise commit_failure(-result, step[0], path)
