"""Indexes of logs for tests: read without our code, and compared with the records."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from binlog.format.checksums import crc32c


class Entry(NamedTuple):
    """One entry of the file."""

    sequence: int
    offset: int
    time_ns: int
    size: int
    crc: int
    record_count: int


def index_entries(log: Path, number: int = 1) -> list[Entry]:
    """Read the entries of one file's index, correct or not."""
    data = (log / f"{number:08d}.idx").read_bytes()
    assert data[:16] == struct.pack(">8sHHI", b"BINLOGIX", 2, 0, number)
    assert data[16:32] == (log / f"{number:08d}.dat").read_bytes()[32:48]
    seed = crc32c(data[16:32] + data[12:16])
    found = []
    for at in range(32, len(data) - 39, 40):
        *values, crc = struct.unpack_from(">QQQIIII", data, at)
        assert crc == crc32c(data[at : at + 36], seed)
        found.append(Entry(*values))
    return found


def date_entries(log: Path, number: int, dated: Callable[[int, int], float]) -> None:
    """Write other times into one file's index.  dated: returns the time of an entry, by its place and their count."""
    index = log / f"{number:08d}.idx"
    data = bytearray(index.read_bytes())
    seed = crc32c(data[16:32] + data[12:16])
    offsets = range(32, len(data) - 39, 40)
    for place, at in enumerate(offsets):
        struct.pack_into(">Q", data, at + 16, int(dated(place, len(offsets)) * 1e9))
        struct.pack_into(">I", data, at + 36, crc32c(data[at : at + 36], seed))
    index.write_bytes(data)


def check_entries(log: Path, number: int = 1) -> int:
    """Hold each entry against the log file's bytes; how far from its tail the last one ends."""
    data = (log / f"{number:08d}.dat").read_bytes()
    tail, sequence = struct.unpack_from(">Q", data, 8)[0], struct.unpack_from(">Q", data, 48)[0]
    at, time_ns = 256, 0
    for entry in index_entries(log, number):
        assert (entry.sequence, entry.offset) == (sequence, at)
        assert entry.time_ns >= time_ns
        time_ns = entry.time_ns
        assert crc32c(data[at : at + entry.size]) == entry.crc
        records = 0
        while at < entry.offset + entry.size:
            at += 4 + struct.unpack_from(">I", data, at)[0]
            records += 1
        assert at == entry.offset + entry.size <= tail
        assert entry.size <= 65536 or records == 1
        assert records == entry.record_count
        sequence += records
    return int(tail) - at
