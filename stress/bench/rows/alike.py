"""Contestants that several engines share: SQLite with a transaction for each record, and two floors of one thread."""

from __future__ import annotations

from stress.bench.contestant import BODY_BYTES, FLOOR, Contestant
from stress.bench.measuring import measuring
from stress.bench.peers import floor, sqlite

SQLITE = "SQLite"
# More of them only wait for each other.
SQLITE_PROCESSES_MAX = 8

_REGION_BYTES = 256 << 20


def sqlite_each(*, synced: bool, threads: int = 1) -> Contestant:
    """Return SQLite, with a process for each of our threads."""
    synchronous, processes = "FULL" if synced else "NORMAL", min(threads, SQLITE_PROCESSES_MAX)
    many = f"; {processes} processes instead of threads" if threads > 1 else ""
    return Contestant(
        name=SQLITE,
        how=f"`journal_mode=WAL`, `synchronous={synchronous}`; each insert is a transaction{many}.",
        measure=measuring(sqlite.one_a_transaction(synchronous, BODY_BYTES), processes=processes),
    )


def floor_synced(record_bytes: int) -> Contestant:
    """Return the disk's rate of records that are synced one by one."""
    return Contestant(
        name=f"{FLOOR}write, sync",
        how=f"A C loop in one thread that calls `pwrite` with {record_bytes} bytes and then `fdatasync`, in a file "
        "that was written beforehand.",
        measure=measuring(floor.on_prepared_file("floor_prepared", bytes_=record_bytes)),
    )


def floor_mapped(record_bytes: int) -> Contestant:
    """Return the memory's rate of records that are copied one by one."""
    return Contestant(
        name=f"{FLOOR}mapped copies",
        how=f"A C loop in one thread that copies {record_bytes} bytes at a time into a mapping of "
        f"{_REGION_BYTES >> 20} MiB of a file that was written beforehand; no CRC, no sync.",
        measure=measuring(floor.on_prepared_file("floor_mapped", bytes_=record_bytes, region_bytes=_REGION_BYTES)),
    )
