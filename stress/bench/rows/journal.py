"""The journal: adds that wait for the disk, from threads of one process, adds that do not, and loading."""

from __future__ import annotations

from binlog.journal.options import Sync
from stress.bench.contestant import BODY_BYTES, FLOOR, OURS, Contestant, Row, Unit
from stress.bench.measuring import measuring
from stress.bench.peers import floor, our_journal, sqlite

LATER = "journal-later"
LOAD = "journal-load"
LOADED = f"{OURS}, as objects"
SCANNED = f"{OURS}, scanned"
SQLITE = "SQLite"
THREADS = (1, 8, 64)

_RECORD_BYTES = BODY_BYTES + 22
_RECORDS = 300_000
_BYTES_A_SECOND = 1 << 29
_REGION_BYTES = 256 << 20
# More of them than that only wait for each other.
_SQLITE_PROCESSES_MAX = 8


def sync_name(threads: int) -> str:
    """The row in which so many threads wait for each record."""
    return f"journal-sync-{threads}"


def rows() -> list[Row]:
    """All of them."""
    return [*(_synced(threads) for threads in THREADS), _later(), _load()]


def _synced(threads: int) -> Row:
    processes = min(threads, _SQLITE_PROCESSES_MAX)
    many = "s" if threads > 1 else ""
    return Row(
        name=sync_name(threads),
        title=f"Journal, adds of {BODY_BYTES} bytes, each on the disk when its call returns, {threads} thread{many}",
        unit=Unit.RECORDS,
        disk_bytes=_BYTES_A_SECOND,
        contestants=(
            Contestant(
                name=OURS,
                how="`Journal.append_add` with `Sync.WAIT`; a load then finds all of them.",
                measure=measuring(our_journal.adding(Sync.WAIT, threads=threads)),
            ),
            Contestant(
                name=SQLITE,
                how=f"`journal_mode=WAL`, `synchronous=FULL`; each insert a transaction; {processes} processes.",
                measure=measuring(sqlite.one_a_transaction("FULL", BODY_BYTES), processes=processes),
            ),
            Contestant(
                name=f"{FLOOR}write, sync",
                how=f"A C loop of `pwrite` of {_RECORD_BYTES} bytes and `fdatasync` in a file written before; one "
                "thread.",
                measure=measuring(floor.on_prepared_file("floor_prepared", bytes_=_RECORD_BYTES)),
            ),
        ),
    )


def _later() -> Row:
    return Row(
        name=LATER,
        title=f"Journal, adds of {BODY_BYTES} bytes that nobody waits for, 1 thread, until the last one is on the disk",
        unit=Unit.RECORDS,
        disk_bytes=_BYTES_A_SECOND,
        contestants=(
            Contestant(
                name=OURS,
                how="`Journal.append_add` with `Sync.LATER`, and one with `Sync.WAIT` at the end.",
                measure=measuring(our_journal.adding(Sync.LATER)),
            ),
            Contestant(
                name=SQLITE,
                how="`journal_mode=WAL`, `synchronous=NORMAL`; each insert a transaction.",
                measure=measuring(sqlite.one_a_transaction("NORMAL", BODY_BYTES)),
            ),
            Contestant(
                name=f"{FLOOR}mapped copies",
                how=f"A C loop that copies {_RECORD_BYTES} bytes a time into a mapping of {_REGION_BYTES >> 20} MiB of "
                "a file written before; no CRC, no sync.",
                measure=measuring(
                    floor.on_prepared_file("floor_mapped", bytes_=_RECORD_BYTES, region_bytes=_REGION_BYTES)
                ),
            ),
        ),
    )


def _load() -> Row:
    return Row(
        name=LOAD,
        title=f"Journal, reading {_RECORDS:,} records of 100 bytes, again and again, all in the page cache",
        unit=Unit.RECORDS,
        contestants=(
            Contestant(
                name=LOADED,
                how="`Journal.load`, from opening the journal to closing it: an object for each record.",
                measure=measuring(our_journal.loading(_RECORDS)),
            ),
            Contestant(
                name=SCANNED,
                how="All files gone through as a check does: every CRC compared, records counted.",
                measure=measuring(our_journal.scanning(_RECORDS)),
            ),
        ),
    )
