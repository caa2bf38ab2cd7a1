"""Reading a folder of mapped files that another process writes, by offsets of the whole.

Reading a message of a commit log that another process may be writing.
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_right
from collections import OrderedDict

from binlog.errors import NotFoundError
from binlog.format.commitlog.indexes import parse_unit
from binlog.format.commitlog.message import StoredMessage, parse_message_at
from binlog.format.commitlog.names import mapped_file_name, mapped_file_offset
from binlog.storage.directory import Directory, OpenFile
from binlog.storage.failures import own_errors
from binlog.storage.files import read_at
from binlog.storage.native import pick_messages

_OPEN_FILES_MAX = 16


class FilesReader:
    """The files in `folder`.  Needs no permission to write.

    One that is removed while it is open goes on being read; `refresh` forgets it.
    Raises, in making one: AccessError, NotFoundError where the folder is missing.
    """

    def __init__(self, folder: str, *, open_max: int = _OPEN_FILES_MAX) -> None:
        """open_max: how many of its files it keeps open."""
        self.folder = folder
        self._open_max = open_max
        self._directory = Directory(folder)
        self._offsets: list[int] = []
        self._open: OrderedDict[int, OpenFile] = OrderedDict()
        self.refresh()

    def refresh(self) -> None:
        """Look again which files there are."""
        found = [mapped_file_offset(name) for name in self._directory.names()]
        self._offsets = sorted(offset for offset in found if offset is not None)
        for offset in self._open.keys() - set(self._offsets):
            del self._open[offset]

    @property
    def min_offset(self) -> int:
        """Where the first file starts; 0 where there is none."""
        return self._offsets[0] if self._offsets else 0

    @property
    def offsets(self) -> list[int]:
        """Where each file starts."""
        return self._offsets

    @property
    def end(self) -> int:
        """Where the last file ends; 0 where there is none."""
        return self._offsets[-1] + self.file_bytes(self._offsets[-1]) if self._offsets else 0

    def file_bytes(self, offset: int) -> int:
        """How long the file is that starts there.  Raises: NotFoundError."""
        with own_errors(self.folder, "asking for sizes"):
            return os.fstat(self._descriptor(offset)).st_size

    def start_of(self, offset: int) -> int:
        """Where the file starts that holds an offset, or the last one before it.  Raises: NotFoundError."""
        if not self._offsets or not self._offsets[0] <= offset < self.end:
            self.refresh()  # others may have come, or gone
        index = bisect_right(self._offsets, offset) - 1
        if index < 0:
            raise NotFoundError(f"{self.folder}: no file has offset {offset}")
        return self._offsets[index]

    def read(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes from an offset, of one file.  Raises: NotFoundError."""
        start = self.start_of(offset)
        return read_at(self._descriptor(start), size, offset - start, self.path_of(start))

    def path_of(self, start: int) -> str:
        """The path of the file that starts there."""
        return os.path.join(self.folder, mapped_file_name(start))

    def disk_bytes(self, start: int) -> int:
        """What that file takes on the disk.  Raises: NotFoundError."""
        with own_errors(self.folder, "asking for sizes"):
            return 512 * os.fstat(self._descriptor(start)).st_blocks

    def skip_hole(self, offset: int) -> int:
        """Return where data comes next in the file that has an offset, or where it ends.  Raises: NotFoundError."""
        start = self.start_of(offset)
        with own_errors(self.path_of(start), "looking for data"):
            try:
                return start + os.lseek(self._descriptor(start), offset - start, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                return max(start + self.file_bytes(start), offset)

    def pick(self, units: memoryview, bytes_max: int) -> tuple[bytes, int]:
        """The bytes of messages to which units of a queue lead, one behind the other, and how many they are.

        Those of one file, and no more than `bytes_max`, but for the first; none where the first is not in its file.
        Raises: NotFoundError where that lies before the first file.
        """
        start = self.start_of(parse_unit(units).offset)
        with own_errors(os.path.join(self.folder, mapped_file_name(start)), "reading messages"):
            return pick_messages(self._descriptor(start), start, self.file_bytes(start), units, bytes_max)

    def _descriptor(self, start: int) -> int:
        file = self._open.get(start)
        if file is None:
            file = self._open[start] = OpenFile(self._directory, mapped_file_name(start), writable=False)
            if len(self._open) > self._open_max:
                self._open.popitem(last=False)
        self._open.move_to_end(start)
        return file.fd

    def close(self) -> None:
        """Give its descriptors back."""
        self._open.clear()
        self._directory.close()


LENGTH_BYTES = 4


def message_at(log: FilesReader, offset: int) -> StoredMessage:
    """The message that lies at an offset.

    Raises: NotFoundError where none is so low or so high; CorruptError where none begins there.
    """
    start = log.start_of(offset)
    size = int.from_bytes(log.read(LENGTH_BYTES, offset), "big")
    if size == 0:
        raise NotFoundError(f"{log.folder}: no message at {offset}")
    rest = start + log.file_bytes(start) - offset
    return parse_message_at(log.read(min(size, rest), offset), offset, log.path_of(start), offset - start)
