"""The key index, as a reader in another process sees it: its files are being written, made and removed meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator

from binlog.commitlog.key_chain import find_offsets
from binlog.errors import CorruptError, NotFoundError
from binlog.format.commitlog.key_index import SLOT_COUNT, KeyIndexSize, key_hash
from binlog.format.commitlog.names import is_index_name
from binlog.format.commitlog.sidecar import News
from binlog.storage.directory import Directory, OpenFile
from binlog.storage.failures import own_errors
from binlog.storage.files import read_at


def slots_of(given: int | None, news: News | None) -> int:
    """How many slots each file has: as `given`, else as the store's owner tells, else as RocketMQ has them."""
    return given or (news.key_slots if news is not None else 0) or SLOT_COUNT


class KeyIndexFileReader:
    """One file."""

    def __init__(self, directory: Directory, name: str, slots: int) -> None:
        """Open it.  Raises: NotFoundError, also while it is being made; CorruptError for a size that none has."""
        self.name = name
        self.path = directory.file_path(name)
        self._file = OpenFile(directory, name, writable=False)
        if self._file.size == 0:
            raise NotFoundError(f"{self.path} is being made")
        try:
            self.size = KeyIndexSize.of(self._file.size, slots)
        except ValueError as error:
            raise CorruptError(self.path, 0, "file_bytes", str(error)) from error

    @property
    def disk_bytes(self) -> int:
        """What it takes on the disk."""
        with own_errors(self.path, "asking for the size"):
            return 512 * os.fstat(self._file.fd).st_blocks

    def read(self, size: int, offset: int) -> bytes:
        """So many bytes from an offset.  Raises: CorruptError where the file was cut."""
        data = read_at(self._file.fd, size, offset, self.path)
        if len(data) < size:
            raise CorruptError(self.path, offset, "file_bytes", f"{size} bytes should be there, and {len(data)} are")
        return data


class KeyIndexReader:
    """The files in `folder`, each of so many slots.  Needs no permission to write.

    Raises, in making one: AccessError.
    """

    def __init__(self, folder: str, slots: int) -> None:
        self.folder = folder
        self.slots = slots
        self._directory = Directory(folder)
        self._open: dict[str, KeyIndexFileReader] = {}

    def files(self) -> list[KeyIndexFileReader]:
        """Those that are there now, the oldest first.  Raises: CorruptError."""
        return [file for name in self.names() if (file := self.file(name)) is not None]

    def names(self) -> list[str]:
        """The names of those that are there now, the oldest first."""
        names = sorted(filter(is_index_name, self._directory.names()))
        for name in self._open.keys() - set(names):
            del self._open[name]
        return names

    def file(self, name: str) -> KeyIndexFileReader | None:
        """The one of this name; None while it is being made, and where it was removed.  Raises: CorruptError."""
        if name not in self._open:
            try:
                self._open[name] = KeyIndexFileReader(self._directory, name, self.slots)
            except NotFoundError:
                return None
        return self._open[name]

    def find(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Where messages lie that may have the key, stored about within these times: newest first."""
        return find_offsets(reversed(self.files()), key_hash(topic, key), begin_ms, end_ms)

    def close(self) -> None:
        """Give its descriptors back."""
        self._open.clear()
        self._directory.close()
