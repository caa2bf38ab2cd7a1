"""Queues of tests: what is put, what can be got, and what a process leaves that dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from binlog.format.paging.names import PAGE_END
from binlog.paging.inspection import check_paging
from binlog.paging.options import PagingOptions
from binlog.queue.queue import Queue

SMALL = PagingOptions(page_bytes=4096)
SECONDS = 20


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for a queue; it must have no problems after the test."""
    path = tmp_path / "queue"
    yield path
    if path.exists():
        assert check_paging(path) == []


def bodies(count: int, *, first: int = 0) -> list[bytes]:
    """So many, of which no two are the same."""
    return [b"%06d" % number * 20 for number in range(first, first + count)]


def taken(queue_: Queue) -> list[bytes]:
    """All that can be got, acknowledged."""
    found = []
    while not queue_.empty():
        message = queue_.get_nowait()
        found.append(message.body)
        queue_.ack(message)
    return found


def page_count(folder: Path) -> int:
    """How many pages there are."""
    return len(list(folder.glob(f"*/*{PAGE_END}")))
