"""Files as the kernel keeps them: what the page cache shows, and what the disk holds.

Bytes reach the disk in units that are written whole, at any time and in any order: sectors of 512 bytes, and where a
run asks for it the header's 64-byte lines.  A sync error is told as Linux does it: once to each descriptor that was
open before it, and to a later one only where nobody was told yet; the pages are clean afterwards, whatever the disk
has.
"""

from __future__ import annotations

from functools import lru_cache
from random import Random

from binlog.format import log_header
from binlog.format.crc import crc32c
from binlog.format.log_header import HEADER_BYTES, LogHeader, parse_log_header

SECTOR_BYTES = 512
LINE_BYTES = 64
FILE_BYTES = 24 * SECTOR_BYTES

vars(log_header)["crc32c"] = crc32c  # the compiled twin, for speed; a test holds the two equal


@lru_cache(maxsize=1 << 14)
def _parse(data: bytes) -> LogHeader:
    return parse_log_header(data, path="model")


class SimFile:
    """One log file, of a fixed size; space beyond the tail reads as zeros."""

    def __init__(self, number: int, *, torn_lines: bool) -> None:
        self.number = number
        self.cache = bytearray(FILE_BYTES)
        self.disk = bytearray(FILE_BYTES)
        self.dirty: set[int] = set()
        self.errors = 0
        self.error_told = False
        self.settled_boot = b""  # in which one of ours last put it right
        lines = range(0, HEADER_BYTES if torn_lines else 0, LINE_BYTES)
        after = HEADER_BYTES if torn_lines else 0
        starts = [*lines, after, *range(SECTOR_BYTES, FILE_BYTES, SECTOR_BYTES)]
        self.units = list(zip(starts, [*starts[1:], FILE_BYTES], strict=True))
        self._sectors: list[list[int]] = [[] for _ in range(0, FILE_BYTES, SECTOR_BYTES)]
        for index, start in enumerate(starts):
            self._sectors[start // SECTOR_BYTES].append(index)

    def read(self, start: int, end: int) -> bytes:
        return bytes(self.cache[start:end])

    def header(self) -> LogHeader:
        return _parse(bytes(self.cache[:HEADER_BYTES]))

    def header_on_disk(self) -> LogHeader:
        return _parse(bytes(self.disk[:HEADER_BYTES]))

    def write(self, data: bytes, offset: int) -> None:
        end = offset + len(data)
        assert end <= FILE_BYTES
        self.cache[offset:end] = data
        # A sector is dirty as a whole, in whatever parts it comes to the disk.
        for sector in range(offset // SECTOR_BYTES, -(-end // SECTOR_BYTES)):
            self.dirty.update(self._sectors[sector])

    def write_back(self, index: int, *, fails: bool) -> None:
        """The kernel writes one dirty unit."""
        start, end = self.units[index]
        self.dirty.discard(index)
        if fails:
            self.errors += 1
            self.error_told = False
        else:
            self.disk[start:end] = self.cache[start:end]

    def evict(self) -> None:
        """Memory is short: clean pages go, and are read from the disk again."""
        for index, (start, end) in enumerate(self.units):
            if index not in self.dirty:
                self.cache[start:end] = self.disk[start:end]

    def lose_power(self, random: Random) -> None:
        """Some of the dirty units had been written; the cache is gone."""
        for index in sorted(self.dirty):
            if random.random() < 0.5:
                self.write_back(index, fails=False)
        self.dirty.clear()
        self.cache[:] = self.disk
        self.errors, self.error_told = 0, False


class SimDescriptor:
    """An open file: it is told of the errors since it was opened."""

    def __init__(self, file: SimFile) -> None:
        self.file = file
        self._seen = file.errors if file.error_told or not file.errors else file.errors - 1

    def sync(self, failing: frozenset[int] = frozenset()) -> bool:
        """Write all that is dirty, and say whether all went well.  failing: units whose write fails."""
        file = self.file
        for index in sorted(file.dirty):
            file.write_back(index, fails=index in failing)
        if file.errors > self._seen:
            self._seen = file.errors
            file.error_told = True
            return False
        return True


class SimEvidence:
    """What a file's bytes prove, as binlog.log.evidence.FileEvidence says it of a real one.

    blind: a planted mistake: every CRC is taken to hold.
    """

    def __init__(self, file: SimFile, *, blind: bool = False) -> None:
        self._file = file
        self._blind = blind

    def crc_holds(self, start: int, end: int, crc: int) -> bool:
        return self._blind or (end <= FILE_BYTES and crc32c(self._file.read(start, end)) == crc)

    def chain_end(self, start: int, end: int) -> int:
        while start + 4 <= end:
            after = start + 4 + int.from_bytes(self._file.read(start, start + 4), "big")
            if after > end:
                break
            start = after
        return start

    def blank(self, start: int, end: int) -> bool:
        return not any(self._file.cache[start:end])

    def proven_end(self, start: int, end: int) -> int:
        return start
