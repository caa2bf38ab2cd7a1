"""An open directory, and the files that were opened through it.

Facts relied on:
- openat(2): renaming a directory above does not change the meaning of a name relative to a descriptor.
- link(2): a name appears whole, and never replaces an existing one.  It serves in place of RENAME_NOREPLACE, which not
  every file system has and Python does not offer.
- native/shared/descriptors.c: descriptors that are still open are closed with the object.  So no descriptor leaks if a
  signal handler raises between the call that opens a file and the line that stores its descriptor.
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


class _OwnedDescriptors:
    """A descriptor, and others opened with it, all of which are closed with the object at the latest."""

    __slots__ = ("_open", "fd")

    def __init__(self, directory_fd: int, name: str, flags: int) -> None:
        """Open a name.  `fd` is the descriptor, or the negative errno."""
        self._open = ffi.gc(lib.binlog_descriptors_new(), lib.binlog_descriptors_free)
        self.fd = self._open_at(directory_fd, name, flags)

    def _open_at(self, directory_fd: int, name: str, flags: int, mode: int = 0) -> int:
        """Open another name; return the descriptor, or the negative errno."""
        return int(lib.binlog_descriptors_open(self._open, directory_fd, os.fsencode(name), flags, mode))

    def close(self) -> None:
        """Close the descriptor, and all others opened with it."""
        lib.binlog_descriptors_clear(self._open)
        self.fd = -1


class _BlockDescriptor(_OwnedDescriptors):
    """A descriptor for the length of a block.

    Use it as `with ... as fd`.  A variable with the object would stay alive in the traceback of an exception.
    """

    __slots__ = ()

    def __enter__(self) -> int:
        return self.fd

    def __exit__(self, *_: object) -> None:
        pass


class Directory(_OwnedDescriptors):
    """An open directory; `fd` is its descriptor, which stays valid if the directory is moved.

    Names may contain folders of the directory: "folder/file".  A forked child may use its copy.
    """

    __slots__ = ("_prefix", "path")

    def __init__(self, path: str, *, make: bool = False, parent: Directory | None = None) -> None:
        """Open the directory.

        make: make it first, durably, if it does not exist; its parent must exist.
        parent: the directory that contains it, if that is open.
        Raises: NotFoundError; AccessError; PoisonedError.
        """
        self.path = path
        self._prefix = os.path.join(path, "")
        is_new = make and _make(path)
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
        """Raise GoneError if its path no longer names the directory: files made in it would be lost."""
        try:
            with own_errors(self.path, "reading its status"):
                is_there = os.path.samestat(os.stat(self.path), os.fstat(self.fd))
        except AccessError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                raise
            is_there = False
        if not is_there:
            raise GoneError(f"{self.path} was moved or removed")

    def file_path(self, name: str) -> str:
        """Return the path of a file in the directory, for errors."""
        return self._prefix + name if name else self.path

    def make_folder(self, name: str) -> None:
        """Make a folder in the directory, durably, if it does not exist.  Raises: AccessError; PoisonedError."""
        make_subfolder(self.fd, name, self.file_path(name))
        self.sync(os.path.dirname(name))

    def subfolder(self, name: str) -> Directory:
        """Open a folder in the directory; make it if it does not exist.  Raises: AccessError; PoisonedError."""
        self.make_folder(name)
        return Directory(self.file_path(name), parent=self)

    def names(self, folder: str = "") -> list[str]:
        """Return all names in the directory, or in a folder of it.  Raises: AccessError."""
        # With a second descriptor, because threads that list by one descriptor share its position.
        with own_errors(self.file_path(folder), "listing the directory"), self._folder(folder) as fd:
            return os.listdir(fd)

    def has(self, name: str) -> bool:
        """Return whether a name exists in the directory.  Raises: AccessError."""
        result = lib.binlog_has_name(self.fd, os.fsencode(name))
        if result < 0:
            raise failure(-result, self.path, f"checking for {name}")
        return bool(result)

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of a name, or None if it does not exist.  A symbolic link is not followed.

        Raises: AccessError.
        """
        with own_errors(self.path, "reading the status of a file"):
            try:
                return os.stat(name, dir_fd=self.fd, follow_symlinks=False)
            except FileNotFoundError:
                return None

    def open(self, name: str, *, writable: bool = False, append_only: bool = False) -> int:
        """Open an existing regular file; `close_file` closes it.

        append_only: each write goes to the end.  Raises: NotFoundError; AccessError.
        """
        return self.open_regular(name, writable=writable, append_only=append_only)[0]

    def open_regular(
        self, name: str, *, writable: bool = False, append_only: bool = False
    ) -> tuple[int, os.stat_result]:
        """Open as `open`; return the descriptor and the file's status."""
        fd = self._open_at(self.fd, name, flags_to_open(writable=writable, append_only=append_only))
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
        """Make a new empty file and open it; `close_file` closes it.

        access: its owner, group and mode, regardless of the umask; None for those of the newest file in the directory.
        Raises: FullError; AccessError if the file exists, or if this process cannot give it to that owner and group;
        then no file was made.
        """
        path = self.file_path(name)
        with own_errors(path, "making the file"):
            if access is None:
                with self._folder(os.path.dirname(name)) as folder_fd:
                    access = access_of_newest(folder_fd)
            check_can_give(self.fd, access, path)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            # No other user can open it before it has its owner and group.
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
        """Make an empty file as `create`, and close it; return False if it exists."""
        try:
            self.close_file(self.create(name))
        except AccessError as error:
            if error.errno != errno.EEXIST:
                raise
            return False
        return True

    @contextmanager
    def opened(self, name: str, *, writable: bool = False, append_only: bool = False) -> Iterator[int]:
        """Open a file for a block.  Raises: as `open`."""
        fd = self.open(name, writable=writable, append_only=append_only)
        try:
            yield fd
        finally:
            self.close_file(fd)

    @contextmanager
    def created(self, name: str, access: FileAccess | None = None) -> Iterator[DiskFile]:
        """Make a file and keep it open for a block.  Raises: as `create`."""
        fd = self.create(name, access)
        try:
            yield DiskFile(fd, self.file_path(name))
        finally:
            self.close_file(fd)

    def read(self, name: str, size: int | None = None) -> bytes:
        """Read a file from its start; all of it if `size` is None.  Raises: NotFoundError; AccessError."""
        with self.opened(name) as fd:
            return read_at(fd, content_bytes(fd) if size is None else size, 0, self.file_path(name))

    def write_new(self, name: str, data: bytes | bytearray) -> None:
        """Write a new file in place of any old one, and sync it; the name is not synced.

        Raises: FullError; AccessError; PoisonedError.
        """
        self.remove(name)
        with self.created(name) as file:
            file.write(data, 0)
            file.sync()

    def link(self, old: str, new: str, *, durable: bool = True) -> bool:
        """Rename a file without replacing another; return False if `new` exists.

        It also returns False if `old` does not exist: another process removed it as a leftover, because `new` existed.
        durable: sync the directory.
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
        """Rename a file, in place of any other with that name, durably.  Raises: AccessError; PoisonedError."""
        with own_errors(self.file_path(new), "naming the file"):
            os.rename(old, new, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        self.sync(os.path.dirname(new))

    def remove(self, name: str) -> None:
        """Remove a file; does nothing if it does not exist.  Raises: AccessError."""
        remove_file(self.fd, name, self.file_path(name))

    def sync(self, folder: str = "") -> None:
        """Make the names in the directory durable, or in a folder of it.  Raises: PoisonedError; AccessError."""
        if not folder:
            sync_directory(self.fd, self.path)
        else:
            with own_errors(self.file_path(folder), "opening the directory"), self._folder(folder) as fd:
                sync_directory(fd, self.file_path(folder))

    def close_file(self, fd: int, identity: Identity = ANY_FILE) -> None:
        """Close a file that was opened through the directory; does nothing if it is closed.  Raises: AccessError.

        identity: of the file, if another one that was opened since may have its number.
        """
        result = lib.binlog_descriptors_close(self._open, fd, *identity)
        if result < 0:
            raise AccessError(f"{self.path}: closing a file: {os.strerror(-result)}", errno=-result, path=self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def refuse_remote(self) -> None:
        """Raise AccessError if the directory is on a file system that several machines may share."""
        kind = lib.binlog_filesystem(self.fd)
        if kind < 0:
            raise failure(-kind, self.path, "reading the kind of file system")
        if kind in _REMOTE:
            text = "on which locks and wake-ups of other machines may not work; pass FileSystem.ANY to accept it"
            raise AccessError(f"{self.path} is on {_REMOTE[kind]}, {text}", errno=errno.EOPNOTSUPP, path=self.path)

    def sync_parent(self) -> None:
        """Make the name of the directory durable.  Raises: AccessError; PoisonedError."""
        # Through the directory: this is the kernel's parent, even if the path contains symbolic links.
        with own_errors(self.path, "opening the parent directory"):
            parent = self._folder(os.pardir)
        with parent as fd:
            sync_directory(fd, self.path)

    def _folder(self, name: str) -> _BlockDescriptor:
        """Open a folder of the directory; it is closed when the object is freed.  Raises: OSError."""
        folder = _BlockDescriptor(self.fd, name or os.curdir, FOLDER_FLAGS)
        if folder.fd < 0:
            raise OSError(-folder.fd, os.strerror(-folder.fd))
        return folder


class OpenFile(_BlockDescriptor):
    """An open regular file, closed when the object is freed.  size: in bytes, when it was opened."""

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


def _make(path: str) -> bool:
    """Make a directory; return False if it exists."""
    with own_errors(path, "making the directory"):
        try:
            os.mkdir(path, DIRECTORY_MODE)
        except FileExistsError:
            return False
    return True
