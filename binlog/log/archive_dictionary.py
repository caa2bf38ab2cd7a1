"""Whether a dictionary makes the archive of a file smaller, and which: tried on a sample of it.

Frames of a MiB tell a compressor most of what a dictionary would, so it seldom pays: where records are made of a few
large templates, say.  Whoever reads the archive with other tools needs it, so it must pay well.
"""

from __future__ import annotations

from binlog.format.archive_file import frame_bytes_for
from binlog.format.index_file import RANGE_BYTES_MAX, IndexEntry
from binlog.format.log_header import LogHeader
from binlog.format.record import LENGTH_BYTES, RECORD_BYTES_FORMAT_MAX
from binlog.log.index import Index
from binlog.storage.files import read_at
from binlog.storage.records import scan
from binlog.storage.zstd import Compressor, train

DICTIONARY_BYTES = 112_640
"""What zstd takes unless told."""

SMALLER = 0.95
"""A dictionary is used where the archive, with the dictionary in it, is smaller than this part of one without."""

_FILE_BYTES_MIN = 16 << 20
_RANGES_TRAINED = 96
_FRAMES_TRIED = 6


def choose_dictionary(fd: int, header: LogHeader, index: Index, *, level: int, path: str) -> bytes:
    """A dictionary for the archive of a file; empty where none pays."""
    frame_bytes = frame_bytes_for(header.tail)
    if header.tail < max(_FILE_BYTES_MIN, 4 * _FRAMES_TRIED * frame_bytes) or index.count < 4 * _FRAMES_TRIED:
        return b""
    middles = [index.entry((2 * number + 1) * index.count // (2 * _FRAMES_TRIED)) for number in range(_FRAMES_TRIED)]
    tried = [entry.offset for entry in middles if entry is not None]
    samples: list[bytes] = []
    for number in range(_RANGES_TRAINED):
        entry = index.entry(number * index.count // _RANGES_TRAINED)
        # What it is tried on must be new to it.
        if entry is not None and not any(at - RANGE_BYTES_MAX < entry.offset < at + frame_bytes for at in tried):
            samples += _records(fd, entry, path)
    dictionary = train(samples, DICTIONARY_BYTES)
    if not dictionary:
        return b""
    frames = [read_at(fd, min(frame_bytes, header.tail - at), at, path) for at in tried]
    without, with_it = (_size(frames, Compressor(level, each)) for each in (b"", dictionary))
    whole = header.tail / max(sum(map(len, frames)), 1)
    return dictionary if with_it * whole + len(dictionary) < SMALLER * without * whole else b""


def _records(fd: int, entry: IndexEntry, path: str) -> list[bytes]:
    """The records of a range, none of one that a single record fills, and none where it is no range of records."""
    if entry.range_bytes > RANGE_BYTES_MAX:
        return []
    data = read_at(fd, entry.range_bytes, entry.offset, path)
    found = scan(data, len(data), RECORD_BYTES_FORMAT_MAX, len(data))
    bounds = found.offsets
    return [data[bounds[number] + LENGTH_BYTES : bounds[number + 1]] for number in range(found.count)]


def _size(frames: list[bytes], compressor: Compressor) -> int:
    return sum(len(compressor.frame(frame)) for frame in frames)
