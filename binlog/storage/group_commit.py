"""Committing in groups: an open file as the compiled code knows it, and one append through it.

See native/group.c for how writers lead and wait, and native/commit.c for the order of a commit.
"""

from __future__ import annotations

import enum
import errno
import os

from binlog.errors import BinlogError, UnknownOutcomeError
from binlog.format.log_header import LOG_HEADER, Flag, LogHeader, block_seed
from binlog.format.record import LENGTH_BYTES, frame
from binlog.storage.boot import boot_id
from binlog.storage.descriptors import Identity, identity_of
from binlog.storage.failures import NO_SPACE, failure, poisoned
from binlog.storage.locking.locks import busy
from binlog.storage.native import FastPath, address, ffi, lib
from binlog.storage.staging_area import StagingArea
from binlog.storage.waiting.doorbell import Doorbell

# A record of at most so many bytes is framed and copied by the compiled code.
RECORD_BYTES_COPIED = int(lib.BINLOG_COPY_BYTES_MAX) - LENGTH_BYTES
_IDENTITY = slice(LOG_HEADER.offset("magic"), LOG_HEADER.offset("published_tail"))
_NEEDS_SLOW_PATH = int(lib.BINLOG_NEEDS_SLOW_PATH)
_SECONDS_MAX = 10**9


class Mode(enum.IntEnum):
    """How far a record must be when the call that appends it returns; see docs/durability.md."""

    SYNC = lib.BINLOG_SYNC  # on stable storage
    FLUSH = lib.BINLOG_FLUSH  # in the file, and visible to readers
    STAGE = lib.BINLOG_STAGE  # in shared memory: safe from the process's death


class Append:
    """One append, alone or of several records together, and what became of it.  For one thread at a time.

    timeout: seconds to wait for the file's lock; None waits for ever.
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
        """Say what to append.  framed: the records have their lengths; else it is one, without."""
        self._data = data
        request = self.request
        request.data = ffi.from_buffer("uint8_t[]", data)  # `_data` keeps it alive
        request.bytes = len(data)
        request.record_count = record_count
        request.framed = framed
        request.mode = mode

    def stage(self, area: StagingArea | None) -> None:
        """Lay it into the ring, if there is one and it has room, before whoever commits next comes."""
        if area is not None and area.has_ring:
            self.goes_to(area)
            lib.binlog_stage(area.core, self.request, 1)

    def goes_to(self, area: StagingArea | None) -> None:
        """Say where it will be staged, before it is: what ends the call that stages it can take it back then."""
        if self.request.ticket < 0:
            self._area = area

    def keep(self, record: bytes) -> None:
        """Keep the record that the compiled code appends: it may have to be taken back, and written elsewhere."""
        self._data = record

    def withdraw(self) -> bool:
        """Take it back from the ring, or give up waiting for it; False where somebody has taken it."""
        return self._area is None or self.request.ticket < 0 or self._area.take_back(self.request)

    def done(self) -> bool:
        """Whether it lay in the ring and is in the log now: somebody took it along."""
        if self._area is None or self.request.ticket < 0:
            return False
        return bool(lib.binlog_outcome(self._area.core, self.request)) and self.request.outcome == 0

    @property
    def place(self) -> tuple[int, int]:
        """The file's number and where in it the first record lies, once it is done."""
        return self.request.number, self.request.offset

    def framed(self) -> bytes | bytearray | memoryview:
        """The records with their lengths."""
        return self._data if self.request.framed else frame(self._data)


