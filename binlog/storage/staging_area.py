"""The staging area of a log's directory: shared memory in which writers stage records for the next leader.

Facts relied on:
- shm_overview(7): a name in /dev/shm belongs to one kernel, or one mount namespace.  Writers that share only the
  directory have no common staging area, and commit without one.
- tmpfs(5): a page is allocated at its first touch, which raises SIGBUS if /dev/shm is full.  So a staging area is
  complete, and its header allocated, before it gets the name by which others find it.  A process that only inspects one
  reads it with read(2) (see native/log/staging_area_file.c).
- link(2): a name appears whole, and never replaces an existing one.

The name and the header contain the directory's device and inode and the log's UUID.  All three are needed: a copied
directory has the same UUID, and a new one may get the inode of a removed one.
"""

from __future__ import annotations

import enum
import errno
import os
import re
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar, NamedTuple

from binlog.storage.descriptors import AT_FDCWD, identity_of, is_open_on
from binlog.storage.file_access import FileAccess, give_access
from binlog.storage.native import FastPath, address, ffi, fork_generation, lib

_ATTEMPTS = 8
_SHARED_MEMORY = "/dev/shm"
_NAME = re.compile(r"binlog-[0-9a-f]+-[0-9a-f]+-[0-9a-f]{32}")
_UNFINISHED_NAME = re.compile(_NAME.pattern + r"\.[0-9a-f]{16}")
# O_NONBLOCK: a FIFO under the name must not hang the opener.
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Outcome(enum.IntEnum):
    """The outcome of a group whose leader died."""

    IN_FILE = 0
    STAGED_AGAIN = 1
    UNKNOWN = -errno.ETIMEDOUT


class Note(NamedTuple):
    """The leader's note: the group that it was committing, its progress, and the last committed group."""

    state: int
    number: int
    counter: int
    nonce: int
    offset: int
    bytes: int
    crc: int
    last_number: int
    last_counter: int
    last_nonce: int


NOTE_IDLE = int(lib.BINLOG_NOTE_IDLE)
NOTE_GATHERING = int(lib.BINLOG_NOTE_GATHERING)
NOTE_PREPARED = int(lib.BINLOG_NOTE_PREPARED)
NOTE_SLOTTED = int(lib.BINLOG_NOTE_SLOTTED)


