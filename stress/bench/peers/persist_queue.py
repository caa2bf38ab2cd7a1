"""persist-queue's SQLite queue: WAL, and synchronous as SQLite has it unless told, which is FULL."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stress.bench.contestant import RECORD_BYTES
from stress.bench.loops import append_loop
from stress.bench.measuring import Prepared
from stress.bench.peers.packages import missing_package
from stress.bench.processes import Loop

missing = missing_package("persistqueue", "persist-queue")

_BUSY_SECONDS = 60.0


def _queue(directory: Path) -> Any:
    from persistqueue import SQLiteQueue

    return SQLiteQueue(str(directory), auto_commit=True, timeout=_BUSY_SECONDS)


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


def _stored(directory: Path) -> int:
    queue = _queue(directory)
    count: int = queue.size
    queue.close()
    return count
