"""Shows the contents of a page store from outside, while its owner may be running."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from binlog.errors import NotFoundError
from binlog.format.pagestore.index import QueueEntry, RootEntry, parse_queue_page, parse_root_page
from binlog.format.pagestore.other_files import LOCK_FILE
from binlog.format.pagestore.page import NONE, ROOT_PAGE, parse_message_page
from binlog.format.pagestore.prepared import PREPARED_QUEUE, parse_prepared
from binlog.pagestore.deliveries import read_counts, with_count
from binlog.pagestore.inspection import StoreView, view_store
from binlog.pagestore.prepared import PreparedTransaction
from binlog.pagestore.transaction import Message
from binlog.storage.locking.directory_lock import find_owner


class QueueStat(NamedTuple):
    """The state of a queue.

    message_count: including messages of prepared transactions.  index_pages: pages of its index.  delivered_count:
    messages that were delivered and are still in the queue.
    """

    name: str
    message_count: int
    index_pages: int
    delivered_count: int


class PageStoreStat(NamedTuple):
    """The state of a page store.

    page_count: including free pages.  generation, record_count: of the log.  is_owned: whether a process has the store
    open.
    holder: that process, if it is known.
    """

    page_bytes: int
    page_count: int
    free_count: int
    generation: int
    record_count: int
    queues: tuple[QueueStat, ...]
    prepared: tuple[PreparedTransaction, ...]
    is_owned: bool
    holder: str | None


def stat_page_store(path: str | os.PathLike[str]) -> PageStoreStat:
    """Return the state of the page store in a folder.

    Takes no lock and writes nothing.
    Raises: NotFoundError if there is no store; CorruptError; VersionError; AccessError; BusyError if the store changes
    faster than it can be read.
    """
    return view_store(path, _stat)


def read_queue(path: str | os.PathLike[str], queue: str, count: int | None = None) -> list[Message]:
    """Return the messages of a queue in the order of their keys, at most `count` of them.

    Includes messages of prepared transactions.
    Raises: NotFoundError, also if there is no such queue; and as `stat_page_store`.
    """

    def work(view: StoreView) -> list[Message]:
        found = [entry for entry in _root(view) if entry.name == queue]
        if not found:
            raise NotFoundError(f"no queue is named {queue!r}")
        counts = read_counts(view.directory)
        entries = (with_count(counts, found[0].first_page, entry) for entry in _valid(view, found[0]))
        return [_message(view, queue, entry) for entry in islice(entries, count)]

    return view_store(path, work)


def _stat(view: StoreView) -> PageStoreStat:
    queues, prepared = [], []
    counts = read_counts(view.directory)
    for queue in _root(view):
        pages = list(_pages(view, queue))
        if queue.name == PREPARED_QUEUE:
            bodies = [_message(view, queue.name, entry).body for entry in _valid(view, queue)]
            prepared = [PreparedTransaction(*parse_prepared(body, view.page_path)) for body in bodies]
        else:
            found = [with_count(counts, queue.first_page, each) for page in pages for each in page if each.valid]
            delivered_count = sum(1 for entry in found if entry.delivery_count)
            queues.append(QueueStat(queue.name, len(found), len(pages), delivered_count))
    is_owned, holder = find_owner(view.directory, LOCK_FILE)
    free = view.free
    return PageStoreStat(
        view.start.page_bytes, free.page_count, free.free_count, view.start.generation, view.record_count,
        tuple(queues), tuple(prepared), is_owned, holder,
    )  # fmt: skip


def _root(view: StoreView) -> Iterator[RootEntry]:
    number, seen = ROOT_PAGE, set[int]()
    while number != NONE and number not in seen:
        seen.add(number)
        head, entries = parse_root_page(view.content(number), view.at(number))
        yield from entries
        number = head.next


def _pages(view: StoreView, queue: RootEntry) -> Iterator[list[QueueEntry]]:
    number, seen = queue.first_page, set[int]()
    while number != NONE and number not in seen:
        seen.add(number)
        head, entries = parse_queue_page(view.content(number), view.at(number))
        yield entries
        number = head.next


def _valid(view: StoreView, queue: RootEntry) -> Iterator[QueueEntry]:
    return (entry for page in _pages(view, queue) for entry in page if entry.valid)


def _message(view: StoreView, queue: str, entry: QueueEntry) -> Message:
    number, previous, parts = entry.message_page, NONE, []
    while number != NONE:
        page = parse_message_page(view.content(number), previous, view.at(number))
        parts.append(page.part)
        number, previous = page.next, number
    return Message(queue, entry.key, b"".join(parts), entry.priority, entry.delivery_count, entry.expiration)
