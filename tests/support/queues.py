"""Queues for tests: messages, and the contents of a queue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from binlog.format.paging.names import PAGE_EXTENSION
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
    """Return messages that are all different."""
    return [b"%06d" % number * 20 for number in range(first, first + count)]


def get_all(queue_: Queue) -> list[bytes]:
    """Get and acknowledge all messages."""
    found = []
    while not queue_.empty():
        message = queue_.get_nowait()
        found.append(message.body)
        queue_.ack(message)
    return found


def page_count(folder: Path) -> int:
    """Return the number of page files."""
    return len(list(folder.glob(f"*/*{PAGE_EXTENSION}")))
