"""SQLite with one table as a queue: WAL; a message is deleted at once, or claimed first and deleted later."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from sqlite3 import Connection

from stress.bench.measuring import Prepare, preparing
from stress.bench.peers.claim_work import Claims, claim_loop, claim_many_loop, parts
from stress.bench.peers.queue_work import QueueCalls, QueueWork, queue_loop
from stress.bench.peers.sqlite import connect
from stress.bench.processes import Loop

_INSERT = "INSERT INTO queue (body) VALUES (?)"
_DELETE = "DELETE FROM queue WHERE id = (SELECT id FROM queue ORDER BY id LIMIT 1) RETURNING body"

_CREATE_CLAIMED = (
    "CREATE TABLE queue (id INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL, claimed_ns INTEGER)",
    "CREATE INDEX waiting ON queue (id) WHERE claimed_ns IS NULL",
)
_CLAIM = (
    "UPDATE queue SET claimed_ns = ? WHERE id {} (SELECT id FROM queue INDEXED BY waiting WHERE claimed_ns IS NULL "
    "ORDER BY id LIMIT {}) RETURNING id, body"
)
_ACK = "DELETE FROM queue WHERE id = ?"


def _queue(directory: Path, synchronous: str = "FULL") -> closing[Connection]:
    return closing(connect(directory / "queue.sqlite", synchronous))


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

    return QueueCalls(lambda body: execute(_INSERT, (body,)), get, both, lambda bodies: _put_all(connection, bodies))


def claiming(synchronous: str, count: int, *, together: bool = False) -> Prepare:
    """Claim a message in one transaction, and delete it in another.

    count: messages that wait.  together: a message is deleted in the transaction that claims the next one.
    """

    def loop(connection: Connection) -> Loop:
        return claim_loop(_claims_together(connection) if together else _claims(connection))

    return preparing(lambda directory: _queue(directory, synchronous), loop, make=lambda place: _fill(place, count))


def claiming_many(synchronous: str, count: int, messages: int) -> Prepare:
    """Claim several messages in one transaction, and delete them in another."""

    def loop(connection: Connection) -> Loop:
        return claim_many_loop(_claims_of_many(connection, messages))

    return preparing(lambda directory: _queue(directory, synchronous), loop, make=lambda place: _fill(place, count))


def _fill(directory: Path, count: int) -> None:
    with _queue(directory) as connection:
        for statement in _CREATE_CLAIMED:
            connection.execute(statement)
        for bodies in parts(count):
            _put_all(connection, bodies)


def _claims(connection: Connection) -> Claims:
    # Without BEGIN each statement is a transaction, which takes the lock for writing at its beginning.
    execute, claim = connection.execute, _CLAIM.format("=", 1)

    def take() -> int:
        claimed = execute(claim, (time.time_ns(),)).fetchall()
        if not claimed:
            return 0
        execute(_ACK, claimed[0][:1])
        return 1

    return Claims(take, lambda bodies: _put_all(connection, bodies))


def _claims_together(connection: Connection) -> Claims:
    execute, claim = connection.execute, _CLAIM.format("=", 1)
    held: list[tuple[int]] = []

    def take() -> int:
        execute("BEGIN IMMEDIATE")
        if held:
            execute(_ACK, held.pop())
        claimed = execute(claim, (time.time_ns(),)).fetchall()
        execute("COMMIT")
        if not claimed:
            return 0
        held.append(claimed[0][:1])
        return 1

    return Claims(take, lambda bodies: _put_all(connection, bodies))


def _claims_of_many(connection: Connection, messages: int) -> Claims:
    execute, claim = connection.execute, _CLAIM.format("IN", messages)

    def take() -> int:
        claimed = execute(claim, (time.time_ns(),)).fetchall()
        execute("BEGIN IMMEDIATE")
        connection.executemany(_ACK, [row[:1] for row in claimed])
        execute("COMMIT")
        return len(claimed)

    return Claims(take, lambda bodies: _put_all(connection, bodies))


def _put_all(connection: Connection, bodies: list[bytes]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(_INSERT, ((body,) for body in bodies))
    connection.execute("COMMIT")
