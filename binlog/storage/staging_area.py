"""The shared-memory staging area of a log's directory, in which writers stage: made, joined, left.

Facts relied on:
- shm_overview(7): a name in /dev/shm is one kernel's (or one mount namespace's); what shares only the directory shares
  no staging area, and commits all the same.
- tmpfs(5): a page is allocated when it is first touched; if /dev/shm is full then, touching it is SIGBUS.  So a staging
  area is complete, and its header allocated, before it gets the name by which others find it; whatever only looks at
  one reads it (see native/log/staging_area_file.c).
- link(2): a name appears whole, and never replaces one that is there.

The name and the staging area itself say whose it is: device, inode and UUID together, for a copied directory has the
same UUID, and a new one may get an old inode.
"""

from __future__ import annotations

import enum
import errno
import hashlib
import os
import re
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass, fields

from binlog.storage.descriptors import identity_of, is_open_on
from binlog.storage.file_access import FileAccess, give_access
from binlog.storage.native import FastPath, address, ffi, fork_generation, lib

_ATTEMPTS = 8
_SHARED_MEMORY = "/dev/shm"
_NAME = re.compile(r"binlog-[0-9a-f]{32}")
_DRAFT_NAME = re.compile(r"binlog-[0-9a-f]{32}\.[0-9a-f]{16}")
_AT_FDCWD = -100
# O_NONBLOCK: a FIFO under the name must not hang the opener.
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class Outcome(enum.IntEnum):
    """What became of a group whose leader died."""

    IN_FILE = 0
    STAGED_AGAIN = 1
    UNKNOWN = -errno.ETIMEDOUT


@dataclass(frozen=True, slots=True)
class Note:
    """The leader's note: what it was about to commit, and how far it had come; and the last commit of a group."""

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


_NOTE_FIELDS = tuple(field.name for field in fields(Note))

NOTE_IDLE = int(lib.BINLOG_NOTE_IDLE)
NOTE_GATHERING = int(lib.BINLOG_NOTE_GATHERING)
NOTE_PREPARED = int(lib.BINLOG_NOTE_PREPARED)
NOTE_SLOTTED = int(lib.BINLOG_NOTE_SLOTTED)


