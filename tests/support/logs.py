"""Logs for tests: read without our code, written as another program writes them, and checked after each test."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import binlog
from binlog.errors import NotFoundError


def raw_records(path: Path) -> list[bytes]:
    """Read the records of one file of ours with nothing but `struct`."""
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
    """Read the records of every file of ours in a log, in order."""
    return [record for path in sorted(directory.glob("*.dat")) for record in raw_records(path)]


def frame_all(records: Iterable[bytes]) -> bytes:
    """Frame records as in a file, one after the other."""
    return b"".join(struct.pack(">I", len(record)) + record for record in records)


def jpos_file(
    directory: Path, records: Iterable[bytes], *, number: int = 1, status: int = 0, next_number: int = 0
) -> Path:
    """Write a file as the jPOS BinLog does: zeros in 24..247, the first record at 248."""
    body = frame_all(records)
    header = struct.pack(">IHHQII", 252, 1, status, 248 + len(body), number, next_number)
    path = directory / f"{number:08d}.dat"
    path.write_bytes((header + bytes(224) + body).ljust(256, b"\0"))
    return path


def name_next_file_only(log: Path, aside: Path) -> None:
    """Put a log into the state of a cutover from file 1 that died after it named file 2.  aside: a place for a copy."""
    shutil.copytree(log, aside)
    with binlog.Writer(aside) as ahead:
        ahead.cutover()
    shutil.copy(aside / "00000002.dat", log / "00000002.dat")


def job(writer: int, sequence: int, size: int = 40) -> bytes:
    """Make a record with the number of its writer and its sequence."""
    return json.dumps({"writer": writer, "sequence": sequence}).encode().ljust(size)


def jobs_by_writer(records: Iterable[bytes]) -> dict[int, list[int]]:
    """Return the sequences of each writer's records, in the order of the log."""
    found: dict[int, list[int]] = {}
    for record in records:
        values = json.loads(record)
        found.setdefault(values["writer"], []).append(values["sequence"])
    return found


def read_all(path: Path) -> list[bytes]:
    """Read every record with a reader of ours."""
    with binlog.Reader(path) as reader:
        return [entry.data for entry in reader]


def problems_so_far(path: Path) -> list[binlog.Problem]:
    """Return the problems that `check` finds; none if no process has begun a log yet."""
    try:
        return binlog.check(path)
    except NotFoundError:
        return []


def silent(path: Path) -> Iterator[Path]:
    """A directory for a log in which nothing may be wrong when the test ends."""
    yield path
    assert problems_so_far(path) == []
