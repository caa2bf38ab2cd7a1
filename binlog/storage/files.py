"""Functions that open, make, read, write and sync files, relative to a directory's descriptor.

`read_at` and its kin also read the bytes of a log file from its archive.

Facts relied on:
- openat(2): renaming a directory above does not change the meaning of a name relative to a descriptor.
- open(2), O_NOFOLLOW: the kernel refuses a symbolic link that was planted under a file's name.
- rename(2): a name appears whole.
- fsync(2): a new name is durable only after its directory is synced.
- fallocate(2): space allocated in advance makes a later sync cheaper, because the file's size does not change.
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
    """The bytes of an archived log file; see archive_reader.py."""

    @property
    def file_bytes(self) -> int:
        """The size of the log file."""

    def read(self, size: int, offset: int) -> bytes:
        """Read as `files.read_at`."""

    def frame_start(self, offset: int) -> int:
        """Return the start of the frame that holds an offset."""

    def frame_end(self, offset: int) -> int:
        """Return the end of the frame that holds an offset: the end of a record."""


ByteSource = int | DecompressedFile
"""The source of a log file's bytes: a descriptor, or an archive."""


class LostFrameError(CorruptError):
    """A frame of an archive is damaged: only the log file's bytes from `offset` to before `end` are lost."""

    def __init__(self, path: str, start: int, end: int, text: str) -> None:
        super().__init__(path, start, "frame", text)
        self.end = end


# O_NONBLOCK: a FIFO under the name must not hang the opener; it changes nothing for a regular file.
_FLAGS_TO_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_FLAGS_TO_WRITE = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

# Copying 1 MiB takes less than the five milliseconds of sys.setswitchinterval.
_CACHED_BYTES_MAX = 1 << 20
_COPIED_BYTES = 1 << 20


class FileSystem(enum.Enum):
    """The file systems that a writer accepts.

    All writers of a directory must run under one kernel, and on a shared file system that cannot be checked.
    """

    LOCAL = "local"
    ANY = "any"


def open_directory(path: str) -> int:
    """Return a descriptor of a directory.  Raises: AccessError."""
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
    """Return the names in a folder, sorted; none if it does not exist or is no folder.  Raises: AccessError."""
    with own_errors(path, "listing the folder"), suppress(FileNotFoundError, NotADirectoryError):
        return sorted(os.listdir(path))
    return []


