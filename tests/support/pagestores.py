"""Page stores for tests, small enough that a few messages fill their caches and logs."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from binlog.pagestore import Message, PageStore, PageStoreOptions, check_page_store

SMALL = PageStoreOptions(cache_pages=8, log_bytes=8192)
QUEUE = "orders"

_copies = itertools.count()


@contextmanager
def page_store(path: Path, options: PageStoreOptions = SMALL, queue: str = QUEUE) -> Iterator[PageStore]:
    """Open a store with a queue, and check it for problems at the end."""
    with PageStore(path, options) as store:
        store.create_queue(queue)
        yield store
    assert check_page_store(path) == []


def put(store: PageStore, *bodies: bytes, queue: str = QUEUE) -> None:
    """Put messages in one transaction."""
    with store.transaction() as transaction:
        for body in bodies:
            transaction.put(queue, body)


def drain(store: PageStore, queue: str = QUEUE) -> list[bytes]:
    """Get all messages, one per transaction."""
    bodies = []
    while (message := take(store, queue)) is not None:
        bodies.append(message.body)
    return bodies


def take(store: PageStore, queue: str = QUEUE) -> Message | None:
    """Get a message."""
    with store.transaction() as transaction:
        return transaction.get(queue)


def peek(store: PageStore, queue: str = QUEUE) -> list[bytes]:
    """Return all waiting messages without removing them."""
    transaction = store.transaction()
    bodies = []
    while (message := transaction.get(queue)) is not None:
        bodies.append(message.body)
    transaction.rollback()
    return bodies


def copy_after_kill(what: PageStore | Path) -> Path:
    """Copy a store's files, as the next process finds them if this one is killed now."""
    path = Path(what.path) if isinstance(what, PageStore) else what
    copy = path.with_name(f"{path.name}-killed-{next(_copies)}")
    # The guard prevents a checkpoint while the files are copied.
    with what._guard if isinstance(what, PageStore) else nullcontext():
        shutil.copytree(path, copy)
    return copy


def contents_after_kill(what: PageStore | Path, options: PageStoreOptions = SMALL) -> dict[str, list[bytes]]:
    """Return the contents of all queues as they would be after a kill."""
    copy = copy_after_kill(what)
    assert check_page_store(copy) == []
    with PageStore(copy, options) as store:
        found = {queue: peek(store, queue) for queue in store.queues}
    assert check_page_store(copy) == []
    shutil.rmtree(copy)
    return found
