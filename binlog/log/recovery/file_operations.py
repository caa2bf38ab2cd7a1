"""The file operations of recovery, as protocols: on the disk, or in the crash model.

DiskFile (storage/files.py) is a File, and LogDirectory a Directory. stress/model/disk.py has the others, in which a
process may die between any two operations.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from binlog.storage.file_access import FileAccess
from binlog.storage.files import ByteSource


class Readable(Protocol):
    """A log file.  content: its bytes.  path: for messages."""

    @property
    def content(self) -> ByteSource: ...
    @property
    def path(self) -> str: ...


class File(Readable, Protocol):
    """An open file."""

    def access(self) -> FileAccess: ...
    def write(self, data: bytes, offset: int) -> None: ...
    def sync(self) -> None: ...


class Directory(Protocol):
    """A log's directory."""

    @property
    def path(self) -> str: ...
    def names(self) -> list[str]: ...
    def numbers(self) -> list[int]: ...
    def log_file(self, number: int) -> AbstractContextManager[Readable]: ...
    def read(self, name: str, size: int) -> bytes: ...
    def created(self, name: str, access: FileAccess) -> AbstractContextManager[File]: ...
    def link(self, old: str, new: str) -> bool: ...
    def rename(self, old: str, new: str) -> None: ...
    def remove(self, name: str) -> None: ...
    def sync(self) -> None: ...


def replace_file(directory: Directory, name: str, unfinished: str, data: bytes, access: FileAccess) -> None:
    """Replace the contents of a file, durably and atomically.  unfinished: its name until it is complete.

    Raises: FullError; PoisonedError; AccessError.
    """
    directory.remove(unfinished)
    with directory.created(unfinished, access) as file:
        file.write(data, 0)
        file.sync()
    directory.rename(unfinished, name)
