"""A log file open for reading, be it a file of its own or an archive."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self

from binlog.storage.content import Content
from binlog.storage.identity import Identity, close_own, identity_of, is_identity

if TYPE_CHECKING:
    from binlog.storage.archive_content import ArchiveContent


class OpenedFile:
    """What is read of a log file, and what the file system has of it.

    path: of the file, or of its archive.  content: its bytes.  archive: what they are read from; None for a file.
    fd: of whichever it is, to ask the file system with; offsets in an archive are not those of the log file.
    """

    __slots__ = ("archive", "content", "fd", "identity", "path")

    def __init__(
        self, fd: int, path: str, archive: ArchiveContent | None = None, *, identity: Identity | None = None
    ) -> None:
        self.fd = fd
        self.identity = identity_of(fd) if identity is None else identity
        self.path = path
        self.archive = archive
        self.content: Content = fd if archive is None else archive

    @classmethod
    def of_archive(cls, fd: int, path: str) -> OpenedFile:
        """An archive's.  fd: from here on this object's, whatever happens.  Raises: CorruptError."""
        # Loaded when used: a log without archives has no need of it.
        from binlog.storage.archive_content import ArchiveContent

        return cls(fd, path, ArchiveContent(fd, path))

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
        if self.archive is not None:
            self.archive.close()
        elif fd >= 0:
            close_own(fd, self.identity)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
