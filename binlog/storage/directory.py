"""A directory that an object of this process has open, and the files that it has opened in it.

Facts relied on:
- openat(2): a name relative to a descriptor cannot be led elsewhere by a rename above it.
- link(2): a name appears whole, and never replaces one that is there; it is used in place of RENAME_NOREPLACE, which
  not every file system has and Python does not offer.
- What is still open is closed with the object (native/shared/descriptors.c): an exception of a signal handler, which
  may come between a call that opens a file and the line that stores its descriptor, leaves no descriptor behind.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from binlog.errors import AccessError, GoneError, NotFoundError
from binlog.storage.descriptors import ANY_FILE, AT_FDCWD, Identity
from binlog.storage.failures import failure, own_errors
from binlog.storage.file_access import (
    DIRECTORY_MODE,
    FileAccess,
    access_of_newest,
    check_can_give,
    give_access,
    give_directory_access,
)
from binlog.storage.files import (
    DiskFile,
    check_regular,
    content_bytes,
    flags_to_open,
    make_subfolder,
    opening_failure,
    read_at,
    remove_file,
    sync_directory,
)
from binlog.storage.native import ffi, lib

_REMOTE = {0x6969: "NFS", 0xFF534D42: "CIFS", 0xFE534D42: "SMB2", 0x517B: "SMB", 0x65735546: "FUSE"}

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class _Opening:
    """A descriptor, and others that were opened with it, which are closed with the object, however its users end."""

    __slots__ = ("_open", "fd")

    def __init__(self, directory_fd: int, name: str, flags: int) -> None:
        """fd: or the negative errno."""
        self._open = ffi.gc(lib.binlog_descriptors_new(), lib.binlog_descriptors_free)
        self.fd = self._open_at(directory_fd, name, flags)

    def _open_at(self, directory_fd: int, name: str, flags: int, mode: int = 0) -> int:
        """A descriptor, or the negative errno."""
        return int(lib.binlog_descriptors_open(self._open, directory_fd, os.fsencode(name), flags, mode))

    def close(self) -> None:
        """Close it, and what was opened with it and is open still."""
        lib.binlog_descriptors_clear(self._open)
        self.fd = -1


class _Opened(_Opening):
    """One that a block uses.

    The block is to have it as `with ... as fd`: a variable stays in the frames of an exception that somebody keeps.
    """

    __slots__ = ()

    def __enter__(self) -> int:
        return self.fd

    def __exit__(self, *_: object) -> None:
        pass


class Directory(_Opening):
    """It, by its path, and by its descriptor `fd`, which leads to it also after it was moved.

    The name of a file in it may lead through folders in it.  A forked child may go on with its copy.
    """

    __slots__ = ("_prefix", "path")

    def __init__(self, path: str, *, make: bool = False, parent: Directory | None = None) -> None:
        """Open it.  make: make it first if it is not there, in a directory that is.  parent: if it lies in that.

        Raises: NotFoundError if it is not there; AccessError.
        """
        self.path = path
        self._prefix = os.path.join(path, "")
        is_new = make and _made(path)
        if parent is None:
            super().__init__(AT_FDCWD, path, FOLDER_FLAGS)
        else:
            super().__init__(parent.fd, os.path.basename(path), FOLDER_FLAGS | os.O_NOFOLLOW)
        if self.fd < 0:
            if self.fd == -errno.ENOENT:
                raise NotFoundError(f"{path}: there is no such directory")
            raise failure(-self.fd, path, "opening the directory")
        if is_new:
            with own_errors(path, "making the directory"):
                give_directory_access(self.fd, os.stat(os.pardir, dir_fd=self.fd), path, inner=False)
        if make:
            self.sync_parent()

    def check(self) -> None:
        """Raise GoneError if its path leads elsewhere by now: what is made in it would be lost."""
        try:
            with own_errors(self.path, "asking what it is"):
                is_there = os.path.samestat(os.stat(self.path), os.fstat(self.fd))
        except AccessError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                raise
            is_there = False
        if not is_there:
            raise GoneError(f"{self.path} was moved or removed")

    def file_path(self, name: str) -> str:
        """The path of a file in it, for errors."""
        return self._prefix + name if name else self.path

    def make_folder(self, name: str) -> None:
        """Make a folder in it, durably, if it is not there.  Raises: AccessError; PoisonedError."""
        make_subfolder(self.fd, name, self.file_path(name))
        self.sync(os.path.dirname(name))

    def subfolder(self, name: str) -> Directory:
        """Open a folder in it, as `make_folder` makes it.  Raises: AccessError; PoisonedError."""
        self.make_folder(name)
        return Directory(self.file_path(name), parent=self)

    def names(self, folder: str = "") -> list[str]:
        """All names in it, or in a folder in it.  Raises: AccessError."""
        # A descriptor of its own: another thread that lists would share this one's position.
        with own_errors(self.file_path(folder), "listing the directory"), self._folder(folder) as fd:
            return os.listdir(fd)

    def has(self, name: str) -> bool:
        """Tell whether anything in it has the name.  Raises: AccessError."""
        result = lib.binlog_has_name(self.fd, os.fsencode(name))
        if result < 0:
            raise failure(-result, self.path, f"looking for {name}")
        return bool(result)

    def status(self, name: str) -> os.stat_result | None:
        """What the file system has of a name, which is not followed if it is a link; None if it is not there.

        Raises: AccessError.
        """
        with own_errors(self.path, "looking for a file"):
            try:
                return os.stat(name, dir_fd=self.fd, follow_symlinks=False)
            except FileNotFoundError:
                return None

    def open(self, name: str, *, writable: bool = False) -> int:
        """Open a regular file that is there; `close_file` closes it.  Raises: NotFoundError; AccessError."""
        return self.open_regular(name, writable=writable)[0]

    def open_regular(self, name: str, *, writable: bool = False) -> tuple[int, os.stat_result]:
        """As `open`, and what the file is."""
        fd = self._open_at(self.fd, name, flags_to_open(writable=writable))
        path = self.file_path(name)
        if fd < 0:
            raise opening_failure(-fd, path)
        try:
            with own_errors(path, "opening the file"):
                status = os.fstat(fd)
                check_regular(status, path)
        except BaseException:
            self.close_file(fd)
            raise
        return fd, status

    def create(self, name: str, access: FileAccess | None = None) -> int:
        """Make and open an empty file, which must not be there yet; `close_file` closes it.

        access: its owner, group and mode, whatever the umask; None for those of the newest file in the directory.
        Raises: FullError; AccessError, with nothing made, if this process cannot give it to that owner and group.
        """
        path = self.file_path(name)
        with own_errors(path, "making the file"):
            if access is None:
                with self._folder(os.path.dirname(name)) as folder_fd:
                    access = access_of_newest(folder_fd)
            check_can_give(self.fd, access, path)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            # Until it is given to its owner and group, nobody else opens it.
            fd = self._open_at(self.fd, name, flags, 0o600)
            if fd < 0:
                raise OSError(-fd, os.strerror(-fd))
            try:
                give_access(fd, access, path)
            except BaseException:
                self.close_file(fd)
                os.unlink(name, dir_fd=self.fd)
                raise
        return fd

    def make(self, name: str) -> bool:
        """As `create`, and leave it closed; False if there is one."""
        try:
            self.close_file(self.create(name))
        except AccessError as error:
            if error.errno != errno.EEXIST:
                raise
            return False
        return True

    @contextmanager
    def opened(self, name: str, *, writable: bool = False) -> Iterator[int]:
        """Open a file for a block, as `open`."""
        fd = self.open(name, writable=writable)
        try:
            yield fd
        finally:
            self.close_file(fd)

    @contextmanager
    def created(self, name: str, access: FileAccess | None = None) -> Iterator[DiskFile]:
        """Make a file and have it open for a block, as `create`."""
        fd = self.create(name, access)
        try:
            yield DiskFile(fd, self.file_path(name))
        finally:
            self.close_file(fd)

    def read(self, name: str, size: int | None = None) -> bytes:
        """Read a file from its start, all of it if no size is given.  Raises: NotFoundError; AccessError."""
        with self.opened(name) as fd:
            return read_at(fd, content_bytes(fd) if size is None else size, 0, self.file_path(name))

    def write_new(self, name: str, data: bytes | bytearray) -> None:
        """Put a file in the place of any other, and sync it, but not its name.

        Raises: FullError; AccessError; PoisonedError.
        """
        self.remove(name)
        with self.created(name) as file:
            file.write(data, 0)
            file.sync()

    def link(self, old: str, new: str, *, durable: bool = True) -> bool:
        """Give a file the name `new` in place of `old`, durably unless told otherwise, and tell whether it was given.

        It is not where something has that name already, nor where `old` was swept away as a leftover because of that.
        Raises: AccessError; PoisonedError.
        """
        with own_errors(self.file_path(old), "naming the file"):
            try:
                os.link(old, new, src_dir_fd=self.fd, dst_dir_fd=self.fd, follow_symlinks=False)
            except (FileExistsError, FileNotFoundError):
                return False
        self.remove(old)
        if durable:
            self.sync()
        return True

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, in place of whatever had it, durably.  Raises: AccessError; PoisonedError."""
        with own_errors(self.file_path(new), "naming the file"):
            os.rename(old, new, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        self.sync(os.path.dirname(new))

    def remove(self, name: str) -> None:
        """Remove a name; that it is gone already is as good.  Raises: AccessError."""
        remove_file(self.fd, name, self.file_path(name))

    def sync(self, folder: str = "") -> None:
        """Make the names in it durable, or in a folder in it.  Raises: PoisonedError; AccessError."""
        if not folder:
            sync_directory(self.fd, self.path)
        else:
            with own_errors(self.file_path(folder), "opening the directory"), self._folder(folder) as fd:
                sync_directory(fd, self.file_path(folder))

    def close_file(self, fd: int, identity: Identity = ANY_FILE) -> None:
        """Close a file that was opened here; nothing if it is closed.  Raises: AccessError.

        identity: which file it is, if other ones were opened here since, and may have its number.
        """
        result = lib.binlog_descriptors_close(self._open, fd, *identity)
        if result < 0:
            raise AccessError(f"{self.path}: closing a file: {os.strerror(-result)}", errno=-result, path=self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def refuse_remote(self) -> None:
        """Raise AccessError where it lies on a file system that several machines may share."""
        kind = lib.binlog_filesystem(self.fd)
        if kind < 0:
            raise failure(-kind, self.path, "asking for the file system")
        if kind in _REMOTE:
            text = "where locks and wake-ups of other machines may not be seen; FileSystem.ANY accepts it"
            raise AccessError(f"{self.path} is on {_REMOTE[kind]}, {text}", errno=errno.EOPNOTSUPP, path=self.path)

    def sync_parent(self) -> None:
        """Make the directory's own name durable.  Raises: AccessError; PoisonedError."""
        # By way of the directory: what the kernel takes for its parent, whatever links its path goes through.
        with own_errors(self.path, "opening the parent directory"):
            parent = self._folder(os.pardir)
        with parent as fd:
            sync_directory(fd, self.path)

    def _folder(self, name: str) -> _Opened:
        """A directory by its name, which is closed once nobody has it.  Raises: OSError."""
        folder = _Opened(self.fd, name or os.curdir, FOLDER_FLAGS)
        if folder.fd < 0:
            raise OSError(-folder.fd, os.strerror(-folder.fd))
        return folder


class OpenFile(_Opened):
    """A regular file that is there; it is closed once nobody has the object.  size: in bytes, as it was opened."""

    __slots__ = ("size",)

    def __init__(self, directory: Directory, name: str, *, writable: bool) -> None:
        """Raises: NotFoundError; AccessError."""
        super().__init__(directory.fd, name, flags_to_open(writable=writable))
        path = directory.file_path(name)
        if self.fd < 0:
            raise opening_failure(-self.fd, path)
        with own_errors(path, "opening the file"):
            status = os.fstat(self.fd)
        check_regular(status, path)
        self.size = status.st_size


def _made(path: str) -> bool:
    """Make a directory; return False if it is there."""
    with own_errors(path, "making the directory"):
        try:
            os.mkdir(path, DIRECTORY_MODE)
        except FileExistsError:
            return False
    return True
