"""Small stores for tests of the checker, and the places of everything in them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from binlog.commitlog.append.message import Message
from binlog.commitlog.options import Flush, StoreOptions
from binlog.commitlog.read.store_reader import StoreReader
from binlog.commitlog.retention import Retention
from binlog.commitlog.store import MessageStore
from binlog.format.commitlog.indexes import KeyIndexSize
from binlog.format.commitlog.message import StoredMessage
from binlog.format.commitlog.message_parts import Host

KEY_INDEX = KeyIndexSize(slots=7, entries=20)
OPTIONS = StoreOptions(file_bytes=1 << 12, units_in_file=10, key_index=KEY_INDEX)
# Periodic work happens only when a test calls for it.
MANUAL_RETENTION = Retention(
    hours=-1, at_hour=0, expire_ratio=2, force_ratio=2, full_ratio=2, files_max=2, seconds=3600, pause_seconds=0
)
ASYNC = dataclasses.replace(OPTIONS, flush=Flush.ASYNC)
POOLED = dataclasses.replace(OPTIONS, flush=Flush.POOLED)
PREPARED = 4
ROLLBACK = 12


def body(number: int) -> bytes:
    """Return the body of a message of `fill`."""
    return b"message %d " % number + b"." * (number % 90)


def fill(store: MessageStore, count: int, first: int = 0) -> None:
    """Append messages to two queues of two topics, each with a tag, a key of its own and a shared key."""
    for number in range(first, first + count):
        store.append(
            Message.of(
                "ab"[number % 2],
                body(number),
                queue_id=number // 2 % 2,
                tag=("even", "odd")[number % 2],
                keys=[f"key-{number}", "same"],
                born_host=Host.parse("[::1]:7") if number % 5 == 0 else None,
            )
        )


def make(path: Path, options: StoreOptions = OPTIONS, count: int = 60) -> Path:
    """Create a store of several files that was stopped cleanly, with a batch, a half message and one that was rolled
    back."""
    with MessageStore(path, options) as store:
        fill(store, count)
        store.append([Message("a", b"batch %d" % number, queue_id=number % 2) for number in range(5)])
        store.append(Message("half", b"half", system_flag=PREPARED))
        store.append(Message("half", b"no", system_flag=ROLLBACK))
        fill(store, 3, first=count)
    return path


def stored(path: Path) -> list[StoredMessage]:
    """Return every message, in the order of the commit log."""
    with StoreReader(path) as reader:
        return list(reader.scan())


def overwrite(path: Path, offset: int, data: bytes) -> None:
    """Write these bytes at a place."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def flip(path: Path, offset: int, bit: int = 0) -> None:
    """Flip a bit of the byte at a place."""
    with path.open("r+b") as file:
        file.seek(offset)
        (byte,) = file.read(1)
        file.seek(offset)
        file.write(bytes([byte ^ (1 << bit)]))


def log_file(path: Path, offset: int, file_bytes: int = OPTIONS.file_bytes) -> tuple[Path, int]:
    """Return the file of the commit log that has an offset, and the position in it."""
    return path / "commitlog" / f"{offset - offset % file_bytes:020d}", offset % file_bytes