class StagingArea:
    """A staging area that this process has joined.  A writer can stage after it has claimed a ring."""

    _retired = False
    # The mapping of each area, until `__del__` has run: the garbage collector finalizes the objects of a cycle in any
    # order, and would unmap the area first.
    _cores: ClassVar[dict[int, object]] = {}

    def __init__(self, fd: int, core: object, name: str, uuid: bytes) -> None:
        self.uuid = uuid
        self._fd = fd
        self._name = name
        self._identity = identity_of(fd)
        self._generation = fork_generation()
        self.core = self._cores[id(self)] = core

    @classmethod
    def join(cls, directory_fd: int, uuid: bytes, access: FileAccess) -> StagingArea | None:
        """Join the directory's staging area, or make it if it does not exist.

        access: owner, group and mode of a new one: those of the log's open file.
        Returns None if there can be none, or if its owner or mode are not to be trusted; then writers append directly.
        """
        status = os.fstat(directory_fd)
        for _ in range(_ATTEMPTS):
            try:
                return cls._join(status, uuid, access)
            except (FileNotFoundError, InterruptedError):
                continue  # its last user removed it after we opened it, or a signal handler ran
            except OSError:
                return None  # /dev/shm is full, forbidden or missing
        return None

    @classmethod
    def _join(cls, directory: os.stat_result, uuid: bytes, access: FileAccess) -> StagingArea:
        name = area_name(directory, uuid)
        if not os.path.lexists(_SHARED_MEMORY + name):
            _make(name, access, directory, uuid)
        opened = _not_open()
        try:
            fd = _open(name, opened)
            _check_owner(os.fstat(fd), access, directory)
            try:
                _check(lib.binlog_byte_lock_wait(fd, lib.BINLOG_LOCK_INIT))
                if not _leads_to(name, fd):
                    raise FileNotFoundError(errno.ENOENT, "removed")
                result = lib.binlog_area_check(fd, directory.st_dev, directory.st_ino, uuid)
                if result == -errno.EPROTO and _remove_unused(fd, name):
                    raise FileNotFoundError(errno.ENOENT, "of another version, or unfinished, and not in use")
                _check(result)
                core = _map(fd)
            finally:
                # Closing `fd` does not free the lock while the mapping exists, which an exception may keep alive.
                lib.binlog_byte_unlock(fd, lib.BINLOG_LOCK_INIT)
        except BaseException:
            lib.binlog_fd_close_serial(*opened)
            raise
        return cls(fd, core, name, uuid)

    def claim(self) -> bool:
        """Take a ring for this writer; return False if no ring is free.

        It also returns False if the staging area has lost its name.  Until a writer has a ring, the area counts as
        unused, and another process may remove it.
        The caller holds the open log file's lock, and has resolved the groups of dead leaders.
        """
        try:
            while (result := lib.binlog_byte_lock_wait(self._fd, lib.BINLOG_LOCK_INIT)) == -errno.EINTR:
                pass
            return result == 0 and self.has_name and bool(lib.binlog_area_claim(self.core) == 0)
        finally:
            lib.binlog_byte_unlock(self._fd, lib.BINLOG_LOCK_INIT)

    @property
    def has_ring(self) -> bool:
        """Whether this writer has a ring, and so can stage."""
        return bool(lib.binlog_area_ring(self.core) >= 0)

    @property
    def has_name(self) -> bool:
        """Whether the staging area still has its name, so that others find it."""
        return _leads_to(self._name, self._fd)

    @property
    def intact(self) -> bool:
        """Whether its descriptor is still open.  If the program closed it, the locks are gone."""
        return is_open_on(self._fd, self._identity)

    def arm(self, fast_path: FastPath) -> None:
        """Let the fast path stage records in Mode.STAGE, from when the writer has a ring until it is retired."""
        fast_path.stage_in(address(self.core), self)

    def take_back(self, own: object) -> bool:
        """Withdraw the staged records of a `struct binlog_append`; return False if a leader has taken them."""
        if self._generation != fork_generation():
            return True  # a forked child has no ring
        return bool(lib.binlog_abandon(self.core, own))

    def note(self) -> Note:
        """Return the note of the last leader."""
        note = ffi.new("struct binlog_note *")
        lib.binlog_area_note(self.core, note)
        return Note(**{name: int(getattr(note, name)) for name in Note._fields})

    def resolve(self, outcome: Outcome) -> None:
        """Set the outcome of a dead leader's group.  The caller holds the open log file's lock."""
        lib.binlog_area_resolve(self.core, outcome)

    def fail(self, number: int, error: int) -> None:
        """Let all processes know that a write or sync of a file failed.  The caller holds the file's lock."""
        lib.binlog_area_fail(self.core, number, error)

    def failed(self, number: int) -> int:
        """Return the errno of a failed write or sync of a file, 0 for none."""
        return int(lib.binlog_area_failed(self.core, number))

    def clear_failure(self) -> None:
        """Clear the failure: the file was closed, or its close was written again.  The caller holds the file's lock."""
        lib.binlog_area_forgive(self.core)

    @property
    def is_only_user(self) -> bool:
        """Whether no other writer has a ring."""
        return bool(lib.binlog_area_alone(self._fd))

    def drop(self) -> None:
        """Discard all staged records: they belong to another history of the log.  The caller holds the file's lock."""
        lib.binlog_area_drop(self.core)

    def wake(self) -> None:
        """Wake the waiters that have an outcome.  Call it after unlocking, because some of them will lock the file."""
        lib.binlog_area_wake(self.core)

    def staged_bytes(self) -> int:
        """Return the bytes in all rings that are not in the log yet."""
        return int(lib.binlog_area_staged(self.core))

    def retire(self) -> None:
        """Stop staging.  The ring is freed with the last reference, because another thread may still wait in it."""
        if self._generation == fork_generation():
            lib.binlog_area_retire(self.core)
            self._retired = True

    def __del__(self) -> None:
        # A ring that was not retired stays for the next writer.  `core` closes the descriptor, in one call of C.
        try:
            if self._retired and self._generation == fork_generation() and self.intact:
                self._leave()
        finally:
            self._cores.pop(id(self), None)

    def _leave(self) -> None:
        """Free the ring, and remove the staging area if no other writer has one and nothing is staged."""
        try:
            if lib.binlog_byte_lock(self._fd, lib.BINLOG_LOCK_INIT) != 0:
                return  # another process is joining
            lib.binlog_area_release(self.core)
            if lib.binlog_area_alone(self._fd) and self.staged_bytes() == 0 and self.has_name:
                with suppress(FileNotFoundError):
                    os.unlink(_SHARED_MEMORY + self._name)
        finally:
            lib.binlog_byte_unlock(self._fd, lib.BINLOG_LOCK_INIT)


class StagingAreaUsage(NamedTuple):
    """How full a staging area is.

    staged_bytes: not in the log yet.  memory_bytes: allocated in /dev/shm.
    """

    staged_bytes: int
    memory_bytes: int


def staging_area_usage(directory_fd: int, uuid: bytes) -> StagingAreaUsage | None:
    """Return how full the directory's staging area is; None if it does not exist or may not be read."""
    directory = os.fstat(directory_fd)
    try:
        fd = os.open(_SHARED_MEMORY + area_name(directory, uuid), os.O_RDONLY | _FLAGS)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if status.st_uid not in (os.geteuid(), directory.st_uid):
            return None
        if lib.binlog_area_check(fd, directory.st_dev, directory.st_ino, uuid) != 0:
            return None
        return StagingAreaUsage(int(_check(lib.binlog_area_staged_in(fd))), 512 * status.st_blocks)
    except OSError:
        return None
    finally:
        os.close(fd)


