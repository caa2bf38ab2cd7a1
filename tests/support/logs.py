"""Logs for tests: read without our code, made as another program makes them, and checked when a test ends."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import binlog
from binlog.errors import NotFoundError


def raw_records(path: Path) -> list[bytes]:
    """The records of one file of ours, read with nothing but `struct`."""
    data = path.read_bytes()
    tail = struct.unpack_from(">Q", data, 8)[0]
    at, records = 256, []
    while at < tail:
        (length,) = struct.unpack_from(">I", data, at)
        records.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    assert at == tail
    return records


def all_raw_records(directory: Path) -> list[bytes]:
    """The records of every file of ours in a log, in order."""
    return [record for path in sorted(directory.glob("*.dat")) for record in raw_records(path)]


def frame_all(records: Iterable[bytes]) -> bytes:
    """Records as they lie in a file, one after the other."""
    return b"".join(struct.pack(">I", len(record)) + record for record in records)


def jpos_file(
    directory: Path, records: Iterable[bytes], *, number: int = 1, status: int = 0, next_number: int = 0
) -> Path:
    """A file as the jPOS BinLog makes it: zeros in 24..247, the first record at 248."""
    body = frame_all(records)
    header = struct.pack(">IHHQII", 252, 1, status, 248 + len(body), number, next_number)
    path = directory / f"{number:08d}.dat"
    path.write_bytes((header + bytes(224) + body).ljust(256, b"\0"))
    return path


def name_next_file_only(log: Path, aside: Path) -> None:
    """Leave what a cutover from file 1 leaves that died right after it named file 2.  aside: a place for a copy."""
    shutil.copytree(log, aside)
    with binlog.Writer(aside) as ahead:
        ahead.cutover()
    shutil.copy(aside / "00000002.dat", log / "00000002.dat")


def job(writer: int, sequence: int, size: int = 40) -> bytes:
    """A record that tells who wrote it and as which of its own."""
    return json.dumps({"writer": writer, "sequence": sequence}).encode().ljust(size)


def jobs_by_writer(records: Iterable[bytes]) -> dict[int, list[int]]:
    """The sequences of each writer's records, in the order in which they lie in the log."""
    found: dict[int, list[int]] = {}
    for record in records:
        values = json.loads(record)
        found.setdefault(values["writer"], []).append(values["sequence"])
    return found


def read_all(path: Path) -> list[bytes]:
    """Every record that a reader of ours finds."""
    with binlog.Reader(path) as reader:
        return [entry.data for entry in reader]


def problems_so_far(path: Path) -> list[binlog.Problem]:
    """What `check` finds; nothing where no process has come as far as to begin a log."""
    try:
        return binlog.check(path)
    except NotFoundError:
        return []


def silent(path: Path) -> Iterator[Path]:
    """A directory for a log in which nothing may be wrong when the test ends."""
    yield path
    assert problems_so_far(path) == []
