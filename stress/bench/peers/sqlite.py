"""SQLite in WAL mode, with one table as a log: the usual choice for processes that share a file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from stress.bench.contestant import RECORD_BYTES
from stress.bench.loops import append_loop, append_many_loop, pass_loop, take
from stress.bench.measuring import Prepare, preparing
from stress.bench.processes import Loop

_INSERT = "INSERT INTO log (record) VALUES (?)"
_SELECT = "SELECT record FROM log ORDER BY sequence"

# Long enough for an unlucky process among many writers: SQLite does not queue, it sleeps and retries.
_BUSY_SECONDS = 60.0


def connect(path: Path, synchronous: str) -> sqlite3.Connection:
    """Open a connection on which each statement is a transaction."""
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    return connection


def _log(directory: Path, synchronous: str) -> closing[sqlite3.Connection]:
    return closing(connect(directory / "log.sqlite", synchronous))


def _create(directory: Path) -> None:
    with _log(directory, "FULL") as connection:
        connection.execute("CREATE TABLE log (sequence INTEGER PRIMARY KEY, record BLOB NOT NULL)")


def one_a_transaction(synchronous: str, record_bytes: int = RECORD_BYTES) -> Prepare:
    """Insert one record a transaction."""

    def loop(connection: sqlite3.Connection) -> Loop:
        execute = connection.execute
        return append_loop(lambda record: execute(_INSERT, (record,)), os.urandom(record_bytes))

    return preparing(lambda directory: _log(directory, synchronous), loop, make=_create, stored=_stored)


def many_a_transaction(synchronous: str, records: int, record_bytes: int = RECORD_BYTES) -> Prepare:
    """Insert `records` records a transaction."""

    def loop(connection: sqlite3.Connection) -> Loop:
        return append_many_loop(
            lambda records: _insert_together(connection, records), [os.urandom(record_bytes)] * records
        )

    return preparing(lambda directory: _log(directory, synchronous), loop, make=_create, stored=_stored)


def _insert_together(connection: sqlite3.Connection, records: Iterable[bytes]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(_INSERT, ((record,) for record in records))
    connection.execute("COMMIT")


def read_in_order(records: int) -> Prepare:
    """Read a log of `records` records from first to last, one at a time."""

    def make(directory: Path) -> None:
        _create(directory)
        with _log(directory, "NORMAL") as connection:
            _insert_together(connection, (os.urandom(RECORD_BYTES) for _ in range(records)))

    def loop(connection: sqlite3.Connection) -> Loop:
        return pass_loop(lambda: take(connection.execute(_SELECT)), records)

    return preparing(lambda directory: _log(directory, "NORMAL"), loop, make=make)


def version() -> str:
    """Return the version of SQLite."""
    return f"SQLite {sqlite3.sqlite_version}"


def _stored(directory: Path) -> int:
    with _log(directory, "FULL") as connection:
        count: int = connection.execute("SELECT count(*) FROM log").fetchone()[0]
        return count
