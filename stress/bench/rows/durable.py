"""Durable appends: each call returns when its record is on stable storage."""

from __future__ import annotations

from functools import partial

from binlog import Mode
from stress.bench.contestant import OURS, Contestant, Row, Unit
from stress.bench.measuring import measuring
from stress.bench.peers import floor, lmdb_log, ours, persist_queue, redis_stream, sqlite

FLOOR = "floor: write, sync"
CLASSIC = "floor: classic order"
SQLITE = "SQLite FULL"

PROCESSES = (1, 2, 4, 8, 16, 32)


def row_name(processes: int) -> str:
    """Return the name of the row of `processes` processes."""
    return f"durable-{processes}"


def rows() -> list[Row]:
    """Return one row for each number of processes."""
    return [
        Row(
            name=row_name(processes),
            title=f"Durable appends, one record a call, {processes} process{'es' if processes > 1 else ''}",
            unit=Unit.RECORDS,
            contestants=_contestants(processes),
        )
        for processes in PROCESSES
    ]


def _contestants(processes: int) -> tuple[Contestant, ...]:
    measure = partial(measuring, processes=processes, keep_waits=True)
    return (
        Contestant(
            name=OURS,
            how="`Writer.append` in `Mode.SYNC`; each process has a writer of its own.",
            measure=measure(ours.one_a_call(Mode.SYNC)),
        ),
        Contestant(
            name=SQLITE,
            how="`journal_mode=WAL`, `synchronous=FULL`, one table with an integer key; each insert is a transaction.",
            measure=measure(sqlite.one_a_transaction("FULL")),
        ),
        Contestant(
            name="persist-queue",
            how="`SQLiteQueue.put` with `auto_commit`; it uses WAL with `synchronous=FULL`.",
            measure=measure(persist_queue.appending()),
            missing=persist_queue.missing,
        ),
        Contestant(
            name="LMDB",
            how="A synced transaction for each record, whose key is the last key plus one; the transaction looks up "
            "the last key.",
            measure=measure(lmdb_log.appending()),
            missing=lmdb_log.missing,
        ),
        Contestant(
            name="Redis stream",
            how="`XADD` through a Unix socket to a server with `appendfsync always`; each process has a connection.",
            measure=measure(redis_stream.prepare),
            missing=redis_stream.missing,
        ),
        Contestant(
            name=FLOOR,
            how="A C loop of `pwrite` and `fdatasync` in a file that was allocated and written beforehand; each "
            "process writes to its own part of the file.",
            measure=measure(floor.on_prepared_file("floor_prepared")),
        ),
        Contestant(
            name=CLASSIC,
            how="A C loop that locks, reads the tail, writes, syncs, writes the tail, syncs and unlocks, on one file "
            "that grows.",
            measure=measure(floor.on_growing_file("floor_growing", stored=True)),
        ),
    )
