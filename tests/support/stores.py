"""Small stores for tests, and parts of their files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from binlog.commitlog.append.flush_services import GroupCommitService
from binlog.commitlog.append.message import Message
from binlog.commitlog.indexes.key_index import KeyIndexSize
from binlog.commitlog.options import StoreOptions
from binlog.commitlog.store import MessageStore

SMALL = StoreOptions(file_bytes=1 << 16, units_in_file=100, key_index=KeyIndexSize(100, 1000))


class Buffer:
    """A buffer in memory of this process."""

    def __init__(self, size: int) -> None:
        self.data = bytearray(size)
        self.given_back = False

    def write(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        self.data[offset : offset + len(data)] = data

    def view(self, start: int, stop: int) -> memoryview:
        return memoryview(self.data)[start:stop]

    def give_back(self) -> None:
        self.given_back = True


@contextmanager
def without_flushes(store: MessageStore) -> Iterator[None]:
    """Keep appends with Flush.SYNC from returning inside of the block, as if another thread were syncing."""
    assert isinstance(store._flushing, GroupCommitService)
    with store._flushing._group.lead_or_wait(1 << 62):
        yield


def has_unflushed(store: MessageStore) -> bool:
    """Return whether an appended message is not on the disk yet."""
    files = store._log.files
    return files.wrote_where > files.flushed_where


def append_numbers(path: Path, start: int, end: int, *, topic: str = "t", queues: int = 1, body_bytes: int = 0) -> None:
    """Append messages with these numbers as bodies to the queues in turn; the tags of each queue are even and odd."""
    with MessageStore(path, SMALL) as store:
        for number in range(start, end):
            body = (b"%d" % number).ljust(body_bytes)
            tag = "odd" if number // queues % 2 else "even"
            store.append(Message.of(topic, body, queue_id=number % queues, tag=tag, keys=[f"k{number}"]))
