"""The key index, as a reader in another process sees it: its files are being written, made and removed meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator

from binlog.commitlog.key_chain import find_offsets
from binlog.errors import CorruptError, NotFoundError
from binlog.format.commitlog.key_index import SLOT_COUNT, KeyIndexSize, key_hash
from binlog.format.commitlog.names import is_index_name
from binlog.format.commitlog.sidecar import News
from binlog.storage.failures import own_errors
from binlog.storage.files import open_directory, open_file, read_at


def slots_of(given: int | None, news: News | None) -> int:
    """How many slots each file has: as `given`, else as the store's owner tells, else as RocketMQ has them."""
    return given or (news.key_slots if news is not None else 0) or SLOT_COUNT


class KeyIndexFileReader:
    """One file."""

    def __init__(self, directory_fd: int, folder: str, name: str, slots: int) -> None:
        """Open it.  Raises: NotFoundError, also while it is being made; CorruptError for a size that none has."""
        self.name = name
        self.path = os.path.join(folder, name)
        self._fd = open_file(directory_fd, name, self.path, writable=False)
        try:
            self.size = self._size(slots)
        except BaseException:
            os.close(self._fd)
            raise

    def _size(self, slots: int) -> KeyIndexSize:
        with own_errors(self.path, "asking for the size"):
            file_bytes = os.fstat(self._fd).st_size
        if file_bytes == 0:
            raise NotFoundError(f"{self.path} is being made")
        try:
            return KeyIndexSize.of(file_bytes, slots)
        except ValueError as error:
            raise CorruptError(self.path, 0, "file_bytes", str(error)) from error

    @property
    def disk_bytes(self) -> int:
        """What it takes on the disk."""
        with own_errors(self.path, "asking for the size"):
            return 512 * os.fstat(self._fd).st_blocks

    def read(self, size: int, offset: int) -> bytes:
        """So many bytes from an offset.  Raises: CorruptError where the file was cut."""
        data = read_at(self._fd, size, offset, self.path)
        if len(data) < size:
            raise CorruptError(self.path, offset, "file_bytes", f"{size} bytes should be there, and {len(data)} are")
        return data

    def close(self) -> None:
        """Give its descriptor back."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class KeyIndexReader:
    """The files in `folder`, each of so many slots.  Needs no permission to write.

    Raises, in making one: AccessError.
    """

    def __init__(self, folder: str, slots: int) -> None:
        self.folder = folder
        self.slots = slots
        self._directory_fd = open_directory(folder)
        self._open: dict[str, KeyIndexFileReader] = {}

    def files(self) -> list[KeyIndexFileReader]:
        """Those that are there now, the oldest first.  Raises: CorruptError."""
        return [file for name in self.names() if (file := self.file(name)) is not None]

    def names(self) -> list[str]:
        """The names of those that are there now, the oldest first."""
        with own_errors(self.folder, "listing the folder"):
            names = sorted(name for name in os.listdir(self._directory_fd) if is_index_name(name))
        for name in self._open.keys() - set(names):
            self._open.pop(name).close()
        return names

    def file(self, name: str) -> KeyIndexFileReader | None:
        """The one of this name; None while it is being made, and where it was removed.  Raises: CorruptError."""
        if name not in self._open:
            try:
                self._open[name] = KeyIndexFileReader(self._directory_fd, self.folder, name, self.slots)
            except NotFoundError:
                return None
        return self._open[name]

    def find(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Where messages lie that may have the key, stored about within these times: newest first."""
        return find_offsets(reversed(self.files()), key_hash(topic, key), begin_ms, end_ms)

    def close(self) -> None:
        """Give its descriptors back."""
        while self._open:
            self._open.popitem()[1].close()
        fd, self._directory_fd = self._directory_fd, -1
        if fd >= 0:
            os.close(fd)