def is_folder(path: str) -> bool:
    """Return whether the path names a folder.  Raises: AccessError if that cannot be found out."""
    with own_errors(path, "reading the status of the folder"):
        try:
            return stat.S_ISDIR(os.stat(path).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False


def make_directory(path: str) -> None:
    """Make a directory if it does not exist; its parent must exist.  `sync_parent` makes it durable.

    A directory that root makes belongs to the owner and group of its parent.
    """
    _make_directory(path, path, parent_fd=None, inner=False)


def make_subfolder(parent_fd: int, name: str, path: str) -> None:
    """Make a folder inside an engine's directory, with the owner, group and mode of its parent."""
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
    """Return a descriptor of an existing regular file.  Raises: NotFoundError; AccessError.

    Use `Descriptor` for a file that will be locked.
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


def flags_to_open(*, writable: bool, append_only: bool = False) -> int:
    """Return the flags with which files of the engines are opened.

    append_only: as a file needs it that has the attribute `a` of chattr(1); then each write goes to its end.
    """
    return (_FLAGS_TO_WRITE if writable else _FLAGS_TO_READ) | (os.O_APPEND if append_only else 0)


def opening_failure(number: int, path: str) -> BinlogError:
    """Return the error for an errno of opening a file."""
    if number == errno.ENOENT:
        return NotFoundError(f"{path} does not exist")
    if number == errno.ELOOP:
        text = f"{path} is a symbolic link, which is never followed; put the file itself there, or remove the link"
        return AccessError(text, errno=number, path=path)
    return failure(number, path, "opening the file")


def check_regular(status: os.stat_result, path: str) -> None:
    """Raise AccessError unless the file is a regular one."""
    if not stat.S_ISREG(status.st_mode):
        raise AccessError(f"{path} is not a regular file", errno=errno.EINVAL, path=path)


def create_file(directory_fd: int, name: str, path: str, access: FileAccess | None = None) -> int:
    """Make a new empty file and return a descriptor of it.

    access: its owner, group and mode, regardless of the umask; None for those of the newest file in the directory.
    Raises: AccessError if the file exists, or if this process cannot give it to that owner and group; then no file was
    made.
    """
    with own_errors(path, "making the file"):
        if access is None:
            access = access_beside(directory_fd)
        check_can_give(directory_fd, access, path)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        # No other user can open it before it has its owner and group.
        fd = os.open(name, flags, 0o600, dir_fd=directory_fd)
        try:
            give_access(fd, access, path)
        except BaseException:
            os.close(fd)
            os.unlink(name, dir_fd=directory_fd)
            raise
        return fd


def sync_directory(directory_fd: int, path: str) -> None:
    """Make the names in a directory durable.  Raises: PoisonedError, as `sync`."""
    try:
        os.fsync(directory_fd)
    except OSError as error:
        raise poisoned(error.errno or 0, path, "a sync of the directory") from error


def sync_parent(directory_fd: int, path: str) -> None:
    """Make the name of a directory durable.  Raises: AccessError; PoisonedError."""
    with own_errors(path, "opening the parent directory"):
        # Through the directory: this is the kernel's parent, even if the path contains symbolic links.
        parent = os.open(os.pardir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory_fd)
    try:
        sync_directory(parent, path)
    finally:
        os.close(parent)


def remove_file(directory_fd: int, name: str, path: str) -> None:
    """Remove a file; does nothing if it does not exist."""
    with own_errors(path, "removing the file"):
        try:
            os.unlink(name, dir_fd=directory_fd)
        except FileNotFoundError:
            return


def read_at(content: ByteSource, size: int, offset: int, path: str) -> bytes:
    """Return `size` bytes from `offset`; fewer only at the end of the file."""
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


def read_cached_at(fd: int, size: int, offset: int, path: str) -> bytes:
    """Read as `read_at`.  Keeps the interpreter's lock if the bytes are few and all in the page cache."""
    if size <= _CACHED_BYTES_MAX and (data := read_cached(fd, size, offset)) is not None and len(data) == size:
        return data
    return read_at(fd, size, offset, path)


def read_whole_at(content: ByteSource, size: int, offset: int, path: str) -> bytes:
    """Read as `read_at`, but from an archive only up to the end of the frame that holds the record at `offset`.

    A frame ends at the end of a record.  The next frame may be damaged, or not needed.
    """
    if not isinstance(content, int):
        size = min(size, content.frame_end(offset) - offset)
    return read_at(content, size, offset, path)


def drop_page_cache(fd: int) -> None:
    """Ask the kernel to drop the synced pages of a file from its cache (posix_fadvise(2))."""
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def content_bytes(content: ByteSource) -> int:
    """Return the number of bytes that can be read."""
    return os.fstat(content).st_size if isinstance(content, int) else content.file_bytes


def write_at(fd: int, data: bytes | bytearray | memoryview, offset: int, path: str) -> None:
    """Write all of `data` at `offset`.  Raises: FullError; PoisonedError for any other failure."""
    result = lib.binlog_write(fd, ffi.from_buffer("uint8_t[]", data), len(data), offset)
    if result != 0:
        raise write_failure(-result, path)


def write_again(fd: int, stop: int, path: str) -> None:
    """Write the bytes before `stop` again, or all of a shorter file, so that the next sync makes them durable.

    An earlier process may have been killed before it synced them, or its sync may have failed: then another sync would
    succeed and write nothing (fsync(2)).
    Raises: AccessError; FullError; PoisonedError.
    """
    for at in range(0, stop, _COPIED_BYTES):
        write_at(fd, read_at(fd, min(_COPIED_BYTES, stop - at), at, path), at, path)


def commit_at(group: CommitGroup, fd: int, data: bytes | bytearray | memoryview, offset: int, path: str) -> None:
    """Write the bytes that the leader of a group commits, and sync them if the leader's `begin` asked for that.

    Writing, syncing and recording the success are one call of C, so no exception of a signal handler comes in between.
    Raises: FullError; PoisonedError for any other failure of the write, and for any failure of the sync.
    """
    check_commit(group.commit(fd, data, offset), path)


def check_commit(result: int, path: str) -> None:
    """Raise the error for a result of a group's `commit`, or for its `failed`.  Raises: as `commit_at`."""
    if result < 0:
        raise write_failure(-result, path)
    if result > 0:
        raise poisoned(result, path, "a sync")


def allocate(fd: int, start: int, stop: int, path: str) -> None:
    """Allocate space from `start` to `stop`, which becomes the file's size.  Raises: FullError; AccessError."""
    # posix_fallocate(3) may allocate a part and fail.  That is harmless: bytes beyond the tail mean nothing.
    with own_errors(path, "preparing space"):
        os.posix_fallocate(fd, start, stop - start)


def truncate(fd: int, size: int, path: str) -> None:
    """Cut a file to a size, or extend it without space (ftruncate(2)).  Raises: AccessError; FullError."""
    with own_errors(path, "changing the size of the file"):
        os.ftruncate(fd, size)


def sync(fd: int, path: str) -> None:
    """Sync a file (fdatasync(2)).

    Raises: PoisonedError for every failure, because the kernel may have dropped the unsynced bytes.
    """
    try:
        os.fdatasync(fd)
    except OSError as error:
        raise poisoned(error.errno or 0, path, "a sync") from error


class DiskFile:
    """An open file with its path."""

    def __init__(self, fd: int, path: str) -> None:
        self.content = fd
        self.path = path

    def access(self) -> FileAccess:
        """Return the file's owner, group and mode."""
        return access_like(os.fstat(self.content))

    def write(self, data: bytes | bytearray, offset: int) -> None:
        """Write as `write_at`."""
        write_at(self.content, data, offset, self.path)

    def sync(self) -> None:
        """Sync as `sync`."""
        sync(self.content, self.path)
