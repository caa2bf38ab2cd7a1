"""persist-queue's SQLite queue: WAL, with SQLite's default of synchronous=FULL."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any

from stress.bench.contestant import RECORD_BYTES
from stress.bench.loops import append_loop, in_threads
from stress.bench.measuring import Prepare, preparing
from stress.bench.peers.packages import missing_package
from stress.bench.peers.queue_work import QueueCalls, QueueWork, queue_loop

missing = missing_package("persistqueue", "persist-queue")

_BUSY_SECONDS = 60.0


def _queue(directory: Path, *, multithreading: bool = False) -> Any:
    from persistqueue import SQLiteQueue

    return SQLiteQueue(str(directory), auto_commit=True, timeout=_BUSY_SECONDS, multithreading=multithreading)


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

    def fill(bodies: list[bytes]) -> None:
        for body in bodies:
            queue.put(body)

    return QueueCalls(queue.put, get, both, fill)


def _stored(directory: Path) -> int:
    queue = _queue(directory)
    count: int = queue.size
    queue.close()
    return count
