"""What a disk holds after syncs that failed, as the kernel was seen to do it on ext4, xfs and btrfs.

A sync that fails says so once.  What it was to write is clean from then on: the new bytes stay in the page cache, where
everybody reads them, and are never written, unless somebody writes there again; the next sync says that all is well.
After a power cut the old bytes are back.  (Names and sizes are taken to be durable at once: those are the power
part's.)

What is dirty, or clean, as one are the blocks of the file system, which mkfs.ext4(8) may make as small as here; a store
through a mapping has all blocks of its page be dirty.
"""

from __future__ import annotations

import random
from collections import defaultdict

from stress.crash.trace import Event, Kind

_BLOCK_BYTES = 1024
_PAGE_BYTES = 4096


class _File:
    """cache and disk: without the zeros at their ends, which most of a file that was made larger is."""

    def __init__(self) -> None:
        self.size = 0
        self.cache = bytearray()
        self.disk = bytearray()
        self.dirty: set[int] = set()

    def resize(self, size: int) -> None:
        self.size = size
        del self.cache[size:]
        del self.disk[size:]

    def write(self, offset: int, data: bytes, unit: int) -> None:
        end = offset + len(data)
        self.size = max(self.size, end)
        _lengthen(self.cache, offset)
        self.cache[offset:end] = data
        first, last = offset // unit, (end - 1) // unit
        self.dirty.update(range(first * unit // _BLOCK_BYTES, (last + 1) * unit // _BLOCK_BYTES))

    def sync(self, blocks: set[int]) -> None:
        for block in blocks:
            part = slice(block * _BLOCK_BYTES, (block + 1) * _BLOCK_BYTES)
            if part.start < len(self.cache):
                _lengthen(self.disk, part.start)
                self.disk[part] = self.cache[part]


def _lengthen(data: bytearray, size: int) -> None:
    data.extend(bytes(max(size - len(data), 0)))


class LossyDisk:
    """Takes the calls of a run, from before its log was made, and tells what is on the disk."""

    def __init__(self) -> None:
        self._files: dict[int, _File] = {}
        self._names: dict[int, dict[str, int]] = defaultdict(dict)

    def take(self, events: list[Event]) -> None:
        """What the calls did, in their order.

        A process that died in a call was killed before it: that is how the striker kills, and the recorder, which is
        asked first, has noted the call.
        """
        for event in (event for event in events if not event.died):
            file = self._files.setdefault(event.inode, _File())
            match event.kind:
                case Kind.CREATE:
                    # It may have the number of a file or a directory that was removed.
                    self._files[event.inode] = _File()
                    self._names.pop(event.inode, None)
                    self._name(event)
                case Kind.LINK | Kind.UNLINK | Kind.RENAME | Kind.MAKE_DIRECTORY:
                    self._name(event)
                case Kind.WRITE if event.data:
                    file.write(event.offset, event.data, _BLOCK_BYTES)
                case Kind.STORE if event.data:
                    file.write(event.offset, event.data, _PAGE_BYTES)
                case Kind.TRUNCATE:
                    file.resize(event.offset)
                case Kind.ALLOCATE:
                    file.resize(max(event.offset, file.size))
                case Kind.SYNC:
                    file.sync(file.dirty)
                    file.dirty.clear()
                case Kind.SYNC_FAILED:
                    file.dirty.clear()

    def _name(self, event: Event) -> None:
        if event.kind is Kind.RENAME:
            self._names[event.other_directory].pop(event.other_name, None)
        if event.kind is Kind.UNLINK:
            self._names[event.directory].pop(event.name, None)
        else:
            self._names[event.directory][event.name] = event.inode
        if event.kind is Kind.MAKE_DIRECTORY:
            self._names[event.inode] = {}

    def names_in(self, directory: int) -> dict[str, int]:
        """The inode of each file in a directory and below it, by its path from there."""
        found = {}
        for name, inode in self._names[directory].items():
            if inode in self._names:
                found.update({f"{name}/{below}": each for below, each in self.names_in(inode).items()})
            else:
                found[name] = inode
        return found

    def image(self, inode: int, chance: random.Random) -> bytes:
        """A file after a power cut: of what no sync was to cover, all, nothing or a part was written all the same."""
        file = self._files.get(inode, _File())
        kept = chance.choice((0.0, 0.5, 1.0))
        result = _File()
        result.cache, result.disk = file.cache, bytearray(file.disk)
        result.sync({block for block in file.dirty if chance.random() < kept})
        return bytes(result.disk).ljust(file.size, b"\0")
