"""HashStore: the hashes of a log's tree, in files.

Level 0 has the hashes of the leaves.  256 hashes are a tile; level n + 1 has the root of each full tile of level n.  So
a slice of 8,192 bytes of a level is a tile of C2SP tlog-tiles, and each hash of the tree needs at most 255 hashes of
one tile.  A file has 65,536 hashes of one level: `0.00000000` those of the first leaves, `0.00000001` the next ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from binlog.errors import NotFoundError, SealError
from binlog.format.seal.tree import HASH_BYTES, parent_hashes
from binlog.storage.directory import Directory
from binlog.storage.files import read_at, sync, write_at

TILE_HASHES = 256
FILE_HASHES = 1 << 16
_TILE_LEVELS = 8
_TILE_BYTES = TILE_HASHES * HASH_BYTES
# `leaves` reads at least this number of hashes, because opening a file takes as long as reading some thousand hashes.
_LEAVES_AT_ONCE = 1 << 14


def hash_file_name(level: int, number: int) -> str:
    """Return the name of a file of hashes."""
    return f"{level}.{number:08d}"


class HashStore:
    """The hashes of a tree that grows.

    size: leaves.  Hashes that the files have beyond that mean nothing, and are overwritten.
    """

    def __init__(self, directory: Directory, size: int = 0) -> None:
        self.size = size
        self._directory = directory
        self._unsynced: set[str] = set()
        # A sealer that died may have made files whose names are not durable.
        self._has_new_names = True
        # The leaves that `leaves` read last: the first one's index, and the hashes.
        self._read_leaves = (0, b"")

    def append(self, leaves: bytes) -> None:
        """Add leaves, given their hashes one after the other; they are durable after `sync`.

        Raises: FullError; AccessError; PoisonedError.
        """
        self._read_leaves = (0, b"")
        level, first, added = 0, self.size, leaves
        self.size += len(leaves) // HASH_BYTES
        while added:
            self._write(level, first, added)
            tile, end = first // TILE_HASHES, (first + len(added) // HASH_BYTES) // TILE_HASHES
            data = self._read(level, tile * TILE_HASHES, first - tile * TILE_HASHES) + added
            added = _roots_of(data[: (end - tile) * _TILE_BYTES], TILE_HASHES)
            level, first = level + 1, tile

    def sync(self) -> None:
        """Make all hashes durable.  Raises: PoisonedError."""
        for name in sorted(self._unsynced):
            with self._directory.opened(name) as fd:
                sync(fd, self._directory.file_path(name))
        self._unsynced.clear()
        if self._has_new_names:
            self._directory.sync()
            self._has_new_names = False

    def node(self, level: int, index: int) -> bytes:
        """Return the hash of node (level, index), which must be within the tree.

        Raises: SealError if the files do not have it; AccessError.
        """
        above = level % _TILE_LEVELS
        hashes = self.hashes(level // _TILE_LEVELS, index << above, 1 << above)
        return _roots_of(hashes, 1 << above)

    def leaf(self, index: int) -> bytes:
        """Return the hash of a leaf.  Raises: as `node`."""
        return self.node(0, index)

    def tile_root(self, tile: int) -> bytes:
        """Return the root of a full tile of leaves, computed from these.  Raises: as `node`."""
        return _roots_of(self.hashes(0, tile * TILE_HASHES, TILE_HASHES), TILE_HASHES)

    def leaves(self, first: int, count: int) -> bytes:
        """Return the hashes of leaves, one after the other; fewer if the files end before."""
        left = max(self.size - first, 0)
        count = min(count, left)
        start, known = self._read_leaves
        if not start <= first <= first + count <= start + len(known) // HASH_BYTES:
            start, known = first, self._read(0, first, min(max(count, _LEAVES_AT_ONCE), left))
            self._read_leaves = start, known
        at = (first - start) * HASH_BYTES
        return known[at : at + count * HASH_BYTES]

    def hashes(self, level: int, first: int, count: int) -> bytes:
        """Return hashes of a level, one after the other.  Raises: SealError if the files do not have them."""
        data = self._read(level, first, count)
        if len(data) != count * HASH_BYTES:
            raise SealError(f"{self._directory.path}: hashes of level {level} are missing from {first} on")
        return data

    def _read(self, level: int, first: int, count: int) -> bytes:
        """Return up to `count` hashes; fewer if a file ends before or does not exist."""
        parts = []
        for name, at, size in _parts(level, first, count):
            try:
                with self._directory.opened(name) as fd:
                    parts.append(read_at(fd, size, at, self._directory.file_path(name)))
            except NotFoundError:
                break
            if len(parts[-1]) < size:
                break
        data = b"".join(parts)
        return data[: len(data) // HASH_BYTES * HASH_BYTES]

    def _write(self, level: int, first: int, hashes: bytes) -> None:
        done = 0
        for name, at, size in _parts(level, first, len(hashes) // HASH_BYTES):
            if not self._directory.has(name):
                self._directory.make(name)
                self._has_new_names = True
            with self._directory.opened(name, writable=True) as fd:
                write_at(fd, hashes[done : done + size], at, self._directory.file_path(name))
            self._unsynced.add(name)
            done += size


def _parts(level: int, first: int, count: int) -> Iterator[tuple[str, int, int]]:
    """Yield the files that have these hashes: the name, and the offset and the size in bytes."""
    end = first + count
    while first < end:
        number, at = divmod(first, FILE_HASHES)
        size = min(end - first, FILE_HASHES - at)
        yield hash_file_name(level, number), at * HASH_BYTES, size * HASH_BYTES
        first += size


def _roots_of(hashes: bytes, leaves: int) -> bytes:
    """Return the roots of consecutive perfect subtrees of this many leaves, given the hashes of the leaves."""
    while leaves > 1:
        hashes, leaves = parent_hashes(hashes), leaves // 2
    return hashes
