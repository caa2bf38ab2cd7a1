"""SQLite with one table as a queue: WAL, and each commit synced."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from sqlite3 import Connection

from stress.bench.measuring import Prepare, preparing
from stress.bench.peers.queue_work import QueueCalls, QueueWork, queue_loop
from stress.bench.peers.sqlite import connect

_INSERT = "INSERT INTO queue (body) VALUES (?)"
_DELETE = "DELETE FROM queue WHERE id = (SELECT id FROM queue ORDER BY id LIMIT 1) RETURNING body"


def _queue(directory: Path) -> closing[Connection]:
    return closing(connect(directory / "queue.sqlite", "FULL"))


def _create(directory: Path) -> None:
    with _queue(directory) as connection:
        connection.execute("CREATE TABLE queue (id INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL)")


def working(work: QueueWork) -> Prepare:
    """Run transactions, each process on a connection of its own."""
    return preparing(_queue, lambda connection: queue_loop(_calls(connection), work), make=_create)


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
