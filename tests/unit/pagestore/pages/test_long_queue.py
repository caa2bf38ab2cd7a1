"""A queue far longer than the cache: put and get read no more pages as it grows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from binlog import Mode
from binlog.format.pagestore.index import entries_in
from binlog.format.pagestore.page import PAGE_BYTES_MIN, page_content_bytes
from binlog.pagestore import PageStore, PageStoreOptions

QUEUE = "long"
_PARTS = 10
_TOGETHER = 100
_BODY = bytes(100)


class Section(NamedTuple):
    """The cost of one section of the messages.

    length: of the queue, in the middle of the section.  micros: per message.  reads: pages read from the file, per
    message.
    """

    what: str
    length: int
    micros: float
    reads: float


def options(message_count: int) -> PageStoreOptions:
    """Options with a cache of a hundredth of the pages."""
    pages = message_count + message_count // entries_in(page_content_bytes(PAGE_BYTES_MIN))
    return PageStoreOptions(cache_pages=max(pages // 100, 8), mode=Mode.FLUSH)


def measure(path: Path, message_count: int) -> Iterator[Section]:
    """Fill a queue, open the store again, and empty it; yield the cost of each section."""
    part_count = message_count // _PARTS
    with PageStore(path, options(message_count)) as store:
        store.create_queue(QUEUE)
        for part in range(_PARTS):
            yield _measure(store, "put", part_count * part + part_count // 2, part_count, _put)
    with PageStore(path, options(message_count)) as store:
        for part in reversed(range(_PARTS)):
            yield _measure(store, "get", part_count * part + part_count // 2, part_count, _get)
        assert store.waiting_count(QUEUE) == 0


def _measure(store: PageStore, what: str, length: int, count: int, change: Callable[[PageStore], None]) -> Section:
    reads, begun = store._cache.reads, time.perf_counter()
    for _ in range(count // _TOGETHER):
        change(store)
    seconds = time.perf_counter() - begun
    return Section(what, length, seconds / count * 1e6, (store._cache.reads - reads) / count)


def _put(store: PageStore) -> None:
    with store.transaction() as transaction:
        for _ in range(_TOGETHER):
            transaction.put(QUEUE, _BODY)


def _get(store: PageStore) -> None:
    with store.transaction() as transaction:
        for _ in range(_TOGETHER):
            assert transaction.get(QUEUE) is not None


@pytest.mark.slow
def test_put_and_get_read_the_same_pages_in_a_long_queue(tmp_path: Path, figure: Callable[[str], None]) -> None:
    """The test counts page reads, and prints times."""
    parts = [*measure(tmp_path / "store", 10_000)]
    puts, gets = ([part for part in parts if part.what == what] for what in ("put", "get"))
    assert len(puts) == len(gets) == 10
    assert max(part.reads for part in puts) == 0
    reads = [part.reads for part in gets]
    # The message's own page, and one index page for 61 messages, or two if a hundred other messages are between them.
    assert 1 <= min(reads) <= max(reads) < 1.2
    assert max(reads) - min(reads) < 0.02
    for what, found in (("put", puts), ("get", gets)):
        figure(f"page store, {what}: {found[0].micros:.0f} us at {found[0].length:,} messages, "
               f"{found[-1].micros:.0f} at {found[-1].length:,}")  # fmt: skip
