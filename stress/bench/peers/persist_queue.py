"""persist-queue's SQLite queue: WAL, and synchronous as SQLite has it unless told, which is FULL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stress.bench.contestant import RECORD_BYTES
from stress.bench.loops import append_loop, in_threads
from stress.bench.measuring import Prepare, Prepared
from stress.bench.peers.packages import missing_package
from stress.bench.peers.queue_work import QueueCalls, QueueWork, queue_loop
from stress.bench.processes import Loop

missing = missing_package("persistqueue", "persist-queue")

_BUSY_SECONDS = 60.0


def _queue(directory: Path, *, multithreading: bool = False) -> Any:
    from persistqueue import SQLiteQueue

    return SQLiteQueue(str(directory), auto_commit=True, timeout=_BUSY_SECONDS, multithreading=multithreading)


@contextmanager
def prepare(directory: Path, processes: int) -> Iterator[Prepared]:
    """One item a put; it is pickled, as the queue does unless told."""
    _queue(directory).close()

    @contextmanager
    def opener(index: int) -> Iterator[Loop]:
        queue = _queue(directory)
        yield append_loop(queue.put, os.urandom(RECORD_BYTES))
        queue.close()

    yield Prepared(opener, lambda: _stored(directory))


def working(work: QueueWork, threads: int) -> Prepare:
    """Puts and gets of so many threads, each a transaction."""

    @contextmanager
    def prepare(directory: Path, processes: int) -> Iterator[Prepared]:
        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            queue = _queue(directory, multithreading=True)
            loop = queue_loop(_calls(queue), work)
            yield in_threads(loop, threads) if threads > 1 else loop
            queue.close()

        yield Prepared(opener, None)

    return prepare


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
