"""A log's directory: which files it has, and opening them by number.

An archive may lie there in place of a closed file.  Where both are there, the file counts: whoever archived it died
before it could go.  An archive gets its name before its file loses its own, but who looks for the one and then for the
other may miss both; so whoever finds neither looks once more.

A log file open for reading, be it a file of its own or an archive.
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
)
from binlog.log.files.header import check_header, read_header, validated_header
from binlog.log.recovery.evidence import FileEvidence, Following, believe_status, believe_tail
from binlog.storage.boot import boot_id
from binlog.storage.descriptors import AT_FDCWD, Descriptor, Identity, identity_of, is_identity
from binlog.storage.directory import FOLDER_FLAGS, Directory
from binlog.storage.file_access import FileAccess, access_like, access_of_directory
from binlog.storage.files import Content, content_bytes
from binlog.storage.locking.locks import lock, unlock

if TYPE_CHECKING:
    from binlog.log.archive.archive_content import ArchiveContent


class OpenedFile:
    """What is read of a log file, and what the file system has of it.

    name: in the directory, of the file or its archive.
    path: of it.  content: its bytes.  archive: what they are read from; None for a file.
    fd: of whichever it is, to ask the file system with; offsets in an archive are not those of the log file.
    Raises: NotFoundError; AccessError; CorruptError for an archive.
    """

    __slots__ = ("_directory", "archive", "content", "fd", "identity", "path")

    def __init__(self, directory: Directory, name: str, *, archived: bool = False) -> None:
        self.path = directory.file_path(name)
        self._directory = directory
        self.fd, status = directory.open_regular(name)
        self.identity = Identity(status.st_dev, status.st_ino)
        self.archive: ArchiveContent | None = None
        self.content: Content = self.fd
        if archived:
            # Loaded when used: a log without archives has no need of it.
            from binlog.log.archive.archive_content import ArchiveContent

            try:
                self.content = self.archive = ArchiveContent(self.fd, self.path)
            except BaseException:
                self.close()
                raise

    @property
    def modified_ns(self) -> int:
        """When the log file was last written to: an archive has its time."""
        return os.fstat(self.fd).st_mtime_ns

    @property
    def intact(self) -> bool:
        """Whether the descriptor was not closed behind our back."""
        return is_identity(self.fd, self.identity)

    def close(self) -> None:
        """Give it back; a second call does nothing."""
        fd, self.fd = self.fd, -1
        self._directory.close_file(fd, self.identity)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# Of the numbers that a listing lacks, so many are looked for: a log has no gaps, so there is hardly ever one.
_LOOK_FOR_MAX = 64

# How often a directory is listed at most.  Once more is enough, but where listings lag behind names (nfs(5)).
_LISTINGS_MAX = 100


class LogDirectory(Directory):
    """A directory held open, so that no name is looked up in another one; see `check_there` for one that was moved.

    absolute: the path from the root, where the directory was when it was opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(os.fspath(path))
        self.identity = identity_of(self.fd)
        # Not normalized: `link/..` is not where the link is.
        self.absolute = self.path if os.path.isabs(self.path) else os.path.join(os.getcwd(), self.path)
        self._root = os.stat("/")

    @property
    def intact(self) -> bool:
        """Whether the descriptor was not closed behind our back."""
        return is_identity(self.fd, self.identity)

    def check_there(self) -> None:
        """Raise GoneError if the path does not lead to this directory any more.

        If the descriptor was closed behind our back, as a daemon does, the directory is opened again.
        """
        if not self.intact:
            fd = self._open_at(AT_FDCWD, self.absolute, FOLDER_FLAGS)
            if fd < 0:
                raise GoneError(f"{self.path}: the directory is not there any more ({os.strerror(-fd)})")
            if identity_of(fd) != self.identity:
                self.close_file(fd)
                raise GoneError(f"{self.path}: another directory has this path now")
            self.fd = fd
        elif os.fstat(self.fd).st_nlink == 0:
            raise GoneError(f"{self.path}: the directory was removed")
        elif not self._leads_here():
            raise GoneError(f"{self.path}: the directory was moved or replaced; this path does not lead to it any more")

    def _leads_here(self) -> bool:
        """Whether the path leads here, or cannot be followed from where this process is by now."""
        return self._at_path() == self.identity or not os.path.samestat(os.stat("/"), self._root)

    def _at_path(self) -> Identity | None:
        try:
            status = os.stat(self.absolute)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            return self.identity  # after setuid(2), say, this process may not look there
        return Identity(status.st_dev, status.st_ino)

    def place_of(self, name: str) -> tuple[int, str]:
        """From where, and by what name, the compiled code looks for a file: by its path, if that can be followed."""
        try:
            status = os.stat(self.absolute)
        except OSError:
            return self.fd, name
        followed = Identity(status.st_dev, status.st_ino) == self.identity
        return (AT_FDCWD, os.path.join(self.absolute, name)) if followed else (self.fd, name)

    def check_leads_to(self, number: int, identity: Identity) -> bool:
        """As `leads_to`, by way of the path.  Raises: GoneError, as `check_there`."""
        with suppress(OSError):
            status = os.stat(os.path.join(self.absolute, log_file_name(number)), follow_symlinks=False)
            if Identity(status.st_dev, status.st_ino) == identity:
                return True
        self.check_there()
        return self.leads_to(number, identity)

    def leads_to(self, number: int, identity: Identity) -> bool:
        """Whether the name of a log file leads to the file that was opened by it."""
        status = self.status(log_file_name(number))
        return status is not None and Identity(status.st_dev, status.st_ino) == identity

    def access(self) -> FileAccess:
        """Owner, group and mode of the newest log file, or of the first one of a log without files."""
        for number in reversed(self.listed()):
            for name in (log_file_name(number), archive_file_name(number)):
                if (status := self.status(name)) is not None:
                    return access_like(status)
        return access_of_directory(self.fd)

    def log_path(self, number: int) -> str:
        """The path of a log file, for messages."""
        return self.file_path(log_file_name(number))

    def path_of(self, number: int) -> str:
        """The same, or that of its archive where there is only that."""
        archived = not self.is_file(number) and self.has(archive_file_name(number))
        return self.file_path(archive_file_name(number)) if archived else self.log_path(number)

    def numbers(self) -> list[int]:
        """The numbers of the log's files, archives among them, in order.  Raises: AccessError."""
        found: list[int] = []
        for _ in range(_LISTINGS_MAX):
            found = self.listed()
            # A listing of a large directory takes several calls, between which a file may have become an archive, or
            # several cutovers may have happened, of whose files it has some.
            if found and self._missed(found):
                continue
            if not found or not self.is_file(found[-1] + 1):
                break
        return found

    def log_numbers(self) -> list[int]:
        """Return `numbers`, of which a log has one at least.

        Raises: NotFoundError if the directory holds no file of a log; AccessError, CorruptError.
        """
        found = self.numbers()
        if not found:
            raise NotFoundError(f"{self.path} is not a log: it has no file such as {log_file_name(NUMBER_FIRST)}")
        return found

    def listed(self) -> list[int]:
        """The numbers in one listing."""
        names = self.names()
        return sorted({number for name in names if (number := log_file_number(name) or archive_file_number(name))})

    def _missed(self, found: list[int]) -> bool:
        """Whether a file is there that belongs among those found, or before them."""
        if found[-1] == len(found):
            return False  # they are 1, 2, 3 and so on: none is lacking
        # One by one: of a log with files 1 and 99999999 all numbers in between are lacking.
        among = (number for before, after in pairwise(found) for number in range(before + 1, after))
        return any(self.exists(number) for number in (found[0] - 1, *islice(among, _LOOK_FOR_MAX)) if number)

    def set_aside(self) -> dict[int, list[str]]:
        """The names of what was set aside, in order, by the file that it was taken from: from one listing."""
        found: dict[int, list[str]] = {}
        for name in sorted(self.names()):
            if (taken := damaged_file_range(name)) is not None:
                found.setdefault(taken[0], []).append(name)
        return found

    def log_file(self, number: int) -> OpenedFile:
        """A log file to read, or its archive.  Raises: NotFoundError; AccessError; CorruptError for an archive."""
        try:
            return OpenedFile(self, log_file_name(number))
        except NotFoundError:
            pass
        try:
            return OpenedFile(self, archive_file_name(number), archived=True)
        except NotFoundError:
            return OpenedFile(self, log_file_name(number))

    def descriptor(self, name: str, *, writable: bool = True) -> Descriptor:
        """Open a file that a forked child is not to keep.  Raises: NotFoundError; AccessError."""
        return Descriptor(self.fd, name, self.file_path(name), writable=writable)

    @contextmanager
    def locked(self, name: str, timeout: float | None, *, writable: bool = True) -> Iterator[int]:
        """Have a file open and locked for a block, once whoever locked it is done, as `lock`.

        Raises: NotFoundError; AccessError; BusyError after so many seconds.
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
        """What a file takes on the disk; 0 if it is not there."""
        status = self.status(name)
        return 0 if status is None else 512 * status.st_blocks

    def exists(self, number: int) -> bool:
        """Whether the file is there, or its archive."""
        return self.is_file(number) or self.has(archive_file_name(number)) or self.is_file(number)

    def is_file(self, number: int) -> bool:
        """Whether it is there as a file, whatever archive there is of it."""
        return self.has(log_file_name(number))

    def read_header(self, number: int) -> LogHeader:
        """The checked header of a log file.  Raises: NotFoundError, CorruptError, VersionError, AccessError."""
        with self.log_file(number) as file:
            return self.believe(validated_header(file.content, number, file.path))

    def nearest_own(self, header: LogHeader) -> LogHeader:
        """The header of the nearest file of ours, at a file or before it; the first file's if others made them all.

        Raises: as `read_header`.
        """
        while not header.is_native and self.exists(header.number - 1):
            header = self.read_header(header.number - 1)
        return header

    def believe(self, header: LogHeader) -> LogHeader:
        """The header of a file of this log, with the status and the next number that are believed.

        Raises: AccessError, CorruptError.
        """
        return believe_status(header, lambda: self._following(header))

    def believed_header(self, fd: int, number: int) -> tuple[LogHeader, LogHeader]:
        """The header of a file whose lock is held: as it lies there, and with the fields that are believed.

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
            return Following.EMPTY  # there is a file; what it holds does not tell
        if found.is_native and header.is_native and found.uuid != header.uuid:
            return Following.MISSING  # another log's
        return Following.EMPTY if found.unused else Following.IN_USE
