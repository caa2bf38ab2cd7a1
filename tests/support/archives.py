"""Archives for tests: small frames, so that small files have many."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import zstandard

import binlog
from binlog import Mode, Writer

FRAME_BYTES = 4096


def small_frames(monkeypatch: pytest.MonkeyPatch, frame_bytes: int = FRAME_BYTES) -> None:
    """Make archives with frames of this size."""
    monkeypatch.setattr("binlog.log.archive.archive_building.frame_bytes_for", lambda _: frame_bytes)


def fill(log: Path, *, files: int = 3, records: int = 200, seed: int = 0) -> list[bytes]:
    """Write a log of closed files and an open one with one record; return all records."""
    given: list[bytes] = []
    with Writer(log) as writer:
        for number in range(files):
            # Some synced groups of different sizes, so that ranges of the index end in many places.
            for group in range(40):
                some = [b"%d %d %d " % (seed, number, group) * (index % 17) for index in range(records // 40)]
                writer.append_many(some, mode=Mode.SYNC if group % 2 else Mode.FLUSH)
                given += some
            writer.cutover()
        writer.append(b"open")
    return [*given, b"open"]


def archive_path(log: Path, number: int = 1) -> Path:
    return log / f"{number:08d}.dat.zst"


def frames_of(path: Path) -> list[tuple[int, int, int]]:
    """Return the place of each frame of records in an archive, and its start and end in the log file.

    Read with nothing but `struct`.
    """
    data = path.read_bytes()
    (count,) = struct.unpack("<I", data[-9:-5])
    found, place, start = [], 0, 0
    for frame_bytes, content_bytes, _ in struct.iter_unpack("<III", data[-9 - 12 * count : -9]):
        if content_bytes:
            found.append((place, start, start + content_bytes))
        place, start = place + frame_bytes, start + content_bytes
    return found[1:]


def archived(log: Path, **options: object) -> list[int]:
    """Archive, and return the numbers of the archived files."""
    done = binlog.archive(log, **options)  # type: ignore[arg-type]
    assert [each.problem for each in done] == [None] * len(done)
    return [each.number for each in done]


def names(log: Path) -> list[str]:
    """Return the names in a log's directory, without the hidden ones."""
    return sorted(path.name for path in log.iterdir() if not path.name.startswith("."))


def unpacked(path: Path) -> bytes:
    """Decompress an archive with zstd."""
    return zstandard.ZstdDecompressor().stream_reader(path.read_bytes(), read_across_frames=True).read()
