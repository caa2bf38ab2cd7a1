"""Exports a seal as the static files of C2SP tlog-tiles, which any web server can serve and others' clients read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import binlog
from binlog.errors import AccessError, SealError
from binlog.format.record import Ref
from binlog.format.seal.checkpoint import parse_checkpoint
from binlog.seal.folder import SealFolder
from binlog.seal.hash_store import TILE_HASHES, HashStore

_ENTRY_BYTES_MAX = (1 << 16) - 1
_LEVELS_MAX = 8


@dataclass
class Exported:
    """The result of an export.

    size: records that the exported checkpoint covers.  files: tiles and entry bundles that were written.
    too_large: refs of records above 65,535 bytes, which an entry bundle cannot have; their bundles are left out.
    """

    size: int
    files: int = 0
    too_large: list[Ref] = field(default_factory=list)


def export_tiles(path: str | os.PathLike[str], target: str | os.PathLike[str], *, entries: bool = True) -> Exported:
    """Write the tiles of a log's latest checkpoint to a directory, and then the checkpoint.

    entries: also write the records, in entry bundles, from the first one that the log still has.
    The directory is made if it does not exist.  Complete files that exist are kept, and a later export adds new ones.
    Nothing is synced.
    Raises: NotFoundError if the log has no seal; SealError if it has no checkpoint, or hashes are missing; AccessError.
    """
    out = Path(target)
    with SealFolder(path) as folder:
        note = folder.checkpoint()
        if note is None:
            raise SealError(f"{os.fspath(path)} has no checkpoint yet")
        head = parse_checkpoint(note.text)
        done = Exported(head.size)
        try:
            _write_tiles(out, folder.hashes(head.size), done)
            if entries:
                _write_entries(out, os.fspath(path), folder, done)
            _write(out / "checkpoint", str(note).encode())
        except OSError as error:
            raise AccessError(f"{error.filename}: {error.strerror}", errno=error.errno) from error
    return done


def _write_tiles(out: Path, store: HashStore, done: Exported) -> None:
    for level in range(_LEVELS_MAX):
        count = done.size >> (8 * level)
        if not count:
            return
        for tile, width in _widths(count):
            path = out / "tile" / str(level) / tile_path(tile, width)
            if width < TILE_HASHES or not path.exists():
                _write(path, store.hashes(level, tile * TILE_HASHES, width))
                done.files += 1


def _write_entries(out: Path, path: str, folder: SealFolder, done: Exported) -> None:
    """Write entry bundles; one that would begin before the first record of the log is left out."""
    files = {file.number: file.first_leaf for file in folder.files()}
    first = next(((file, files[file.number]) for file in binlog.stat(path).files if file.number in files), None)
    if first is None:
        return
    (file, at), bundle, bundle_from, is_whole = first, bytearray(), -1, True
    with binlog.Reader(path, Ref(file.number, file.first_offset)) as reader:
        for ref, record in _records(reader):
            if at == done.size:
                break
            if at % TILE_HASHES == 0:
                bundle, bundle_from, is_whole = bytearray(), at, True
            if len(record) > _ENTRY_BYTES_MAX:
                done.too_large.append(ref)
                is_whole = False
            bundle += min(len(record), _ENTRY_BYTES_MAX).to_bytes(2, "big") + record
            at += 1
            if bundle_from >= 0 and is_whole and (at % TILE_HASHES == 0 or at == done.size):
                place = out / "tile" / "entries" / tile_path(bundle_from // TILE_HASHES, at - bundle_from)
                if at - bundle_from < TILE_HASHES or not place.exists():
                    _write(place, bytes(bundle))
                    done.files += 1


def _records(reader: binlog.Reader) -> Iterator[tuple[Ref, bytes]]:
    while batch := reader.read_batch():
        yield from zip(batch.refs(), batch, strict=True)


def _widths(count: int) -> Iterator[tuple[int, int]]:
    """Yield the tiles that have this many hashes: the index of each, and its width."""
    full, rest = divmod(count, TILE_HASHES)
    yield from ((tile, TILE_HASHES) for tile in range(full))
    if rest:
        yield full, rest


def tile_path(tile: int, width: int) -> str:
    """Return the path of a tile below its level: `x001/x234/067`, with `.p/WIDTH` if it is not full."""
    digits = f"{tile:0{(len(str(tile)) + 2) // 3 * 3}d}"
    *before, last = [digits[at : at + 3] for at in range(0, len(digits), 3)]
    whole = "/".join([*(f"x{each}" for each in before), last])
    return whole if width == TILE_HASHES else f"{whole}.p/{width}"


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_bytes(data)
    unfinished.replace(path)
