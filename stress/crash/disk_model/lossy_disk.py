"""The disk after failed syncs, as Linux behaves on ext4, xfs and btrfs.

A sync that fails reports it once.  Its blocks are clean afterwards: the new bytes stay in the page cache, where every
process reads them, but are never written unless a process writes there again.  The next sync succeeds.  After a power
cut the old bytes are back.  (Names and sizes are durable at once here: the power part tests those.)

The unit that is dirty or clean is a block of the file system, which mkfs.ext4(8) may make as small as here; a store
through a mapping makes every block of its page dirty.
"""

from __future__ import annotations

import random
from collections import defaultdict

from stress.crash.preloaded.trace import Event, Kind

_BLOCK_BYTES = 1024
_PAGE_BYTES = 4096


class _File:
    """One file.  cache and disk: its bytes without trailing zeros, which most of a file that was extended is."""

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
    """Replays the calls of a run, from before its log was made, and knows the content of the disk."""

    def __init__(self) -> None:
        self._files: dict[int, _File] = {}
        self._names: dict[int, dict[str, int]] = defaultdict(dict)

    def take(self, events: list[Event]) -> None:
        """Apply the calls, in their order.

        A process that died in a call was killed before it: the recorder is called before the injector, so it has noted
        the call.
        """
        for event in (event for event in events if not event.died):
            file = self._files.setdefault(event.inode, _File())
            match event.kind:
                case Kind.CREATE:
                    # A new file may have the inode of a removed file or directory.
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
        """Return the inode of each file in a directory and below, by relative path."""
        found = {}
        for name, inode in self._names[directory].items():
            if inode in self._names:
                found.update({f"{name}/{below}": each for below, each in self.names_in(inode).items()})
            else:
                found[name] = inode
        return found

    def image(self, inode: int, chance: random.Random) -> bytes:
        """Return a file after a power cut: of data that no sync was to cover, all, none or a part was written."""
        file = self._files.get(inode, _File())
        written_share = chance.choice((0.0, 0.5, 1.0))
        result = _File()
        result.cache, result.disk = file.cache, bytearray(file.disk)
        result.sync({block for block in file.dirty if chance.random() < written_share})
        return bytes(result.disk).ljust(file.size, b"\0")
