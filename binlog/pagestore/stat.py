"""What is in a page store, looked at from outside while its owner may go on."""

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
from binlog.pagestore.inspection import StoreLook, look_at
from binlog.pagestore.prepared import PreparedTransaction
from binlog.pagestore.transaction import Message
from binlog.storage.locking.directory_lock import find_owner


class QueueStat(NamedTuple):
    """A queue.

    message_count: with those that prepared transactions have.  index_pages: of its index.  given_count: of its
    messages, those that were given to somebody.
    """

    name: str
    message_count: int
    index_pages: int
    given_count: int


class PageStoreStat(NamedTuple):
    """A page store.

    page_count: pages, free ones too.  generation, record_count: of the log.  is_owned: a process has it; holder: which,
    where that is known.
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
    """What is in the store in a folder.

    Takes no lock and writes nothing.
    Raises: NotFoundError where there is no store; CorruptError; VersionError; AccessError; BusyError where the store
    changes faster than it can be read.
    """
    return look_at(path, _stat)


def read_queue(path: str | os.PathLike[str], queue: str, count: int | None = None) -> list[Message]:
    """The messages of a queue in the order of their keys, also those that prepared transactions have; so many at most.

    Raises: NotFoundError, also where there is no such queue; and as `stat_page_store`.
    """

    def work(look: StoreLook) -> list[Message]:
        found = [entry for entry in _root(look) if entry.name == queue]
        if not found:
            raise NotFoundError(f"there is no queue {queue!r}")
        counts = read_counts(look.directory)
        entries = (with_count(counts, found[0].first_page, entry) for entry in _valid(look, found[0]))
        return [_message(look, queue, entry) for entry in islice(entries, count)]

    return look_at(path, work)


def _stat(look: StoreLook) -> PageStoreStat:
    queues, prepared = [], []
    counts = read_counts(look.directory)
    for queue in _root(look):
        pages = list(_pages(look, queue))
        if queue.name == PREPARED_QUEUE:
            bodies = [_message(look, queue.name, entry).body for entry in _valid(look, queue)]
            prepared = [PreparedTransaction(*parse_prepared(body, look.page_path)) for body in bodies]
        else:
            found = [with_count(counts, queue.first_page, each) for page in pages for each in page if each.valid]
            given_count = sum(1 for entry in found if entry.delivery_count)
            queues.append(QueueStat(queue.name, len(found), len(pages), given_count))
    is_owned, holder = find_owner(look.directory, LOCK_FILE)
    free = look.free
    return PageStoreStat(
        look.start.page_bytes, free.page_count, free.free_count, look.start.generation, look.record_count,
        tuple(queues), tuple(prepared), is_owned, holder,
    )  # fmt: skip


def _root(look: StoreLook) -> Iterator[RootEntry]:
    number, seen = ROOT_PAGE, set[int]()
    while number != NONE and number not in seen:
        seen.add(number)
        head, entries = parse_root_page(look.content(number), look.at(number))
        yield from entries
        number = head.next


def _pages(look: StoreLook, queue: RootEntry) -> Iterator[list[QueueEntry]]:
    number, seen = queue.first_page, set[int]()
    while number != NONE and number not in seen:
        seen.add(number)
        head, entries = parse_queue_page(look.content(number), look.at(number))
        yield entries
        number = head.next


def _valid(look: StoreLook, queue: RootEntry) -> Iterator[QueueEntry]:
    return (entry for page in _pages(look, queue) for entry in page if entry.valid)


def _message(look: StoreLook, queue: str, entry: QueueEntry) -> Message:
    number, previous, parts = entry.message_page, NONE, []
    while number != NONE:
        page = parse_message_page(look.content(number), previous, look.at(number))
        parts.append(page.part)
        number, previous = page.next, number
    return Message(queue, entry.key, b"".join(parts), entry.priority, entry.delivery_count, entry.expiration)
