"""The journal: adds that wait for the disk, from threads of one process, adds that do not, and loading."""

from __future__ import annotations

from binlog.journal.options import Sync
from stress.bench.contestant import BODY_BYTES, OURS, Contestant, Row, Unit
from stress.bench.measuring import measuring
from stress.bench.peers import our_journal
from stress.bench.rows.alike import floor_mapped, floor_synced, sqlite_each

LATER = "journal-later"
LOAD = "journal-load"
LOADED = f"{OURS}, as objects"
SCANNED = f"{OURS}, scanned"
THREADS = (1, 8, 64)

_RECORD_BYTES = BODY_BYTES + 22
_RECORDS = 300_000
_BYTES_A_SECOND = 1 << 29


def sync_name(threads: int) -> str:
    """Return the name of the row in which `threads` threads wait for each record."""
    return f"journal-sync-{threads}"


def rows() -> list[Row]:
    """Return all rows."""
    return [*(_synced(threads) for threads in THREADS), _not_waited_for(), _load()]


def _synced(threads: int) -> Row:
    many = "s" if threads > 1 else ""
    return Row(
        name=sync_name(threads),
        title=f"Journal, adds of {BODY_BYTES} bytes, each on the disk when its call returns, {threads} thread{many}",
        unit=Unit.RECORDS,
        disk_bytes=_BYTES_A_SECOND,
        contestants=(
            Contestant(
                name=OURS,
                how="`Journal.append_add` with `Sync.WAIT`; afterwards a load finds all records.",
                measure=measuring(our_journal.adding(Sync.WAIT, threads=threads)),
            ),
            sqlite_each(synced=True, threads=threads),
            floor_synced(_RECORD_BYTES),
        ),
    )


def _not_waited_for() -> Row:
    return Row(
        name=LATER,
        title=f"Journal, adds of {BODY_BYTES} bytes without waiting, 1 thread; the time ends when all are on the disk",
        unit=Unit.RECORDS,
        disk_bytes=_BYTES_A_SECOND,
        contestants=(
            Contestant(
                name=OURS,
                how="`Journal.append_add` with `Sync.LATER`, and a last one with `Sync.WAIT`.",
                measure=measuring(our_journal.adding(Sync.LATER)),
            ),
            sqlite_each(synced=False),
            floor_mapped(_RECORD_BYTES),
        ),
    )


def _load() -> Row:
    return Row(
        name=LOAD,
        title=f"Journal, reading the same {_RECORDS:,} records of 100 bytes repeatedly, all in the page cache",
        unit=Unit.RECORDS,
        contestants=(
            Contestant(
                name=LOADED,
                how="Open the journal, call `Journal.load`, which makes an object for each record, and close it.",
                measure=measuring(our_journal.loading(_RECORDS)),
            ),
            Contestant(
                name=SCANNED,
                how="Scan all files as a check does: verify every CRC, and count the records.",
                measure=measuring(our_journal.scanning(_RECORDS)),
            ),
        ),
    )