class StagingArea:
    """This process's hold on a staging area, with a ring of its own once it has claimed one."""

    _retired = False

    def __init__(self, fd: int, core: object, name: str, uuid: bytes) -> None:
        self.uuid = uuid
        self._fd = fd
        self._name = name
        self._identity = identity_of(fd)
        self._generation = fork_generation()
        self.core = core

    @classmethod
    def join(cls, directory_fd: int, uuid: bytes, access: FileAccess) -> StagingArea | None:
        """The directory's staging area, made where there is none; None where it cannot be had or is not to be trusted.

        access: owner, group and mode of a new one, those of the log's open file.
        """
        status = os.fstat(directory_fd)
        for _ in range(_ATTEMPTS):
            try:
                return cls._join(status, uuid, access)
            except (FileNotFoundError, InterruptedError):
                continue  # its last user removed it since it was opened; or a signal came, and was handled
            except OSError:
                return None  # full, not permitted, not there: writers append directly
        return None

    @classmethod
    def _join(cls, directory: os.stat_result, uuid: bytes, access: FileAccess) -> StagingArea:
        name = area_name(directory, uuid)
        if not os.path.lexists(_SHARED_MEMORY + name):
            _make(name, access, directory, uuid)
        fd = _open(name, access, directory)
        try:
            try:
                _check(lib.binlog_byte_lock_wait(fd, lib.BINLOG_LOCK_INIT))
                if not _leads_to(name, fd):
                    raise FileNotFoundError(errno.ENOENT, "removed")
                result = lib.binlog_area_check(fd, directory.st_dev, directory.st_ino, uuid)
                if result == -errno.EPROTO and _remove_unused(fd, name):
                    raise FileNotFoundError(errno.ENOENT, "another version's, or never finished, and not in use")
                _check(result)
                core = _map(fd)
            finally:
                # Closing does not free it for as long as there is a mapping, which an exception may keep.
                lib.binlog_byte_unlock(fd, lib.BINLOG_LOCK_INIT)
        except BaseException:
            lib.binlog_fd_close(fd)
            raise
        return cls(fd, core, name, uuid)

    def claim(self) -> bool:
        """Take a ring for this writer, under the open log file's lock and with nothing staged by the dead.

        False where none is to be had, or where the staging area lost its name since it was joined: for as long as
        nobody has a ring in it, it counts as unused, and whoever makes another one removes it.
        """
        try:
            while (result := lib.binlog_byte_lock_wait(self._fd, lib.BINLOG_LOCK_INIT)) == -errno.EINTR:
                pass
            return result == 0 and self.linked and bool(lib.binlog_area_claim(self.core) == 0)
        finally:
            lib.binlog_byte_unlock(self._fd, lib.BINLOG_LOCK_INIT)

    @property
    def has_ring(self) -> bool:
        """Whether this writer can stage."""
        return bool(lib.binlog_area_ring(self.core) >= 0)

    @property
    def linked(self) -> bool:
        """Whether others still find the staging area by its name."""
        return _leads_to(self._name, self._fd)

    @property
    def intact(self) -> bool:
        """Whether its descriptor, and so its locks, were not closed behind our back."""
        return is_open_on(self._fd, self._identity)

    def arm(self, fast_path: FastPath) -> None:
        """Have records that nobody waits for be laid into the ring, once it has one, until it is retired."""
        fast_path.stage_in(address(self.core), self)

    def take_back(self, own: object) -> bool:
        """Give up waiting for what lies in the ring as a binlog_append says; False where somebody has taken it."""
        if self._generation != fork_generation():
            return True  # in a forked child there is no ring
        return bool(lib.binlog_abandon(self.core, own))

    def note(self) -> Note:
        """What the last leader was doing, as it left it."""
        note = ffi.new("struct binlog_note *")
        lib.binlog_area_note(self.core, note)
        return Note(**{name: int(getattr(note, name)) for name in _NOTE_FIELDS})

    def resolve(self, outcome: Outcome) -> None:
        """Give the entries of a dead leader's group their outcome.  The open log file's lock is held."""
        lib.binlog_area_resolve(self.core, outcome)

    def fail(self, number: int, error: int) -> None:
        """Tell every process that a write or sync failed in the file with that number; its lock is held."""
        lib.binlog_area_fail(self.core, number, error)

    def failed(self, number: int) -> int:
        """The errno of a write or sync that failed in the file with that number, 0 for none."""
        return int(lib.binlog_area_failed(self.core, number))

    def forgive(self) -> None:
        """The log was opened anew, and the file that failed is sealed or closed.  The open file's lock is held."""
        lib.binlog_area_forgive(self.core)

    @property
    def alone(self) -> bool:
        """Whether no other writer has a ring."""
        return bool(lib.binlog_area_alone(self._fd))

    def drop(self) -> None:
        """Forget everything that is staged: it is of another history of the log.  Under the open log file's lock."""
        lib.binlog_area_drop(self.core)

    def wake(self) -> None:
        """Wake those who have their outcome by now.  After unlocking: they would only wait for us."""
        lib.binlog_area_wake(self.core)

    def staged_bytes(self) -> int:
        """Bytes in all rings that are not in the log yet."""
        return int(lib.binlog_area_staged(self.core))

    def retire(self) -> None:
        """Stage nothing more.  The ring is given back with the last reference, for a thread may still wait in it."""
        if self._generation == fork_generation():
            lib.binlog_area_retire(self.core)
            self._retired = True

    def __del__(self) -> None:
        # What is not left stays for the next.  The descriptor is closed with `core`, in one call of C.
        if self._retired and self._generation == fork_generation() and self.intact:
            self._leave()

    def _leave(self) -> None:
        """Give the ring back, and remove the staging area where nobody else has one and nothing is staged."""
        try:
            if lib.binlog_byte_lock(self._fd, lib.BINLOG_LOCK_INIT) != 0:
                return  # somebody joins
            lib.binlog_area_release(self.core)
            if lib.binlog_area_alone(self._fd) and self.staged_bytes() == 0 and self.linked:
                with suppress(FileNotFoundError):
                    os.unlink(_SHARED_MEMORY + self._name)
        finally:
            lib.binlog_byte_unlock(self._fd, lib.BINLOG_LOCK_INIT)


@dataclass(frozen=True, slots=True)
class StagingAreaUsage:
    """What a staging area holds: bytes staged and not in the log yet; what it takes of memory."""

    staged_bytes: int
    memory_bytes: int


