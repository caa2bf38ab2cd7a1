"""What a log file's bytes prove to recovery: see recovery_table.Evidence."""

from __future__ import annotations

from binlog.log.chain import good_end, is_blank
from binlog.storage.checksum import crc32c
from binlog.storage.files import read_at

_READ_BYTES = 1 << 20


class FileEvidence:
    """Reads a file through the page cache, a MiB at a time."""

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self._path = path

    def crc_holds(self, start: int, end: int, crc: int) -> bool:
        """Whether the bytes are all there and have this CRC-32C."""
        found = 0
        while start < end:
            data = read_at(self._fd, min(_READ_BYTES, end - start), start, self._path)
            if not data:
                return False
            found = crc32c(data, found)
            start += len(data)
        return found == crc

    def chain_end(self, start: int, end: int) -> int:
        """Where the longest run of whole records ends."""
        return good_end(self._fd, start, end, self._path)

    def blank(self, start: int, end: int) -> bool:
        """Whether all bytes are zero."""
        return is_blank(self._fd, start, end, self._path)

    def proven_end(self, start: int, end: int) -> int:
        """How far the index proves the bytes."""
        return start
