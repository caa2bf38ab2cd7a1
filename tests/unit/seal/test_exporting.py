"""Exported tiles are those that C2SP tlog-tiles names, and give the signed root to a client that knows nothing else."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from binlog import Batch, Writer
from binlog.format.seal.checkpoint import parse_checkpoint
from binlog.format.seal.note import parse_note
from binlog.seal import Sealer, SigningKey, begin_seal, export_tiles
from binlog.seal.exporting import tile_path
from tests.support.trees import tree_hash

KEY = SigningKey.generate("example.org/audit")


def _seal(log: Path, count: int) -> None:
    with Writer(log, mode="flush") as writer:
        begin_seal(log, KEY)
        for start in range(0, count, 5000):
            writer.append_batches([Batch.from_records([b"%d" % n for n in range(start, min(start + 5000, count))])])
        writer.sync()
    with Sealer(log, KEY) as sealer:
        sealer.seal()


def _entries(out: Path, size: int) -> list[bytes]:
    """Return the entries of a size, as a client gets them: by the paths that the size requires."""
    found = []
    for tile in range((size + 255) // 256):
        data = (out / "tile" / "entries" / tile_path(tile, min(size - 256 * tile, 256))).read_bytes()
        at = 0
        while at < len(data):
            length = int.from_bytes(data[at : at + 2], "big")
            found.append(data[at + 2 : at + 2 + length])
            at += 2 + length
    return found


@pytest.mark.parametrize("size", [1, 255, 256, 257, pytest.param(70_000, marks=pytest.mark.slow)])
def test_a_client_reads_every_tile_and_entry(in_memory: Path, size: int) -> None:
    log, out = in_memory / "log", in_memory / "out"
    _seal(log, size)
    done = export_tiles(log, out)
    head = parse_checkpoint(parse_note((out / "checkpoint").read_bytes()).text)
    assert (done.size, head.size, done.too_large) == (size, size, [])
    entries = _entries(out, size)
    assert entries == [b"%d" % number for number in range(size)]
    hashes = [sha256(b"\0" + entry).digest() for entry in entries]
    assert tree_hash(hashes) == head.root
    level, count = 0, size
    while count:
        stored = b"".join(
            (out / "tile" / str(level) / tile_path(tile, min(count - 256 * tile, 256))).read_bytes()
            for tile in range((count + 255) // 256)
        )
        assert stored == b"".join(hashes)
        hashes = [tree_hash(hashes[at : at + 256]) for at in range(0, count - 255, 256)]
        level, count = level + 1, count // 256
    names = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert len(names) == done.files + 1
    if size == 70_000:
        partial = {"tile/0/273.p/112", "tile/1/001.p/17", "tile/2/000.p/1", "tile/entries/273.p/112"}
        assert {name for name in names if ".p/" in name} == partial
        assert export_tiles(log, out).files == len(partial)


def test_a_record_that_no_bundle_can_have_is_reported(in_memory: Path) -> None:
    log, out = in_memory / "log", in_memory / "out"
    with Writer(log) as writer:
        begin_seal(log, KEY)
        ref = writer.append(b"x" * 65_536)
        writer.append(b"small")
    with Sealer(log, KEY) as sealer:
        sealer.seal()
    assert export_tiles(log, out).too_large == [ref]
    assert not (out / "tile" / "entries").exists()
    assert export_tiles(log, out, entries=False).too_large == []


def test_paths_of_large_indexes_have_three_digits_in_each_part() -> None:
    assert tile_path(1_234_067, 256) == "x001/x234/067"
    assert tile_path(0, 3) == "000.p/3"
    assert tile_path(999, 256) == "999"
    assert tile_path(1000, 255) == "x001/000.p/255"
