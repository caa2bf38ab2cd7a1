"""persist-queue's SQLite queues: WAL, with SQLite's default of synchronous=FULL."""

from __future__ import annotations

import itertools
import os
from contextlib import closing
from pathlib import Path
from typing import Any

from stress.bench.contestant import RECORD_BYTES
from stress.bench.loops import append_loop, in_threads
from stress.bench.measuring import Prepare, preparing
from stress.bench.peers.claim_work import Claims, claim_loop, parts
from stress.bench.peers.packages import missing_package
from stress.bench.peers.queue_work import QueueCalls, QueueWork, queue_loop

missing = missing_package("persistqueue", "persist-queue")

_BUSY_SECONDS = 60.0

# Each search for a message passes the acknowledged ones, which remain in the table until they are cleared.
CLEARED_AT = 1000


def _queue(directory: Path, *, multithreading: bool = False) -> Any:
    from persistqueue import SQLiteQueue

    return SQLiteQueue(str(directory), auto_commit=True, timeout=_BUSY_SECONDS, multithreading=multithreading)


def _ack_queue(directory: Path) -> Any:
    from persistqueue import SQLiteAckQueue

    return SQLiteAckQueue(str(directory), auto_commit=True, timeout=_BUSY_SECONDS, multithreading=True)


def appending() -> Prepare:
    """Put one item a call; the queue pickles it, by default."""
    return preparing(
        lambda directory: closing(_queue(directory)),
        lambda queue: append_loop(queue.put, os.urandom(RECORD_BYTES)),
        make=lambda directory: _queue(directory).close(),
        stored=_stored,
    )


def working(work: QueueWork, threads: int) -> Prepare:
    """Put and get in several threads, each call a transaction."""
    return preparing(
        lambda directory: closing(_queue(directory, multithreading=True)),
        lambda queue: in_threads(queue_loop(_calls(queue), work), threads),
    )


def claiming(count: int, threads: int) -> Prepare:
    """Get and acknowledge messages of the queue with acknowledgements in several threads, each call a transaction.

    count: messages that wait.
    """
    return preparing(
        lambda directory: closing(_ack_queue(directory)),
        lambda queue: in_threads(claim_loop(_claims(queue)), threads),
        make=lambda directory: _fill(directory, count),
    )


def _claims(queue: Any) -> Claims:
    from persistqueue.exceptions import Empty

    acks = itertools.count(1)

    def take() -> int:
        try:
            item = queue.get(block=False, raw=True)
        except Empty:
            return 0
        queue.ack(id=item["pqid"])
        if next(acks) % CLEARED_AT == 0:
            queue.clear_acked_data(max_delete=CLEARED_AT, keep_latest=0)
        return 1

    return Claims(take, lambda bodies: _put_all(queue, bodies))


def _fill(directory: Path, count: int) -> None:
    with closing(_ack_queue(directory)) as queue:
        # It has no call for many messages, and a sync for each of them would take longer than the measurement.
        queue._putter.execute("PRAGMA synchronous = OFF")
        for bodies in parts(count):
            _put_all(queue, bodies)
    os.sync()


def _put_all(queue: Any, bodies: list[bytes]) -> None:
    for body in bodies:
        queue.put(body)


def _calls(queue: Any) -> QueueCalls:
    def get() -> bool:
        from persistqueue.exceptions import Empty

        try:
            queue.get(block=False)
        except Empty:
            return False
        return True

    def both(body: bytes) -> None:
        queue.put(body)
        get()

    return QueueCalls(queue.put, get, both, lambda bodies: _put_all(queue, bodies))


def _stored(directory: Path) -> int:
    queue = _queue(directory)
    count: int = queue.size
    queue.close()
    return count
