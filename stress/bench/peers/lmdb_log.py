"""LMDB as a log: the key is the last one plus one, looked up in the transaction that writes it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from stress.bench.contestant import RECORD_BYTES
from stress.bench.loops import append_loop, pass_loop, take
from stress.bench.measuring import Prepare, preparing
from stress.bench.peers.packages import missing_package
from stress.bench.processes import Loop

missing = missing_package("lmdb", "lmdb")

# Address space, not memory or disk; LMDB needs to know the maximum.
_MAP_BYTES = 64 << 30
_KEY_BYTES = 8


def environment(directory: Path) -> Any:
    """Open LMDB, which syncs at each commit by default."""
    import lmdb

    return lmdb.open(str(directory), map_size=_MAP_BYTES)


def appending() -> Prepare:
    """Append one record a transaction, synced."""

    def loop(log: Any) -> Loop:
        return append_loop(lambda record: _append(log, record), os.urandom(RECORD_BYTES))

    return preparing(environment, loop, stored=_stored)


def read_in_order(records: int) -> Prepare:
    """Read a log of `records` records from first to last, one at a time."""

    def make(directory: Path) -> None:
        with environment(directory) as log, log.begin(write=True) as transaction:
            for number in range(records):
                transaction.put(number.to_bytes(_KEY_BYTES, "big"), os.urandom(RECORD_BYTES), append=True)

    return preparing(environment, lambda log: pass_loop(lambda: _read(log), records), make=make)


def _read(log: Any) -> None:
    with log.begin() as transaction, transaction.cursor() as cursor:
        take(cursor.iternext(keys=False, values=True))


def _append(log: Any, record: bytes) -> None:
    with log.begin(write=True) as transaction, transaction.cursor() as cursor:
        number = int.from_bytes(cursor.key(), "big") + 1 if cursor.last() else 0
        transaction.put(number.to_bytes(_KEY_BYTES, "big"), record, append=True)


def _stored(directory: Path) -> int:
    with environment(directory) as log:
        count: int = log.stat()["entries"]
        return count
