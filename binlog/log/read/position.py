"""FilePosition, a reader's position in one file, and the files that may get records after their close.

A jPOS writer reads a file's status before it takes the lock.  If a cutover happens in between, its record is appended
to a file that was just closed.  So a cursor keeps the files that it left, reads their headers again while it has
nothing else to read, and returns such records out of order, with their own refs.  It keeps a file until it has left the
next one too, and for longer than a jPOS writer waits for a lock, which is 5 s.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from binlog.errors import AccessError, CorruptError
from binlog.log.read.file_reader import FileReader


@dataclass(slots=True, eq=False)
class FilePosition:
    """The offset of the next record to read, and its sequence number if that is known.

    end_seen: the last record has been read, and no next file was found.
    """

    file: FileReader
    offset: int
    sequence: int | None
    end_seen: bool = False

    @classmethod
    def first(cls, file: FileReader) -> FilePosition:
        """Return the position of the file's first record."""
        header = file.header
        return cls(file, header.first_offset, header.first_sequence if header.is_native else None)

    @property
    def has_more(self) -> bool:
        """Whether there is a record at the position, by the header read last."""
        return self.offset < self.file.header_cache.tail

    def refresh(self) -> bool:
        """Return whether there is a record at the position, reading the header again if necessary."""
        cache = self.file.header_cache
        return self.offset < cache.tail or self.offset < cache.refresh()

    def advance(self, offset: int, sequence: int | None) -> None:
        """Move to `offset`, the end of records that were read."""
        self.sequence = sequence
        self.offset = offset


KEEP_SECONDS = 10.0
# How often the files of a log are checked in which no other program was seen to write.
_CHECK_SECONDS = 5.0
# Bounds the descriptors if the log cuts over many times a second.
_FILES_MAX = 32


class AfterCloseRecords:
    """The files that a cursor left, oldest first, and records that another program appended to one after its close."""

    def __init__(self) -> None:
        self._left: deque[tuple[float, FilePosition]] = deque()
        self._checked = 0.0

    def add(self, place: FilePosition) -> None:
        """Keep a file that the cursor just left."""
        self._left.append((time.monotonic(), place))
        self._checked = 0.0  # due at once

    @property
    def has_foreign_writers(self) -> bool:
        """Whether another program is known to write to one of the files."""
        return any(place.file.header_cache.has_foreign_writers for _, place in self._left)

    def refresh(self) -> FilePosition | None:
        """Return the position of a record that was appended after the close, if there is one."""
        if not self._left:
            return None
        now = time.monotonic()
        if not self.has_foreign_writers and now - self._checked < _CHECK_SECONDS:
            return None
        self._checked = now
        for each in list(self._left):
            if self._has_more(each):
                return each[1]
        while len(self._left) > 1 and (now - self._left[0][0] > KEEP_SECONDS or len(self._left) > _FILES_MAX):
            self._left.popleft()[1].file.close()  # it was checked just now
        return None

    def _has_more(self, left: tuple[float, FilePosition]) -> bool:
        try:
            return left[1].refresh()
        except (CorruptError, AccessError):
            if left[1].file.intact:
                raise
            self._left.remove(left)  # other code of this process closed its descriptor
            return False

    def close(self) -> None:
        """Close the files."""
        for _, place in self._left:
            place.file.close()
