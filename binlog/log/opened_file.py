"""A log file open for reading, be it a file of its own or an archive."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self

from binlog.storage.content import Content
from binlog.storage.directory import Directory
from binlog.storage.identity import Identity, is_identity

if TYPE_CHECKING:
    from binlog.storage.archive_content import ArchiveContent


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
            from binlog.storage.archive_content import ArchiveContent

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