class CommitFile:
    """A log file open for appending.

    fd: its descriptor, which stays the caller's.
    prepare_bytes: the largest step in which space is allocated.
    strict: whether to sync once more after publishing, as in a log that other programs write too.
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
        """Have each commit see that the descriptor, the directory and the name still are what they were.

        at, name: where the file is looked for by name; see Directory.place_of.
        """
        self._name = ffi.new("char[]", os.fsencode(name))
        self.core.place = {
            "device": file.device, "inode": file.inode, "directory": directory_fd, "directory_device": directory.device,
            "directory_inode": directory.inode, "at": at, "name": self._name,
        }  # fmt: skip

    def know(self, header: LogHeader, doorbell: Doorbell) -> None:
        """Take the header, read under the lock, for what the next commit finds unless something happens meanwhile."""
        core = self.core
        core.seed = block_seed(header.uuid, header.number)
        core.epoch = header.epoch
        core.counter = header.confirmed_counter
        core.file_bytes = 0
        core.identity = header.pack()[_IDENTITY]
        core.boot_id = boot_id()
        core.must_queue = bool(header.flags & Flag.FOREIGN_WRITERS)
        core.bell = doorbell.address() or ffi.NULL

    def follow_with(self, index_fd: int) -> None:
        """Write the index from here on; its descriptor stays the caller's.  -1 for none."""
        index = identity_of(index_fd) if index_fd >= 0 else Identity(0, 0)
        self.core.index = {"fd": index_fd, "device": index.device, "inode": index.inode}

    def flush_index(self) -> None:
        """Write what entries are kept for writing together.  The caller holds the file's lock."""
        lib.binlog_index_flush(self.core)

    @property
    def index_keeps(self) -> bool:
        """Whether entries are kept."""
        return bool(self.core.index.fd >= 0 and self.core.index.kept_count)

    @property
    def index_followed(self) -> bool:
        """Whether the index is written; not so any more where something about it is odd."""
        return bool(self.core.index.fd >= 0)

    def append(self, append: Append, area: StagingArea | None, *, locked: bool = False) -> bool | None:
        """Append, alone or in a group; where it is staged already, wait for its outcome.

        locked: the caller holds the file's lock.
        True when done.  False where the file must be looked at under its lock first.  None after a signal.  In both
        nothing was done, but that it may be staged.
        Raises: BusyError once the time limit is reached; FullError; AccessError; PoisonedError; UnknownOutcomeError.
        """
        request, shared = append.request, area.core if area is not None else ffi.NULL
        append.goes_to(area)
        if locked:
            result = lib.binlog_append_locked(self.core, shared, request)
        elif request.ticket >= 0:
            result = lib.binlog_await_outcome(self.core, shared, request)
        else:
            result = lib.binlog_append(self.core, shared, request)
        return self._answer(result, request.step)

    def arm(self, fast_path: FastPath, append: Append, area: StagingArea | None) -> None:
        """Have records go straight to this file, with `append` for what becomes of each."""
        append.file = self
        append.goes_to(area)
        fast_path.arm(address(self.core), address(append.request), append)

    def check_answer(self, append: Append) -> None:
        """Raise the error of an append that failed on the fast path, unless it is only to be gone on with."""
        self._answer(append.request.answer, append.request.step)

    def drain(self, area: StagingArea | None, *, confirm: bool, locked: bool = False) -> bool | None:
        """Commit everything that is staged, in all processes, and with `confirm` have all in the file synced.

        locked: the caller holds the file's lock.  Answers and raises as `append`.
        """
        shared = area.core if area is not None else ffi.NULL
        run = lib.binlog_drain_locked if locked else lib.binlog_drain
        return self._answer(run(self.core, shared, lib.BINLOG_CONFIRM if confirm else 0), self.core.step)

    def commit_written(self, area: StagingArea | None, *, size: int, crc: int, record_count: int) -> bool | None:
        """Commit and confirm `size` bytes that lie behind the tail already, and take Flag.INTENT back with that.

        crc: their CRC-32C.  The caller holds the lock, and has confirmed all that lies before them.
        Answers and raises as `append`.
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
    """The error for a commit that failed with the errno `number` at `step`."""
    if number == errno.ETIMEDOUT:
        return UnknownOutcomeError(f"{path}: whether the record is in the log is not known; look before repeating")
    if step in (lib.BINLOG_STEP_DATA, lib.BINLOG_STEP_SLOT) and number != errno.EIO:
        return failure(number, path, "appending")  # nothing was published, and what is beyond the tail means nothing
    if step == lib.BINLOG_STEP_PUBLISH and number in NO_SPACE:
        return UnknownOutcomeError(f"{path}: the record is on the disk, and could not be published; it may appear")
    if step == 0:
        return failure(number, path, "locking the file or reading its header")  # nothing was begun
    synced = step in (lib.BINLOG_STEP_SYNC, lib.BINLOG_STEP_PUBLISH_SYNC)
    return poisoned(number, path, "a sync" if synced else "a write")


def commit_foreign(fd: int, data: bytes | bytearray | memoryview, offset: int, path: str) -> None:
    """Append to a file that another program made: data, sync, tail, sync, and none of our fields.

    The caller holds the file's lock.  Raises: FullError or AccessError with nothing changed; PoisonedError.
    """
    step = ffi.new("int *")
    buffer = ffi.from_buffer("uint8_t[]", data)
    result = lib.binlog_commit_foreign(fd, buffer, len(data), offset, offset + len(data), step)
    if result != 0:
        raise commit_failure(-result, step[0], path)
