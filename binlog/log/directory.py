"""A log's directory: which files it has, and opening them by number.

An archive may lie there in place of a closed file.  Where both are there, the file counts: whoever archived it died
before it could go.  An archive gets its name before its file loses its own, but who looks for the one and then for the
other may miss both; so whoever finds neither looks once more.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice, pairwise

from binlog.errors import AccessError, CorruptError, GoneError, NotFoundError, VersionError
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
from binlog.log.evidence import FileEvidence
from binlog.log.header_reading import check_header, read_header, settled_header
from binlog.log.opened_file import OpenedFile
from binlog.log.witnesses import Following, believe_status, believe_tail
from binlog.storage.boot import boot_id
from binlog.storage.file_access import FileAccess, access_like, access_of_directory
from binlog.storage.files import (
    DiskFile,
    content_bytes,
    create_file,
    has_name,
    link_file,
    list_names,
    open_directory,
    open_file,
    open_named_directory,
    open_regular,
    read_at,
    remove_file,
    rename_file,
    sync_directory,
)
from binlog.storage.identity import AT_FDCWD, Identity, close_own, identity_of, is_identity

# Of the numbers that a listing lacks, so many are looked for: a log has no gaps, so there is hardly ever one.
_LOOK_FOR_MAX = 64

# How often a directory is listed at most.  Once more is enough, but where listings lag behind names (nfs(5)).
_LISTINGS_MAX = 100


class LogDirectory:
    """A directory held open, so that no name is looked up in another one; see `check_there` for one that was moved.

    A forked child may go on using it: it has no lock, and its one position, that of a listing, is never used.

    absolute: the path from the root, where the directory was when it was opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.fd = -1  # what `close` finds where opening fails
        self.fd = open_named_directory(self.path)
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
            try:
                fd = open_directory(self.absolute)
            except AccessError as error:
                raise GoneError(f"{self.path}: the directory is not there any more") from error
            if identity_of(fd) != self.identity:
                os.close(fd)
                raise GoneError(f"{self.path}: another directory has this path now")
            self.fd = fd
        elif os.fstat(self.fd).st_nlink == 0:
            raise GoneError(f"{self.path}: the directory was removed")
        elif not self._leads_here():
            raise GoneError(f"{self.path}: the directory was moved or replaced; this path does not lead to it any more")

    def _leads_here(self) -> bool:
        """Whether the path leads here, or cannot be followed from where this process is by now."""
        if (there := self._at_path()) is None:
            return not os.path.samestat(os.stat("/"), self._root)
        return there == self.identity or not os.path.samestat(os.stat("/"), self._root)

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
        with suppress(FileNotFoundError):
            status = os.stat(log_file_name(number), dir_fd=self.fd, follow_symlinks=False)
            return Identity(status.st_dev, status.st_ino) == identity
        return False

    def access(self) -> FileAccess:
        """Owner, group and mode of the newest log file, or of the first one of a log without files."""
        for number in reversed(self.listed()):
            for name in (log_file_name(number), archive_file_name(number)):
                with suppress(FileNotFoundError):
                    return access_like(os.stat(name, dir_fd=self.fd, follow_symlinks=False))
        return access_of_directory(self.fd)

    def file_path(self, number: int) -> str:
        """The path of a log file, for messages."""
        return os.path.join(self.path, log_file_name(number))

    def path_of(self, number: int) -> str:
        """The same, or that of its archive where there is only that."""
        archived = not self.is_file(number) and self.has(archive_file_name(number))
        return os.path.join(self.path, archive_file_name(number)) if archived else self.file_path(number)

    def names(self) -> list[str]:
        """Every name in the directory."""
        return list_names(self.fd, self.path)

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
        numbers = ((log_file_number(name) or archive_file_number(name)) for name in self.names())
        return sorted({number for number in numbers if number is not None})

    def _missed(self, found: list[int]) -> bool:
        """Whether a file is there that belongs among those found, or before them."""
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

    def opened(self, number: int) -> OpenedFile:
        """A log file to read, or its archive.  Raises: as `open`; CorruptError for an archive."""
        try:
            return self._opened(number)
        except NotFoundError:
            pass
        path = os.path.join(self.path, archive_file_name(number))
        try:
            fd = open_file(self.fd, archive_file_name(number), path, writable=False)
        except NotFoundError:
            return self._opened(number)
        return OpenedFile.of_archive(fd, path)

    def _opened(self, number: int) -> OpenedFile:
        path = self.file_path(number)
        fd, status = open_regular(self.fd, log_file_name(number), path, writable=False)
        return OpenedFile(fd, path, identity=Identity(status.st_dev, status.st_ino))

    def open(self, number: int, *, writable: bool = False) -> int:
        """A descriptor of a log file that is none of an archive.  Raises: NotFoundError; AccessError."""
        return open_file(self.fd, log_file_name(number), self.file_path(number), writable=writable)

    def read(self, name: str, size: int) -> bytes:
        """Up to `size` bytes of a file.  Raises: NotFoundError; AccessError."""
        path = os.path.join(self.path, name)
        fd = open_file(self.fd, name, path, writable=False)
        try:
            return read_at(fd, size, 0, path)
        finally:
            os.close(fd)

    def create(self, name: str, access: FileAccess) -> DiskFile:
        """See `create_file`."""
        path = os.path.join(self.path, name)
        return DiskFile(create_file(self.fd, name, path, access), path)

    def link(self, old: str, new: str) -> bool:
        """See `link_file`."""
        return link_file(self.fd, old, new, os.path.join(self.path, old))

    def rename(self, old: str, new: str) -> None:
        """See `rename_file`."""
        rename_file(self.fd, old, new, os.path.join(self.path, new))

    def remove(self, name: str) -> None:
        """See `remove_file`."""
        remove_file(self.fd, name, os.path.join(self.path, name))

    def sync(self) -> None:
        """See `sync_directory`."""
        sync_directory(self.fd, self.path)

    def exists(self, number: int) -> bool:
        """Whether the file is there, or its archive."""
        return self.is_file(number) or self.has(archive_file_name(number)) or self.is_file(number)

    def is_file(self, number: int) -> bool:
        """Whether it is there as a file, whatever archive there is of it."""
        return self.has(log_file_name(number))

    def has(self, name: str) -> bool:
        """Whether anything has the name."""
        return has_name(self.fd, name, self.path)

    def read_header(self, number: int) -> LogHeader:
        """The checked header of a log file.  Raises: NotFoundError, CorruptError, VersionError, AccessError."""
        with self.opened(number) as file:
            return self.believe(settled_header(file.content, number, file.path))

    def believe(self, header: LogHeader) -> LogHeader:
        """The header of a file of this log, with the status and the next number that are believed.

        Raises: AccessError, CorruptError.
        """
        return believe_status(header, lambda: self._following(header))

    def believed_header(self, fd: int, number: int) -> tuple[LogHeader, LogHeader]:
        """The header of a file whose lock is held: as it lies there, and with the fields that are believed.

        Raises: CorruptError, VersionError, AccessError.
        """
        path = self.file_path(number)
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
            with self.opened(number) as file:
                if file.archive is not None:
                    return Following.IN_USE
                found = read_header(file.content, number, file.path)
        except NotFoundError:
            return Following.MISSING
        except (CorruptError, VersionError):
            return Following.EMPTY  # there is a file; what it holds does not tell
        if found.ours and header.ours and found.uuid != header.uuid:
            return Following.MISSING  # another log's
        return Following.EMPTY if found.unused else Following.IN_USE

    def close(self) -> None:
        """Give the directory back."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            close_own(fd, self.identity)

    def __del__(self) -> None:
        self.close()
