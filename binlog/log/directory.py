"""A log's directory: which files it has, and opening them by number."""

from __future__ import annotations

import os

from binlog.format.log_header import LogHeader
from binlog.format.names import log_file_name, log_file_number
from binlog.log.header_reading import settled_header
from binlog.storage.failures import own_errors
from binlog.storage.files import open_directory, open_file


class LogDirectory:
    """A directory held open, so that a rename above it leads nobody astray.

    A forked child may go on using it: it has no lock, and its one position, that of a listing, is never used.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.fd = -1  # what `close` finds where opening fails
        self.fd = open_directory(self.path)

    def file_path(self, number: int) -> str:
        """The path of a log file, for messages."""
        return os.path.join(self.path, log_file_name(number))

    def names(self) -> list[str]:
        """Every name in the directory."""
        with own_errors(self.path, "listing the directory"):
            # A descriptor of its own: a fork or another thread that lists would share this one's position.
            fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.fd)
            try:
                return os.listdir(fd)
            finally:
                os.close(fd)

    def numbers(self) -> list[int]:
        """The numbers of the log files there are, in order."""
        return sorted(number for name in self.names() if (number := log_file_number(name)) is not None)

    def open(self, number: int, *, writable: bool = False) -> int:
        """A descriptor of a log file.  Raises: NotFoundError; AccessError."""
        return open_file(self.fd, log_file_name(number), self.file_path(number), writable=writable)

    def exists(self, number: int) -> bool:
        """Whether the file is there."""
        try:
            os.stat(log_file_name(number), dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def read_header(self, number: int) -> LogHeader:
        """The checked header of a log file.  Raises: NotFoundError, CorruptError, VersionError, AccessError."""
        fd = self.open(number)
        try:
            return settled_header(fd, number, self.file_path(number))
        finally:
            os.close(fd)

    def close(self) -> None:
        """Give the directory back."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()
