"""A place in one file, from which records are read.

Late records: those that another program adds to a file after it was closed.

A jPOS writer looks at a file's status before it takes the lock, so a cutover may come in between, and its record lands
in a file just closed.  So a cursor keeps the files it left, looks there again while it has nothing else to read, and
gives what it finds out of order, under its own ref.  A file is kept until the one after it was left too, and for longer
than a jPOS writer waits for a lock, which is 5 s.
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

    end_seen: whether its last record has been read, and no file was found after it.
    """

    file: FileReader
    offset: int
    sequence: int | None
    end_seen: bool = False

    @classmethod
    def first(cls, file: FileReader) -> FilePosition:
        """Where the file's first record lies, or will."""
        header = file.header
        return cls(file, header.first_offset, header.first_sequence if header.is_native else None)

    @property
    def has_more(self) -> bool:
        """Whether a record is known to lie here."""
        return self.offset < self.file.known.tail

    def look(self) -> bool:
        """Whether a record lies here, by the header as it is now."""
        known = self.file.known
        return self.offset < known.tail or self.offset < known.look()

    def advance(self, offset: int, sequence: int | None) -> None:
        """Go on to `offset`, behind records that were read here."""
        self.sequence = sequence
        self.offset = offset


KEEP_SECONDS = 10.0
# Files of a log in which no other program was ever seen are looked at only now and then.
_LOOK_SECONDS = 5.0
# A bound on descriptors, for those who cut over many times a second.
_FILES_MAX = 32


class LateRecords:
    """The files that a cursor left, oldest first."""

    def __init__(self) -> None:
        self._left: deque[tuple[float, FilePosition]] = deque()
        self._looked = 0.0

    def add(self, place: FilePosition) -> None:
        """Keep a file that was just left."""
        self._left.append((time.monotonic(), place))
        # With the file before it still to be looked at, this one's first look is due as well.
        self._looked = 0.0

    @property
    def mixed(self) -> bool:
        """Whether another program is known to write to one of them."""
        return any(place.file.known.mixed for _, place in self._left)

    def look(self) -> FilePosition | None:
        """A place where a late record lies, if there is one."""
        if not self._left:
            return None
        now = time.monotonic()
        if not self.mixed and now - self._looked < _LOOK_SECONDS:
            return None
        self._looked = now
        for each in list(self._left):
            if self._has_more(each):
                return each[1]
        while len(self._left) > 1 and (now - self._left[0][0] > KEEP_SECONDS or len(self._left) > _FILES_MAX):
            self._left.popleft()[1].file.close()  # it was looked at just now
        return None

    def _has_more(self, left: tuple[float, FilePosition]) -> bool:
        try:
            return left[1].look()
        except (CorruptError, AccessError):
            if left[1].file.intact:
                raise
            self._left.remove(left)  # closed behind our back, as a daemon closes all descriptors
            return False

    def close(self) -> None:
        """Give the files back."""
        for _, place in self._left:
            place.file.close()
