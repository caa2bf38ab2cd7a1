"""Opening, reading, making and naming files, relative to a directory's descriptor.

Facts relied on:
- openat(2): a name relative to a descriptor cannot be led elsewhere by a rename above it.
- open(2), O_NOFOLLOW: a symbolic link planted under a file's name is refused.
- rename(2): a name appears whole.
- fsync(2): a new name is durable only once its directory is synced.
- fallocate(2): space given in advance makes a later sync cheaper, for the file's size does not change.

What the bytes of a log file are read from: a file of its own, or its archive.
"""

from __future__ import annotations

import enum
import errno
import os
import stat
from contextlib import suppress
from typing import Protocol

from binlog.errors import AccessError, BinlogError, CorruptError, NotFoundError
from binlog.storage.failures import failure, own_errors, poisoned, write_failure
from binlog.storage.file_access import (
    DIRECTORY_MODE,
    FileAccess,
    access_beside,
    access_like,
    check_can_give,
    give_access,
    give_directory_access,
)
from binlog.storage.native import CommitGroup, ffi, lib, read_cached


class DecompressedFile(Protocol):
    """The bytes of a log file that are not in a file of their own; see archive_reader.py."""

    @property
    def file_bytes(self) -> int:
        """How many there are."""

    def read(self, size: int, offset: int) -> bytes:
        """As `files.read_at`."""

    def frame_start(self, offset: int) -> int:
        """Where the part starts that holds an offset, of those that are had as a whole or not at all."""

    def frame_end(self, offset: int) -> int:
        """Where that part ends: at a record's end."""


ByteSource = int | DecompressedFile
"""A descriptor of the log file, or what its archive holds."""


class LostFrameError(CorruptError):
    """A frame of an archive is damaged: the log file's bytes from `offset` to before `end` are lost, and no others."""

    def __init__(self, path: str, start: int, end: int, text: str) -> None:
        super().__init__(path, start, "frame", text)
        self.end = end


# O_NONBLOCK: a FIFO under the name must not hang the opener; it changes nothing for a regular file.
_FLAGS_TO_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_FLAGS_TO_WRITE = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

# A copy of so much takes less than the five milliseconds after which threads take turns.
_SOON_BYTES_MAX = 1 << 20


class FileSystem(enum.Enum):
    """Which file systems a writer accepts.

    All writers of a directory must run under one kernel, which shared file systems do not tell.
    """

    LOCAL = "local"
    ANY = "any"


def open_directory(path: str) -> int:
    """A descriptor of the directory, for the names in it."""
    with own_errors(path, "opening the directory"):
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def open_named_directory(path: str) -> int:
    """Return a descriptor of a directory that the caller named.  Raises: NotFoundError if there is none."""
    try:
        return open_directory(path)
    except AccessError as error:
        if error.errno != errno.ENOENT:
            raise
        raise NotFoundError(f"{path}: there is no such directory") from error


def list_folder(path: str) -> list[str]:
    """The names in a folder; none where it is not there, or is none.  Raises: AccessError."""
    with own_errors(path, "listing the folder"), suppress(FileNotFoundError, NotADirectoryError):
        return sorted(os.listdir(path))
    return []


def is_folder(path: str) -> bool:
    """Whether a folder is there.  Raises: AccessError where that cannot be known."""
    with own_errors(path, "looking for the folder"):
        try:
            return stat.S_ISDIR(os.stat(path).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False


def make_directory(path: str) -> None:
    """Make the directory where there is none; its parent must be there.  Not durable yet: see `sync_parent`.

    One that root makes belongs to the owner and group of its parent.
    """
    _make_directory(path, path, parent_fd=None, inner=False)


def make_subfolder(parent_fd: int, name: str, path: str) -> None:
    """As `make_directory`, for a folder inside an engine's: it gets the owner, group and mode of its parent."""
    _make_directory(name, path, parent_fd=parent_fd, inner=True)


def _make_directory(name: str, path: str, *, parent_fd: int | None, inner: bool) -> None:
    with own_errors(path, "making the directory"):
        try:
            os.mkdir(name, DIRECTORY_MODE, dir_fd=parent_fd)
        except FileExistsError:
            return
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(name, flags, dir_fd=parent_fd)
        try:
            give_directory_access(fd, os.stat(os.pardir, dir_fd=fd), path, inner=inner)
        finally:
            os.close(fd)


def open_file(directory_fd: int, name: str, path: str, *, writable: bool) -> int:
    """A descriptor of a regular file that is there.  Raises: NotFoundError; AccessError.

    For one that is to be locked see Descriptor.
    """
    try:
        fd = os.open(name, flags_to_open(writable=writable), dir_fd=directory_fd)
    except OSError as error:
        raise opening_failure(error.errno or 0, path) from error
    try:
        with own_errors(path, "opening the file"):
            check_regular(os.fstat(fd), path)
        return fd
    except BaseException:
        os.close(fd)
        raise


def flags_to_open(*, writable: bool) -> int:
    """How a file of ours is opened."""
    return _FLAGS_TO_WRITE if writable else _FLAGS_TO_READ


def opening_failure(number: int, path: str) -> BinlogError:
    """The error for the errno `number`, met while opening a file."""
    if number == errno.ENOENT:
        return NotFoundError(f"{path} is not there")
    if number == errno.ELOOP:
        text = f"{path} is a symbolic link, which is never followed; put the file itself there, or remove the link"
        return AccessError(text, errno=number, path=path)
    return failure(number, path, "opening the file")


def check_regular(status: os.stat_result, path: str) -> None:
    """Raise AccessError where the file is a directory, a pipe or a device."""
    if not stat.S_ISREG(status.st_mode):
        raise AccessError(f"{path} is not a regular file", errno=errno.EINVAL, path=path)


def create_file(directory_fd: int, name: str, path: str, access: FileAccess | None = None) -> int:
    """A descriptor of a new empty file, which must not be there yet.

    access: its owner, group and mode, whatever the umask; None for those of the newest file in the directory.
    Raises: AccessError, with nothing made, if this process cannot give it to that owner and group.
    """
    with own_errors(path, "making the file"):
        if access is None:
            access = access_beside(directory_fd)
        check_can_give(directory_fd, access, path)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        # Until it is given to its owner and group, nobody else opens it.
        fd = os.open(name, flags, 0o600, dir_fd=directory_fd)
        try:
            give_access(fd, access, path)
        except BaseException:
            os.close(fd)
            os.unlink(name, dir_fd=directory_fd)
            raise
        return fd


def sync_directory(directory_fd: int, path: str) -> None:
    """Make the names in the directory durable.  Raises: PoisonedError, as `sync`."""
    try:
        os.fsync(directory_fd)
    except OSError as error:
        raise poisoned(error.errno or 0, path, "a sync of the directory") from error


def sync_parent(directory_fd: int, path: str) -> None:
    """Make the directory's own name durable."""
    with own_errors(path, "opening the parent directory"):
        # By way of the directory: what the kernel takes for its parent, whatever links its path goes through.
        parent = os.open(os.pardir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory_fd)
    try:
        sync_directory(parent, path)
    finally:
        os.close(parent)


def remove_file(directory_fd: int, name: str, path: str) -> None:
    """Remove the name; that it is gone already is as good."""
    with own_errors(path, "removing the file"):
        try:
            os.unlink(name, dir_fd=directory_fd)
        except FileNotFoundError:
            return


def read_at(content: ByteSource, size: int, offset: int, path: str) -> bytes:
    """Up to `size` bytes from `offset`; fewer only where the file ends."""
    if not isinstance(content, int):
        return content.read(size, offset)
    fd = content
    with own_errors(path, "reading"):
        data = os.pread(fd, size, offset)
        if len(data) == size or not data:
            return data
        parts = [data]
        missing = size - len(data)
        while missing and (data := os.pread(fd, missing, offset + size - missing)):
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)


