"""What recovery does to files and to names: on the disk, or in the crash model, which dies in between."""

from __future__ import annotations

from typing import Protocol, Self

from binlog.storage.content import Content
from binlog.storage.file_access import FileAccess


class File(Protocol):
    """An open file: a DiskFile, or one of stress/model.  content: what it is read from.  path: for messages."""

    @property
    def content(self) -> Content: ...

    @property
    def path(self) -> str: ...

    def access(self) -> FileAccess:
        """Owner, group and mode."""

    def write(self, data: bytes, offset: int) -> None:
        """Write all of it.  Raises: FullError; PoisonedError."""

    def sync(self) -> None:
        """Put what was written on stable storage.  Raises: PoisonedError."""

    def close(self) -> None:
        """Give it back."""


class Opened(Protocol):
    """A log file, or its archive, open for reading."""

    @property
    def content(self) -> Content: ...

    @property
    def path(self) -> str: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Directory(Protocol):
    """A log's directory: a LogDirectory, or one of stress/model."""

    @property
    def path(self) -> str: ...

    def names(self) -> list[str]:
        """Every name in it."""

    def numbers(self) -> list[int]:
        """The numbers of the log's files, in order."""

    def opened(self, number: int) -> Opened:
        """A log file to read.  Raises: NotFoundError."""

    def read(self, name: str, size: int) -> bytes:
        """Up to `size` bytes of a file.  Raises: NotFoundError."""

    def create(self, name: str, access: FileAccess) -> File:
        """A new empty file.  Raises: AccessError if the name is taken."""

    def link(self, old: str, new: str) -> bool:
        """Give a file another name, durably; False if that is taken."""

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, durably, in place of whatever had it."""

    def remove(self, name: str) -> None:
        """Remove a name, if it is there."""

    def sync(self) -> None:
        """Make the names durable.  Raises: PoisonedError."""
