"""Appends by one process that are not synced: one record a call, many a call, and staged in memory."""

from __future__ import annotations

from binlog import Mode
from stress.bench.contestant import FRAMED_BYTES, OURS, Contestant, Row, Unit
from stress.bench.measuring import measuring
from stress.bench.peers import floor, ours, sqlite

FLUSH = "flush"
STAGE = "stage"
BULK = "bulk"

CALLS = "floor: system calls"
SQLITE = "SQLite NORMAL"
BLOCKS = "floor: blocks"
BLOCKS_SYNCED = "floor: blocks, sync"

_RECORDS_A_CALL = 100

# No memory takes more, and the written files are removed after each measurement.
_FLUSH_BYTES_A_SECOND = 1 << 29
_BLOCKS_BYTES_A_SECOND = 5 << 30


def rows() -> list[Row]:
    """Return all rows."""
    return [_flush(), _stage(), _bulk()]


def _flush() -> Row:
    return Row(
        name=FLUSH,
        title="Appends that are not synced, one record a call, 1 process",
        unit=Unit.RECORDS,
        disk_bytes=_FLUSH_BYTES_A_SECOND,
        contestants=(
            Contestant(
                name=OURS,
                how="`Writer.append` in `Mode.FLUSH`. When it returns, the record is in the file.",
                measure=measuring(ours.one_a_call(Mode.FLUSH)),
            ),
            Contestant(
                name=SQLITE,
                how="`journal_mode=WAL`, `synchronous=NORMAL`; each insert is a transaction.",
                measure=measuring(sqlite.one_a_transaction("NORMAL")),
            ),
            Contestant(
                name=CALLS,
                how="A C loop of the same system calls: lock, read 256 bytes, write the record, write 124 bytes, "
                "unlock. It allocates space in steps of 64 MiB.",
                measure=measuring(floor.on_growing_file("floor_calls")),
            ),
        ),
    )


def _stage() -> Row:
    return Row(
        name=STAGE,
        title="Staged appends, one record a call, 1 process; the time ends when all are in the file",
        unit=Unit.RECORDS,
        seconds_factor=5,
        disk_bytes=_BLOCKS_BYTES_A_SECOND,
        contestants=(
            Contestant(
                name=OURS,
                how="`Writer.append` in `Mode.STAGE`, then `close`. The time ends when the file's header counts the "
                "last record. The writer does not wait for the disk unless the kernel makes it wait.",
                measure=measuring(ours.staged()),
            ),
            Contestant(
                name=BLOCKS,
                how="A C loop that writes blocks of 1 MiB for the same time, not synced; each "
                f"{FRAMED_BYTES} bytes count as a record. This is the kernel's rate.",
                measure=measuring(floor.on_growing_file("floor_blocks")),
            ),
            Contestant(
                name=BLOCKS_SYNCED,
                how="The same, followed by one `fdatasync`, which the measured time includes. This is the disk's rate.",
                measure=measuring(floor.on_growing_file("floor_blocks_synced")),
            ),
            Contestant(
                name="floor: copies",
                how="A C loop that copies each record into a ring of 1 MiB, and writes nothing to a file.",
                measure=measuring(floor.on_growing_file("floor_copies")),
            ),
        ),
    )


def _bulk() -> Row:
    return Row(
        name=BULK,
        title=f"Appends that are not synced, {_RECORDS_A_CALL} records a call, 1 process",
        unit=Unit.RECORDS,
        seconds_factor=2.5,
        disk_bytes=_BLOCKS_BYTES_A_SECOND,
        contestants=(
            Contestant(
                name=OURS,
                how=f"`Writer.append_many` of {_RECORDS_A_CALL} records in `Mode.FLUSH`.",
                measure=measuring(ours.many_a_call(Mode.FLUSH, _RECORDS_A_CALL)),
            ),
            Contestant(
                name=SQLITE,
                how=f"`synchronous=NORMAL`, `executemany` of {_RECORDS_A_CALL} inserts in one transaction.",
                measure=measuring(sqlite.many_a_transaction("NORMAL", _RECORDS_A_CALL)),
            ),
            Contestant(
                name=BLOCKS,
                how="A C loop that writes blocks of 1 MiB, not synced.",
                measure=measuring(floor.on_growing_file("floor_blocks")),
            ),
        ),
    )
