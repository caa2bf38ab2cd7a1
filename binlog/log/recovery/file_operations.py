"""What recovery does to files and to names: on the disk, or in the crash model, where a process dies in between.

DiskFile (storage/files.py) is a File, and LogDirectory a Directory; stress/model/disk.py has the other ones.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from binlog.storage.file_access import FileAccess
from binlog.storage.files import ByteSource


class Readable(Protocol):
    """A log file.  content: what it is read from.  path: for messages."""

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


def replace_file(directory: Directory, name: str, draft: str, data: bytes, access: FileAccess) -> None:
    """Have a file hold `data`, durably, whatever it held.  draft: its name until then.

    Raises: FullError; PoisonedError; AccessError.
    """
    directory.remove(draft)
    with directory.created(draft, access) as file:
        file.write(data, 0)
        file.sync()
    directory.rename(draft, name)
