"""Reading a log from its beginning to its end, all of it in the page cache, again and again."""

from __future__ import annotations

from functools import partial

import binlog
from stress.bench.contestant import OURS, Contestant, Row, Unit
from stress.bench.loops import take
from stress.bench.measuring import measuring
from stress.bench.peers import floor, lmdb_log, ours, sqlite

NAME = "reading"
ENTRIES = f"{OURS}, entries"
BATCHES_AS_BYTES = f"{OURS}, batches as bytes"
BATCHES_AS_OFFSETS = f"{OURS}, batches as offsets"

# 100 MB: more than a processor's caches hold.
_RECORDS = 200_000


def rows() -> list[Row]:
    """Return the one row."""
    return [
        Row(
            name=NAME,
            title=f"Reading {_RECORDS:,} records in order, 1 process",
            unit=Unit.RECORDS,
            contestants=(
                Contestant(
                    name=ENTRIES,
                    how="`for entry in reader`; each `Entry` has the record as bytes, and its ref.",
                    measure=measuring(ours.read_in_order(_RECORDS, _entries)),
                ),
                Contestant(
                    name=f"{OURS}, next()",
                    how="`next(reader)`, called for each record.",
                    measure=measuring(ours.read_in_order(_RECORDS, _next)),
                ),
                Contestant(
                    name=BATCHES_AS_BYTES,
                    how="`read_batch`, and then a bytes object for each record of the batch.",
                    measure=measuring(ours.read_in_order(_RECORDS, _batches_as_bytes)),
                ),
                Contestant(
                    name=BATCHES_AS_OFFSETS,
                    how="`read_batch` alone; a batch has the bytes of many records, and the offset at which each ends.",
                    measure=measuring(ours.read_in_order(_RECORDS, _batches_as_offsets)),
                ),
                Contestant(
                    name="SQLite",
                    how="`SELECT record FROM log ORDER BY sequence`, one row at a time.",
                    measure=measuring(sqlite.read_in_order(_RECORDS)),
                ),
                Contestant(
                    name="LMDB",
                    how="A cursor over all values, which returns each as bytes.",
                    measure=measuring(lmdb_log.read_in_order(_RECORDS)),
                    missing=lmdb_log.missing,
                ),
                Contestant(
                    name="floor: read, copy",
                    how="A C loop that reads 1 MiB at a time, finds each record by the lengths, and copies it.",
                    measure=measuring(floor.on_log("floor_read", partial(ours.filled, records=_RECORDS))),
                ),
            ),
        )
    ]


def _entries(reader: binlog.Reader) -> None:
    take(reader)


def _next(reader: binlog.Reader) -> None:
    try:
        while True:
            next(reader)
    except StopIteration:
        return


def _batches_as_bytes(reader: binlog.Reader) -> None:
    while batch := reader.read_batch():
        take(batch)


def _batches_as_offsets(reader: binlog.Reader) -> None:
    while reader.read_batch():
        pass
