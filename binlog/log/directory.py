"""LogDirectory and OpenedFile: the directory of a log, and a log file or archive in it.

An archive takes the place of a closed file.  If both exist, the file counts: the process that archived it died before
it could remove the file.  An archive gets its name before its file loses its own, so a search for one and then for the
other may miss both.  A caller that finds neither searches once more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Self

from binlog.errors import CorruptError, GoneError, NotFoundError, VersionError
from binlog.format.log_header import LogHeader
from binlog.format.names import (
    NUMBER_FIRST,
    NUMBER_MAX,
    archive_file_name,
    archive_file_number,
    damaged_file_range,
    log_file_name,
    log_file_number,
    shipped_file_name,
)
from binlog.log.files.header import check_header, read_header, validated_header
from binlog.log.recovery.evidence import FileEvidence, Following, believe_status, believe_tail
from binlog.storage.boot import boot_id
from binlog.storage.descriptors import AT_FDCWD, Descriptor, Identity, identity_of, is_open_on
from binlog.storage.directory import FOLDER_FLAGS, Directory
from binlog.storage.file_access import FileAccess, access_like, access_of_directory
from binlog.storage.files import ByteSource, content_bytes
from binlog.storage.locking.locks import lock, unlock

if TYPE_CHECKING:
    from binlog.log.archive.archive_reader import ArchiveReader


class OpenedFile:
    """A log file or archive open for reading.

    name: of the file or its archive, in the directory.
    path: of the same.  content: its bytes.  archive: the reader of an archive; None for a file.
    fd: of the file or archive, for fstat alone: offsets in an archive are not those of the log file.
    Raises: NotFoundError; AccessError; CorruptError for an archive.
    """

    __slots__ = ("_directory", "archive", "content", "fd", "identity", "path")

    def __init__(self, directory: Directory, name: str, *, archived: bool = False) -> None:
        self.path = directory.file_path(name)
        self._directory = directory
        self.fd, status = directory.open_regular(name)
        self.identity = Identity(status.st_dev, status.st_ino)
        self.archive: ArchiveReader | None = None
        self.content: ByteSource = self.fd
        if archived:
            # Imported on use, because a log without archives does not need it.
            from binlog.log.archive.archive_reader import ArchiveReader

            try:
                self.content = self.archive = ArchiveReader(self.fd, self.path)
            except BaseException:
                self.close()
                raise

    @property
    def modified_ns(self) -> int:
        """The time of the log file's last write, which its archive has too."""
        return os.fstat(self.fd).st_mtime_ns

    @property
    def intact(self) -> bool:
        """Whether the descriptor still is the file's, and was not closed by other code of this process."""
        return is_open_on(self.fd, self.identity)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        fd, self.fd = self.fd, -1
        self._directory.close_file(fd, self.identity)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# How many of the numbers that a listing lacks are checked for: a log has no gaps, so there is hardly ever one.
_LOOK_FOR_MAX = 64

# How often a directory is listed at most.  Twice is enough, unless listings are older than lookups (nfs(5)).
_LISTINGS_MAX = 100