def sweep() -> None:
    """Remove the user's staging areas that are empty and unused, because their last users were killed.

    A process that is joining one notices that the name is gone, and makes another.
    """
    try:
        names = os.listdir(_SHARED_MEMORY)
    except OSError:
        return  # /dev/shm does not exist, or may not be listed
    for name in names:
        with suppress(OSError):
            if _NAME.fullmatch(name):
                _sweep_one(f"/{name}")
            elif _UNFINISHED_NAME.fullmatch(name) and os.lstat(f"{_SHARED_MEMORY}/{name}").st_uid == os.geteuid():
                os.unlink(f"{_SHARED_MEMORY}/{name}")  # if its maker still lives, it makes another one


def _sweep_one(name: str) -> None:
    opened = _not_open()
    try:
        fd = _open(name, opened)
        if os.fstat(fd).st_uid == os.geteuid() and lib.binlog_byte_lock(fd, lib.BINLOG_LOCK_INIT) == 0:
            _remove_unused(fd, name)
    finally:
        lib.binlog_fd_close_serial(*opened)


def area_name(directory: os.stat_result, uuid: bytes) -> str:
    """Return the name of a directory's staging area: `/binlog-DEVICE-INODE-UUID`, in hexadecimal digits."""
    return f"/binlog-{directory.st_dev:x}-{directory.st_ino:x}-{uuid.hex()}"


def _remove_unused(fd: int, name: str) -> bool:
    """Remove the staging area if it is empty and no writer has a ring; return whether it is unused.

    The caller holds the lock on BINLOG_LOCK_INIT.
    """
    unused = os.fstat(fd).st_size == 0 or (bool(lib.binlog_area_alone(fd)) and lib.binlog_area_staged_in(fd) == 0)
    if unused and _leads_to(name, fd):
        os.unlink(_SHARED_MEMORY + name)
    return unused


def _leads_to(name: str, fd: int) -> bool:
    """Return whether the name belongs to the file that `fd` is open on."""
    try:
        return os.path.samestat(os.lstat(_SHARED_MEMORY + name), os.fstat(fd))
    except FileNotFoundError:
        return False


def _make(name: str, access: FileAccess, directory: os.stat_result, uuid: bytes) -> None:
    """Make the directory's staging area under a temporary name, then link it to its name.

    Does nothing more if another process linked one first.
    """
    unfinished = f"{name}.{os.urandom(8).hex()}"
    # By its path, as in every other call here.  Some preloaded libraries change the names that shm_open(3) uses, and
    # then the name would not be found.
    fd = os.open(_SHARED_MEMORY + unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
    try:
        give_access(fd, access, name)
        _check(lib.binlog_area_make(fd, directory.st_dev, directory.st_ino, uuid))
        with suppress(FileExistsError):
            os.link(_SHARED_MEMORY + unfinished, _SHARED_MEMORY + name)
    finally:
        os.close(fd)
        with suppress(FileNotFoundError):
            os.unlink(_SHARED_MEMORY + unfinished)


def _not_open() -> Sequence[int]:
    """Return the place for a descriptor and its serial (native/shared/fork.c), with those of no descriptor."""
    opened: Sequence[int] = ffi.new("int64_t[2]", [-1, 0])
    return opened


def _open(name: str, opened: Sequence[int]) -> int:
    """Open a staging area, and return the descriptor.  Raises: OSError.

    opened: gets the descriptor and its serial in the same call, so that the caller can close it although a signal
    handler raised.  A forked child closes it at once, so that its copy does not hold the lock.
    """
    return int(_check(lib.binlog_fd_open(AT_FDCWD, os.fsencode(_SHARED_MEMORY + name), os.O_RDWR | _FLAGS, opened)))


def _check_owner(status: os.stat_result, access: FileAccess, directory: os.stat_result) -> None:
    """Raise PermissionError if another user may have planted the staging area."""
    owners = (os.geteuid(), directory.st_uid, access.owner)
    strange = status.st_uid not in owners or status.st_mode & 0o7777 & ~access.mode
    if strange or not stat.S_ISREG(status.st_mode):
        raise PermissionError(errno.EACCES, "the staging area has an unexpected owner or mode")


def _map(fd: int) -> object:
    """Map the staging area; the returned object closes the descriptor when it is freed."""
    result = ffi.new("int *")
    core = lib.binlog_area_map(fd, result)
    _check(result[0])
    return ffi.gc(core, lib.binlog_area_unmap)


def _check(result: int) -> int:
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result