def staging_area_usage(directory_fd: int, uuid: bytes) -> StagingAreaUsage | None:
    """What the directory's staging area holds; None where there is none, or it is not ours to look at.  Changes
    nothing."""
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
    """Remove our user's staging areas that nobody uses and in which nothing is staged: their last users were killed.

    A process that is about to join one finds that the name is gone, and makes another one.
    """
    try:
        names = os.listdir(_SHARED_MEMORY)
    except OSError:
        return  # shared memory lies elsewhere, or may not be listed
    for name in names:
        with suppress(OSError):
            if _NAME.fullmatch(name):
                _sweep_one(f"/{name}")
            elif _DRAFT_NAME.fullmatch(name) and os.lstat(f"{_SHARED_MEMORY}/{name}").st_uid == os.geteuid():
                os.unlink(f"{_SHARED_MEMORY}/{name}")  # a maker that is still alive makes another one


def _sweep_one(name: str) -> None:
    # Registered, for another thread may fork meanwhile, and the child's copy would hold the lock.
    fd = int(_check(lib.binlog_fd_open(_AT_FDCWD, os.fsencode(_SHARED_MEMORY + name), os.O_RDWR | _FLAGS, ffi.NULL)))
    try:
        if os.fstat(fd).st_uid == os.geteuid() and lib.binlog_byte_lock(fd, lib.BINLOG_LOCK_INIT) == 0:
            _remove_unused(fd, name)
    finally:
        lib.binlog_fd_close(fd)


def area_name(directory: os.stat_result, uuid: bytes) -> str:
    """What a directory's staging area is called: `/binlog-` and 32 hexadecimal digits."""
    key = b"%d %d %s" % (directory.st_dev, directory.st_ino, uuid)
    return "/binlog-" + hashlib.sha256(key).hexdigest()[:32]


def _remove_unused(fd: int, name: str) -> bool:
    """Remove the staging area if no writer has a ring in it and nothing is staged; the lock on BINLOG_LOCK_INIT is
    held."""
    unused = os.fstat(fd).st_size == 0 or (bool(lib.binlog_area_alone(fd)) and lib.binlog_area_staged_in(fd) == 0)
    if unused and _leads_to(name, fd):
        os.unlink(_SHARED_MEMORY + name)
    return unused


def _leads_to(name: str, fd: int) -> bool:
    """Whether the name leads to what `fd` was opened of."""
    try:
        return os.path.samestat(os.lstat(_SHARED_MEMORY + name), os.fstat(fd))
    except FileNotFoundError:
        return False


def _make(name: str, access: FileAccess, directory: os.stat_result, uuid: bytes) -> None:
    """Make the directory's staging area under a name of its own, and give it its name, unless another process did,
    last."""
    draft = f"{name}.{secrets.token_hex(8)}"
    # By its path, as every other call here: one that shm_open(3) made would be looked for by another name under a
    # library that changes the names of shared memory, and the directory would have no staging area.
    fd = os.open(_SHARED_MEMORY + draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
    try:
        give_access(fd, access, name)
        _check(lib.binlog_area_make(fd, directory.st_dev, directory.st_ino, uuid))
        with suppress(FileExistsError):
            os.link(_SHARED_MEMORY + draft, _SHARED_MEMORY + name)
    finally:
        os.close(fd)
        with suppress(FileNotFoundError):
            os.unlink(_SHARED_MEMORY + draft)


def _open(name: str, access: FileAccess, directory: os.stat_result) -> int:
    """A descriptor registered against forks.  Raises: OSError, also where a stranger may have planted the name."""
    fd = int(_check(lib.binlog_fd_open(_AT_FDCWD, os.fsencode(_SHARED_MEMORY + name), os.O_RDWR | _FLAGS, ffi.NULL)))
    try:
        status = os.fstat(fd)
        owners = (os.geteuid(), directory.st_uid, access.owner)
        strange = status.st_uid not in owners or status.st_mode & 0o7777 & ~access.mode
        if strange or not stat.S_ISREG(status.st_mode):
            raise PermissionError(errno.EACCES, "the staging area is a stranger's")
    except BaseException:
        lib.binlog_fd_close(fd)
        raise
    return fd


def _map(fd: int) -> object:
    """The staging area, mapped; what this returns closes the descriptor when it goes."""
    result = ffi.new("int *")
    core = lib.binlog_area_map(fd, result)
    _check(result[0])
    return ffi.gc(core, lib.binlog_area_unmap)


def _check(result: int) -> int:
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result
