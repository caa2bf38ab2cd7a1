"""SQLite with one table as a queue: WAL, and each commit synced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from sqlite3 import Connection

from stress.bench.measuring import Prepare, Prepared
from stress.bench.peers.queue_work import QueueCalls, QueueWork, queue_loop
from stress.bench.peers.sqlite import connect
from stress.bench.processes import Loop

_INSERT = "INSERT INTO queue (body) VALUES (?)"
_DELETE = "DELETE FROM queue WHERE id = (SELECT id FROM queue ORDER BY id LIMIT 1) RETURNING body"


def working(work: QueueWork) -> Prepare:
    """Transactions of each process, on a connection of its own."""

    @contextmanager
    def prepare(directory: Path, processes: int) -> Iterator[Prepared]:
        path = directory / "queue.sqlite"
        with closing(connect(path, "FULL")) as connection:
            connection.execute("CREATE TABLE queue (id INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL)")

        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            with closing(connect(path, "FULL")) as connection:
                yield queue_loop(_calls(connection), work)

        yield Prepared(opener, None)

    return prepare


def _calls(connection: Connection) -> QueueCalls:
    execute = connection.execute

    def get() -> bool:
        execute("BEGIN IMMEDIATE")
        found = execute(_DELETE).fetchall()
        execute("COMMIT")
        return bool(found)

    def both(body: bytes) -> None:
        execute("BEGIN IMMEDIATE")
        execute(_INSERT, (body,))
        execute(_DELETE).fetchall()
        execute("COMMIT")

    def fill(bodies: list[bytes]) -> None:
        execute("BEGIN IMMEDIATE")
        connection.executemany(_INSERT, ((body,) for body in bodies))
        execute("COMMIT")

    return QueueCalls(lambda body: execute(_INSERT, (body,)), get, both, fill)
