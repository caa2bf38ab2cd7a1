"""Files as the kernel keeps them: the page cache and the disk.

Bytes reach the disk in sectors of 512 bytes, each as a whole, at any time and in any order.  If the power fails, in
some runs the header's 64-byte lines reach it separately.  A sync error is reported as Linux does: once to each
descriptor that was open before it, and to a later one only if no other has received it.  The pages are clean
afterwards, whatever the disk has.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING, Self

from binlog.errors import NotFoundError, PoisonedError
from binlog.format import log_header
from binlog.format.checksums import crc32c
from binlog.format.log_header import HEADER_BYTES, LogHeader, parse_log_header
from binlog.format.names import log_file_name
from binlog.storage.file_access import FileAccess

if TYPE_CHECKING:
    from stress.model.world import World

SECTOR_BYTES = 512
LINE_BYTES = 64
FILE_BYTES = 24 * SECTOR_BYTES
PATH = "/nowhere"

vars(log_header)["crc32c"] = crc32c  # the compiled twin is faster, and a test compares the two


@lru_cache(maxsize=1 << 14)
def _parse(data: bytes) -> LogHeader:
    return parse_log_header(data, path="model")


class SimFile:
    """One file of a fixed size; bytes never written are zeros.  number: of a log file, 0 for another."""

    def __init__(self, number: int, *, torn_lines: bool) -> None:
        self.number = number
        self.cache = bytearray(FILE_BYTES)
        self.disk = bytearray(FILE_BYTES)
        self.end = 0  # how far it was written, which is the size of a small file
        self.dirty: set[int] = set()
        self.errors = 0
        self.error_reported = False
        self.recovered_boot = b""  # the boot in which a writer of ours last recovered it
        lines = range(0, HEADER_BYTES if torn_lines else 0, LINE_BYTES)
        after = HEADER_BYTES if torn_lines else 0
        starts = [*lines, after, *range(SECTOR_BYTES, FILE_BYTES, SECTOR_BYTES)]
        self.units = list(zip(starts, [*starts[1:], FILE_BYTES], strict=True))
        self._sectors: list[list[int]] = [[] for _ in range(0, FILE_BYTES, SECTOR_BYTES)]  # the units of each
        for index, start in enumerate(starts):
            self._sectors[start // SECTOR_BYTES].append(index)

    def read(self, start: int, end: int) -> bytes:
        return bytes(self.cache[start:end])

    def header(self) -> LogHeader:
        return _parse(bytes(self.cache[:HEADER_BYTES]))

    def write(self, data: bytes, offset: int) -> None:
        end = offset + len(data)
        assert end <= FILE_BYTES
        self.cache[offset:end] = data
        self.end = max(self.end, end)
        # A sector becomes dirty as a whole, though its parts may reach the disk separately.
        for sector in range(offset // SECTOR_BYTES, -(-end // SECTOR_BYTES)):
            self.dirty.update(self._sectors[sector])

    def write_back(self, index: int, *, fails: bool) -> None:
        """Write the sector of a dirty unit, as the kernel does in the background."""
        sector = self._sectors[self.units[index][0] // SECTOR_BYTES]
        if fails:
            self.errors += 1
            self.error_reported = False
        else:
            for each in self.dirty.intersection(sector):
                self._reach_disk(each)
        self.dirty.difference_update(sector)

    def _reach_disk(self, index: int) -> None:
        start, end = self.units[index]
        self.disk[start:end] = self.cache[start:end]

    def evict(self) -> None:
        """Drop clean pages, as the kernel does if memory is short; they are read from the disk again."""
        for index, (start, end) in enumerate(self.units):
            if index not in self.dirty:
                self.cache[start:end] = self.disk[start:end]

    def lose_power(self, random: Random) -> None:
        """Write some of the dirty units, and lose the cache."""
        for index in sorted(self.dirty):
            if random.random() < 0.5:
                self._reach_disk(index)
        self.dirty.clear()
        self.cache[:] = self.disk
        self.errors, self.error_reported = 0, False


class SimDescriptor:
    """An open file, which receives the errors since it was opened.  For recovery, a `file_operations.File`."""

    file_bytes = FILE_BYTES

    def __init__(self, world: World, file: SimFile, name: str) -> None:
        self.file = file
        self.path = os.path.join(PATH, name)
        self._world = world
        self._seen = file.errors if file.error_reported or not file.errors else file.errors - 1

    @property
    def content(self) -> Self:
        """The descriptor itself: see binlog.storage.files."""
        return self

    def read(self, size: int, offset: int) -> bytes:
        return self.file.read(offset, offset + size)

    def frame_start(self, _: int) -> int:
        return 0

    def frame_end(self, _: int) -> int:
        return FILE_BYTES

    def access(self) -> FileAccess:
        return FileAccess(0, 0, 0, required=False)

    def write(self, data: bytes, offset: int) -> None:
        self._world.step()
        self.file.write(data, offset)

    def sync(self) -> None:
        """Raises: PoisonedError."""
        self._world.step()
        if self._world.sync(self) or (self._world.has("sync-retried") and self._world.sync(self)):
            return
        raise PoisonedError("sync")

    def flush(self, failing: frozenset[int] = frozenset()) -> bool:
        """Write everything dirty; return whether no error was reported.  failing: units whose write fails."""
        file = self.file
        for index in sorted(file.dirty):
            if index in file.dirty:  # its sector was not written with an earlier unit
                file.write_back(index, fails=index in failing)
        if file.errors > self._seen:
            self._seen = file.errors
            file.error_reported = True
            return False
        return True


class SimDirectory:
    """The names, and which of their changes are durable.  For recovery, a `file_operations.Directory`."""

    path = PATH

    def __init__(self, world: World) -> None:
        self.files: dict[str, SimFile] = {}
        self._durable: dict[str, SimFile] = {}
        self._changes: list[dict[str, SimFile | None]] = []  # each is kept or lost as a whole
        self._world = world

    @property
    def logs(self) -> dict[int, SimFile]:
        """The log files, by number."""
        return {file.number: file for file in self.files.values() if file.number}

    def names(self) -> list[str]:
        return list(self.files)

    def numbers(self) -> list[int]:
        return sorted(self.logs)

    def log_file(self, number: int) -> nullcontext[SimDescriptor]:
        """Raises: NotFoundError."""
        return nullcontext(self._open(log_file_name(number)))

    def read(self, name: str, size: int) -> bytes:
        """Raises: NotFoundError."""
        descriptor = self._open(name)
        return descriptor.read(min(size, descriptor.file.end), 0)

    def created(self, name: str, _: FileAccess) -> nullcontext[SimDescriptor]:
        self._world.step()
        assert name not in self.files
        self.change({name: SimFile(0, torn_lines=False)})
        return nullcontext(self._open(name))

    def link(self, old: str, new: str) -> bool:
        self._world.step()
        if new in self.files or old not in self.files:
            return False
        self.change({new: self.files[old]})
        self.remove(old)
        self.sync()
        return True

    def rename(self, old: str, new: str) -> None:
        self._world.step()
        self.change({new: self.files[old], old: None})
        self.sync()

    def remove(self, name: str) -> None:
        self._world.step()
        self.change({name: None})

    def sync(self) -> None:
        self._world.step()
        self.keep_names()

    def keep_names(self) -> None:
        """Make the present names durable."""
        self._durable = dict(self.files)
        self._changes.clear()

    def change(self, names: dict[str, SimFile | None]) -> None:
        """Give each name its file, or remove it."""
        self._changes.append(names)
        self._apply(names)

    def _apply(self, names: dict[str, SimFile | None]) -> None:
        for name, file in names.items():
            self.files.pop(name, None)
            if file is not None:
                self.files[name] = file

    def lose_power(self, random: Random) -> None:
        """Keep some of the changes that were not durable."""
        self.files = dict(self._durable)
        for change in self._changes:
            if random.random() < 0.5:
                self._apply(change)
        for file in dict.fromkeys(self.files.values()):
            file.lose_power(random)
        self.keep_names()

    def _open(self, name: str) -> SimDescriptor:
        if name not in self.files:
            raise NotFoundError(name)
        return SimDescriptor(self._world, self.files[name], name)