def read_soon_at(fd: int, size: int, offset: int, path: str) -> bytes:
    """As `read_at`, and without letting another thread run where the page cache has it all and it is not much."""
    if size <= _SOON_BYTES_MAX and (data := read_cached(fd, size, offset)) is not None and len(data) == size:
        return data
    return read_at(fd, size, offset, path)


def read_whole_at(content: ByteSource, size: int, offset: int, path: str) -> bytes:
    """As `read_at`, but of an archive no further than the frame goes that holds the record at `offset`.

    It ends where a record does; and the next frame may be damaged, or not be needed.
    """
    if not isinstance(content, int):
        size = min(size, content.frame_end(offset) - offset)
    return read_at(content, size, offset, path)


def forget(fd: int) -> None:
    """Have what was synced of a file be read from the disk the next time (posix_fadvise(2)); the kernel may not."""
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def content_bytes(content: ByteSource) -> int:
    """How many bytes can be read from it."""
    return os.fstat(content).st_size if isinstance(content, int) else content.file_bytes


def write_at(fd: int, data: bytes | bytearray | memoryview, offset: int, path: str) -> None:
    """Write all of `data` at `offset`.  Raises: FullError; PoisonedError for any other failure."""
    result = lib.binlog_write(fd, ffi.from_buffer("uint8_t[]", data), len(data), offset)
    if result != 0:
        raise write_failure(-result, path)


def commit_at(group: CommitGroup, fd: int, data: bytes | bytearray | memoryview, offset: int, path: str) -> None:
    """Write, and sync if the leader said so, all that the leader of a group has begun to commit.

    It is one call, after which no exception of a signal handler can hide that it was done.
    Raises: FullError; PoisonedError for any other failure of the write, and for each of the sync.
    """
    check_commit(group.commit(fd, data, offset), path)


def check_commit(result: int, path: str) -> None:
    """Raise what a group's `commit` returned, or what its own commit left in `failed`.  Raises: as `commit_at`."""
    if result < 0:
        raise write_failure(-result, path)
    if result > 0:
        raise poisoned(result, path, "a sync")


def allocate(fd: int, start: int, stop: int, path: str) -> None:
    """Give the file space from `start` to `stop`, which becomes its size.  Raises: FullError."""
    # posix_fallocate(3) may give a part of it and fail.  What is beyond the tail means nothing, so that is no loss.
    with own_errors(path, "preparing space"):
        os.posix_fallocate(fd, start, stop - start)


def sync(fd: int, path: str) -> None:
    """fdatasync.  Raises: PoisonedError whatever the reason, after which nothing unsynced may be believed."""
    try:
        os.fdatasync(fd)
    except OSError as error:
        raise poisoned(error.errno or 0, path, "a sync") from error


class DiskFile:
    """An open file, and its path for messages."""

    def __init__(self, fd: int, path: str) -> None:
        self.content = fd
        self.path = path

    def access(self) -> FileAccess:
        """Owner, group and mode."""
        return access_like(os.fstat(self.content))

    def write(self, data: bytes | bytearray, offset: int) -> None:
        """See `write_at`."""
        write_at(self.content, data, offset, self.path)

    def sync(self) -> None:
        """See `sync`."""
        sync(self.content, self.path)
