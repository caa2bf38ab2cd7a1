"""A reader of a folder of mapped files while another process may write them.

Files are addressed by the offset in the whole run of bytes.
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
from binlog.storage.native import select_messages

_OPEN_FILES_MAX = 16


class FilesReader:
    """A reader of the files in `folder`; it needs no permission to write.

    A file that is removed while it is open can still be read; `refresh` forgets it.
    The constructor raises AccessError, and NotFoundError if the folder is missing.
    """

    def __init__(self, folder: str, *, open_max: int = _OPEN_FILES_MAX) -> None:
        """open_max: how many files stay open."""
        self.folder = folder
        self._open_max = open_max
        self._directory = Directory(folder)
        self._offsets: list[int] = []
        self._open: OrderedDict[int, OpenFile] = OrderedDict()
        self.refresh()

    def refresh(self) -> None:
        """List the files of the folder again."""
        found = [mapped_file_offset(name) for name in self._directory.names()]
        self._offsets = sorted(offset for offset in found if offset is not None)
        for offset in self._open.keys() - set(self._offsets):
            del self._open[offset]

    @property
    def min_offset(self) -> int:
        """Return the start of the first file; 0 if there is none."""
        return self._offsets[0] if self._offsets else 0

    @property
    def offsets(self) -> list[int]:
        """Return the start of each file."""
        return self._offsets

    @property
    def end(self) -> int:
        """Return the end of the last file; 0 if there is none."""
        return self._offsets[-1] + self.file_bytes(self._offsets[-1]) if self._offsets else 0

    def file_bytes(self, offset: int) -> int:
        """Return the size of the file that starts at `offset`.  Raises: NotFoundError."""
        with own_errors(self.folder, "reading the size"):
            return os.fstat(self._descriptor(offset)).st_size

    def start_of(self, offset: int) -> int:
        """Return the start of the file that holds an offset, or of the last file before it.  Raises: NotFoundError."""
        if not self._offsets or not self._offsets[0] <= offset < self.end:
            self.refresh()  # files may have been added or removed
        index = bisect_right(self._offsets, offset) - 1
        if index < 0:
            raise NotFoundError(f"{self.folder}: no file has offset {offset}")
        return self._offsets[index]

    def read(self, size: int, offset: int) -> bytes:
        """Read up to `size` bytes at an offset, from one file.  Raises: NotFoundError."""
        start = self.start_of(offset)
        return read_at(self._descriptor(start), size, offset - start, self.path_of(start))

    def path_of(self, start: int) -> str:
        """Return the path of the file that starts at `start`."""
        return os.path.join(self.folder, mapped_file_name(start))

    def disk_bytes(self, start: int) -> int:
        """Return how many bytes of disk space a file takes.  Raises: NotFoundError."""
        with own_errors(self.folder, "reading the size"):
            return 512 * os.fstat(self._descriptor(start)).st_blocks

    def skip_hole(self, offset: int) -> int:
        """Return the next offset with data in the file that holds `offset`, or its end.  Raises: NotFoundError."""
        start = self.start_of(offset)
        with own_errors(self.path_of(start), "seeking data"):
            try:
                return start + os.lseek(self._descriptor(start), offset - start, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                return max(start + self.file_bytes(start), offset)

    def select(self, units: memoryview, bytes_max: int) -> tuple[bytes, int]:
        """Read messages, given their queue units: return their concatenated bytes, and how many were read.

        Reads from one file, and at most `bytes_max` bytes unless the first message is larger; reads no message if the
        first one is not in the file.
        Raises: NotFoundError if the first one is before the first file.
        """
        start = self.start_of(parse_unit(units).offset)
        with own_errors(os.path.join(self.folder, mapped_file_name(start)), "reading messages"):
            return select_messages(self._descriptor(start), start, self.file_bytes(start), units, bytes_max)

    def _descriptor(self, start: int) -> int:
        file = self._open.get(start)
        if file is None:
            file = self._open[start] = OpenFile(self._directory, mapped_file_name(start), writable=False)
            if len(self._open) > self._open_max:
                self._open.popitem(last=False)
        self._open.move_to_end(start)
        return file.fd

    def close(self) -> None:
        """Close the descriptors."""
        self._open.clear()
        self._directory.close()


LENGTH_BYTES = 4


def message_at(log: FilesReader, offset: int) -> StoredMessage:
    """Return the message at an offset.

    Raises: NotFoundError if the offset is below or above all messages; CorruptError if no message starts there.
    """
    start = log.start_of(offset)
    size = int.from_bytes(log.read(LENGTH_BYTES, offset), "big")
    if size == 0:
        raise NotFoundError(f"{log.folder}: no message at {offset}")
    rest = start + log.file_bytes(start) - offset
    return parse_message_at(log.read(min(size, rest), offset), offset, log.path_of(start), offset - start)