class LogDirectory(Directory):
    """A directory held open, so that a name is never looked up in another one; see `check_path` if it was moved.

    absolute: the path from the root at the time of opening.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(os.fspath(path))
        self.identity = identity_of(self.fd)
        # Not normalized, because `link/..` is not the directory that has the link.
        self.absolute = self.path if os.path.isabs(self.path) else os.path.join(os.getcwd(), self.path)
        self._root = os.stat("/")

    @property
    def intact(self) -> bool:
        """Whether the descriptor still is the directory's, and was not closed by other code of this process."""
        return is_open_on(self.fd, self.identity)

    def check_path(self) -> None:
        """Raise GoneError if the path no longer leads to this directory.

        Reopens the directory if other code of this process closed its descriptor, as a daemon does.
        """
        if not self.intact:
            fd = self._open_at(AT_FDCWD, self.absolute, FOLDER_FLAGS)
            if fd < 0:
                raise GoneError(f"{self.path}: the directory no longer exists ({os.strerror(-fd)})")
            if identity_of(fd) != self.identity:
                self.close_file(fd)
                raise GoneError(f"{self.path}: another directory has this path now")
            self.fd = fd
        elif os.fstat(self.fd).st_nlink == 0:
            raise GoneError(f"{self.path}: the directory was removed")
        elif not self._path_leads_here():
            raise GoneError(f"{self.path}: the directory was moved or replaced; this path no longer leads to it")

    def _path_leads_here(self) -> bool:
        """Return whether the path leads here; True too if this process can no longer follow it (chroot(2))."""
        return self._identity_at_path() == self.identity or not os.path.samestat(os.stat("/"), self._root)

    def _identity_at_path(self) -> Identity | None:
        try:
            status = os.stat(self.absolute)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            return self.identity  # after setuid(2), say, this process may not search there
        return Identity(status.st_dev, status.st_ino)

    def lookup_place(self, name: str) -> tuple[int, str]:
        """Return a descriptor and a path for openat(2) in C.

        It is the file's path if that leads here, or else its name in this directory.
        """
        try:
            status = os.stat(self.absolute)
        except OSError:
            return self.fd, name
        followed = Identity(status.st_dev, status.st_ino) == self.identity
        return (AT_FDCWD, os.path.join(self.absolute, name)) if followed else (self.fd, name)

    def check_leads_to(self, number: int, identity: Identity) -> bool:
        """Return the result of `leads_to`, using the path.  Raises: GoneError, as `check_path`."""
        with suppress(OSError):
            status = os.stat(os.path.join(self.absolute, log_file_name(number)), follow_symlinks=False)
            if Identity(status.st_dev, status.st_ino) == identity:
                return True
        self.check_path()
        return self.leads_to(number, identity)

    def leads_to(self, number: int, identity: Identity) -> bool:
        """Return whether the name of a log file still leads to the file that was opened by it."""
        status = self.status(log_file_name(number))
        return status is not None and Identity(status.st_dev, status.st_ino) == identity

    def access(self) -> FileAccess:
        """Return owner, group and mode of the newest log file, or those for a first one if the log has no files."""
        for number in reversed(self.listed()):
            for name in (log_file_name(number), archive_file_name(number)):
                if (status := self.status(name)) is not None:
                    return access_like(status)
        return access_of_directory(self.fd)

    def ends_at(self, number: int) -> bool:
        """Return whether a closed file may be the last one: it was shipped here, and the next one was not yet.

        Its own receipt is written after it.
        """
        return self.has(shipped_file_name(number)) or self.has(shipped_file_name(number - 1))

    def log_path(self, number: int) -> str:
        """Return the path of a log file, for messages."""
        return self.file_path(log_file_name(number))

    def path_of(self, number: int) -> str:
        """Return the path of a log file, or of its archive if only that exists."""
        archived = not self.is_file(number) and self.has(archive_file_name(number))
        return self.file_path(archive_file_name(number)) if archived else self.log_path(number)

    def numbers(self) -> list[int]:
        """Return the numbers of the log's files and archives, in order.  Raises: AccessError."""
        found: list[int] = []
        for _ in range(_LISTINGS_MAX):
            found = self.listed()
            # A listing of a large directory takes several calls.  Between them a file may have become an archive, or
            # several cutovers may have made files of which the listing has only some.
            if found and self._missed(found):
                continue
            if not found or not self.is_file(found[-1] + 1):
                break
        return found

    def log_numbers(self) -> list[int]:
        """Return `numbers`, which must not be empty.

        Raises: NotFoundError if the directory has no file of a log; AccessError, CorruptError.
        """
        found = self.numbers()
        if not found:
            raise NotFoundError(f"{self.path} is not a log: it has no file such as {log_file_name(NUMBER_FIRST)}")
        return found

    def listed(self) -> list[int]:
        """Return the numbers that one listing has."""
        names = self.names()
        return sorted({number for name in names if (number := log_file_number(name) or archive_file_number(name))})

    def _missed(self, found: list[int]) -> bool:
        """Return whether a file exists between or just before the listed ones, so that the listing lacks it."""
        if found[-1] == len(found):
            return False  # 1, 2, 3 and so on: none is missing
        # A generator, because a log with files 1 and 99999999 lacks all numbers between them.
        among = (number for before, after in pairwise(found) for number in range(before + 1, after))
        return any(self.exists(number) for number in (found[0] - 1, *islice(among, _LOOK_FOR_MAX)) if number)

    def quarantined(self) -> dict[int, list[str]]:
        """Return the names of quarantined bytes, in order, by the number of their file, from one listing."""
        found: dict[int, list[str]] = {}
        for name in sorted(self.names()):
            if (taken := damaged_file_range(name)) is not None:
                found.setdefault(taken[0], []).append(name)
        return found

    def log_file(self, number: int) -> OpenedFile:
        """Open a log file or its archive.  Raises: NotFoundError; AccessError; CorruptError for an archive."""
        try:
            return OpenedFile(self, log_file_name(number))
        except NotFoundError:
            pass
        try:
            return OpenedFile(self, archive_file_name(number), archived=True)
        except NotFoundError:
            return OpenedFile(self, log_file_name(number))

    def descriptor(self, name: str, *, writable: bool = True) -> Descriptor:
        """Open a file that a forked child must not keep open.  Raises: NotFoundError; AccessError."""
        return Descriptor(self.fd, name, self.file_path(name), writable=writable)

    @contextmanager
    def locked(self, name: str, timeout: float | None, *, writable: bool = True) -> Iterator[int]:
        """Open and lock a file for a block, waiting up to `timeout` seconds for its lock.

        Raises: NotFoundError; AccessError; BusyError after the timeout.
        """
        descriptor = self.descriptor(name, writable=writable)
        fd = descriptor.fd
        try:
            lock(fd, self.file_path(name), timeout)
            yield fd
        finally:
            unlock(fd)
            descriptor.close()

    def disk_bytes(self, name: str) -> int:
        """Return the bytes that a file takes on the disk; 0 if it does not exist."""
        status = self.status(name)
        return 0 if status is None else 512 * status.st_blocks

    def exists(self, number: int) -> bool:
        """Return whether the file or its archive exists."""
        return self.is_file(number) or self.has(archive_file_name(number)) or self.is_file(number)

    def is_file(self, number: int) -> bool:
        """Return whether the log file itself exists, with or without an archive."""
        return self.has(log_file_name(number))

    def read_header(self, number: int) -> LogHeader:
        """Return the checked header of a log file.  Raises: NotFoundError, CorruptError, VersionError, AccessError."""
        with self.log_file(number) as file:
            return self.believe(validated_header(file.content, number, file.path))

    def nearest_native(self, header: LogHeader) -> LogHeader:
        """Return the header of the nearest native file at or before this one; the first file's if none is native.

        Raises: as `read_header`.
        """
        while not header.is_native and self.exists(header.number - 1):
            header = self.read_header(header.number - 1)
        return header

    def believe(self, header: LogHeader) -> LogHeader:
        """Return the header of a file of this log, with the status and next number that the next file confirms.

        Raises: AccessError, CorruptError.
        """
        return believe_status(header, lambda: self._following(header))

    def believed_header(self, fd: int, number: int) -> tuple[LogHeader, LogHeader]:
        """Return the header of a locked file, as stored, and again with the fields that are believed.

        Raises: CorruptError, VersionError, AccessError.
        """
        path = self.log_path(number)
        found = read_header(fd, number, path)
        same_boot = found.boot_id == boot_id()
        header = believe_tail(
            self.believe(found), FileEvidence(fd, path), file_bytes=lambda: content_bytes(fd), same_boot=same_boot
        )
        check_header(header, path)
        return found, header

    def _following(self, header: LogHeader) -> Following:
        number = header.number + 1
        if number > NUMBER_MAX:
            return Following.MISSING
        try:
            with self.log_file(number) as file:
                if file.archive is not None:
                    return Following.IN_USE
                found = read_header(file.content, number, file.path)
        except NotFoundError:
            return Following.MISSING
        except (CorruptError, VersionError):
            return Following.EMPTY  # the file exists, but its header says nothing
        if found.is_native and header.is_native and found.uuid != header.uuid:
            return Following.MISSING  # it belongs to another log
        return Following.EMPTY if found.unused else Following.IN_USE
