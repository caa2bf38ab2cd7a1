"""SQLite in WAL mode, with one table as a log: the usual choice for processes that share a file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from stress.bench.contestant import RECORD_BYTES
from stress.bench.loops import append_loop, append_many_loop, pass_loop, take
from stress.bench.measuring import Prepare, Prepared
from stress.bench.processes import Loop

_INSERT = "INSERT INTO log (record) VALUES (?)"
_SELECT = "SELECT record FROM log ORDER BY sequence"

# Long enough for whoever is unlucky with many writers: SQLite does not queue, it sleeps and tries again.
_BUSY_SECONDS = 60.0


def connect(path: Path, synchronous: str) -> sqlite3.Connection:
    """A connection on which each statement is a transaction of its own."""
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    return connection


def create(path: Path) -> None:
    """An empty log."""
    with closing(connect(path, "FULL")) as connection:
        connection.execute("CREATE TABLE log (sequence INTEGER PRIMARY KEY, record BLOB NOT NULL)")


def one_a_transaction(synchronous: str, record_bytes: int = RECORD_BYTES) -> Prepare:
    """One insert a transaction."""

    @contextmanager
    def prepare(directory: Path, processes: int) -> Iterator[Prepared]:
        path = directory / "log.sqlite"
        create(path)

        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            with closing(connect(path, synchronous)) as connection:
                execute = connection.execute
                yield append_loop(lambda record: execute(_INSERT, (record,)), os.urandom(record_bytes))

        yield Prepared(opener, lambda: _stored(path))

    return prepare


def many_a_transaction(synchronous: str, records: int, record_bytes: int = RECORD_BYTES) -> Prepare:
    """So many inserts a transaction."""

    @contextmanager
    def prepare(directory: Path, processes: int) -> Iterator[Prepared]:
        path = directory / "log.sqlite"
        create(path)

        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            with closing(connect(path, synchronous)) as connection:

                def append_many(records: list[bytes]) -> None:
                    connection.execute("BEGIN IMMEDIATE")
                    connection.executemany(_INSERT, ((record,) for record in records))
                    connection.execute("COMMIT")

                yield append_many_loop(append_many, [os.urandom(record_bytes)] * records)

        yield Prepared(opener, lambda: _stored(path))

    return prepare


def read_in_order(records: int) -> Prepare:
    """A log of so many records, read from its first to its last, a record at a time."""

    @contextmanager
    def prepare(directory: Path, processes: int) -> Iterator[Prepared]:
        path = directory / "log.sqlite"
        create(path)
        with closing(connect(path, "NORMAL")) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_INSERT, ((os.urandom(RECORD_BYTES),) for _ in range(records)))
            connection.execute("COMMIT")

        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            with closing(connect(path, "NORMAL")) as connection:
                yield pass_loop(lambda: take(connection.execute(_SELECT)), records)

        yield Prepared(opener, None)

    return prepare


def version() -> str:
    """Which SQLite this is."""
    return f"SQLite {sqlite3.sqlite_version}"


def _stored(path: Path) -> int:
    with closing(connect(path, "FULL")) as connection:
        count: int = connection.execute("SELECT count(*) FROM log").fetchone()[0]
        return count
