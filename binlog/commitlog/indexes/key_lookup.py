"""Lookup in the files of a key index, in the owner and in other processes.

The slot of a key leads to the newest entry of its chain, and each entry to an older one.  The owner writes entries
first, then their slots, and the count last.  So a slot may lead to entries that are not counted yet, and after a crash
never will be; the older entries of such a chain are valid.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from binlog.errors import CorruptError, GoneError, NotFoundError
from binlog.format.commitlog.indexes import (
    KEY_INDEX_ENTRY,
    KEY_INDEX_HEADER,
    KEY_INDEX_SLOT,
    SLOT_COUNT,
    KeyIndexSize,
    key_hash,
)
from binlog.format.commitlog.message import DAMAGED_CONTENT, StoredMessage
from binlog.format.commitlog.message_parts import KEYS, UNIQUE_KEY, parse_properties
from binlog.format.commitlog.names import is_index_name
from binlog.format.commitlog.store_files import ReaderState
from binlog.storage.directory import Directory, OpenFile
from binlog.storage.failures import own_errors
from binlog.storage.files import read_at


class KeyedFile(Protocol):
    """A file of a key index that can be read."""

    size: KeyIndexSize

    def read(self, size: int, offset: int) -> bytes:
        """Read `size` bytes at an offset."""


def find_offsets(files: Iterable[KeyedFile], hash_: int, begin_ms: int, end_ms: int) -> Iterator[int]:
    """Yield the offsets of messages that may have a key with this hash, stored within these times, newest first.

    files: the newest first.  Other keys can have the hash, and times are rounded, so the caller must check the
    messages.
    """
    for file in files:
        header = KEY_INDEX_HEADER.unpack(file.read(KEY_INDEX_HEADER.size, 0))
        if header["entry_count"] <= 1 or header["begin_ms"] > end_ms:
            continue
        if header["end_ms"] < begin_ms:
            return
        yield from _chain(file, header, hash_, begin_ms, end_ms)


def _chain(file: KeyedFile, header: dict[str, int], hash_: int, begin_ms: int, end_ms: int) -> Iterator[int]:
    slot = file.read(KEY_INDEX_SLOT.size, file.size.slot_at(hash_))
    number = KEY_INDEX_SLOT.unpack(slot)["newest"]
    newer = file.size.entries
    while 0 < number < newer:  # a chain leads to older entries only
        entry = KEY_INDEX_ENTRY.unpack(file.read(KEY_INDEX_ENTRY.size, file.size.entry_at(number)))
        # Seconds are rounded down, so the message was stored within this second.
        stored_ms = header["begin_ms"] + entry["seconds"] * 1000
        within = begin_ms < stored_ms + 1000 and stored_ms <= end_ms
        if number < header["entry_count"] and entry["key_hash"] == hash_ and within:
            yield entry["offset"]
        number, newer = entry["previous"], number


def keys_of(message: StoredMessage) -> list[str]:
    """Return the keys by which the index has a message."""
    properties = parse_properties(message.properties)
    return [properties.get(UNIQUE_KEY, ""), *properties.get(KEYS, "").split(" ")]


def messages_with_key(
    offsets: Iterable[int],
    read: Callable[[int], StoredMessage],
    topic: str,
    key: str,
    begin_ms: int,
    end_ms: int,
    count: int,
) -> list[StoredMessage]:
    """Return up to `count` of the messages at these offsets that have the key and were stored within these times.

    The offsets are candidates.  Messages of the first file may be gone; and if RocketMQ cut a damaged end off the log,
    entries may lead to later messages, or twice to one message.
    Raises: CorruptError if a message is damaged.
    """
    found: list[StoredMessage] = []
    seen: set[int] = set()
    for offset in offsets:
        if len(found) == count:
            break
        if offset in seen:
            continue
        seen.add(offset)
        try:
            message = read(offset)
        except (NotFoundError, GoneError):
            continue
        except CorruptError as error:
            if error.rule in DAMAGED_CONTENT:
                raise
            continue
        if message.topic == topic and key in keys_of(message) and begin_ms <= message.store_ms <= end_ms:
            found.append(message)
    return found


def key_slots_of(given: int | None, reader_state: ReaderState | None) -> int:
    """Return the number of slots of each file: `given`, else as published by the owner, else RocketMQ's default."""
    return given or (reader_state.key_slots if reader_state is not None else 0) or SLOT_COUNT


class KeyIndexFileReader:
    """A reader of one file of the key index."""

    def __init__(self, directory: Directory, name: str, slots: int) -> None:
        """Open the file.  Raises: NotFoundError also while the owner creates it; CorruptError for an invalid size."""
        self.name = name
        self.path = directory.file_path(name)
        self._file = OpenFile(directory, name, writable=False)
        if self._file.size == 0:
            raise NotFoundError(f"{self.path} is being created")
        try:
            self.size = KeyIndexSize.of(self._file.size, slots)
        except ValueError as error:
            raise CorruptError(self.path, 0, "file_bytes", str(error)) from error

    @property
    def disk_bytes(self) -> int:
        """Return how many bytes of disk space the file takes."""
        with own_errors(self.path, "reading the size"):
            return 512 * os.fstat(self._file.fd).st_blocks

    def read(self, size: int, offset: int) -> bytes:
        """Read `size` bytes at an offset.  Raises: CorruptError if the file was cut."""
        data = read_at(self._file.fd, size, offset, self.path)
        if len(data) < size:
            raise CorruptError(self.path, offset, "file_bytes", f"the file has only {len(data)} of {size} bytes here")
        return data


class KeyIndexReader:
    """A reader of the key index in `folder`, whose files have `slots` slots; it needs no permission to write.

    The constructor raises AccessError.
    """

    def __init__(self, folder: str, slots: int) -> None:
        self.folder = folder
        self.slots = slots
        self._directory = Directory(folder)
        self._open: dict[str, KeyIndexFileReader] = {}

    def files(self) -> list[KeyIndexFileReader]:
        """Return the present files, oldest first.  Raises: CorruptError."""
        return [file for name in self.names() if (file := self.file(name)) is not None]

    def names(self) -> list[str]:
        """Return the names of the present files, oldest first."""
        names = sorted(filter(is_index_name, self._directory.names()))
        for name in self._open.keys() - set(names):
            del self._open[name]
        return names

    def file(self, name: str) -> KeyIndexFileReader | None:
        """Return the file with this name; None while the owner creates it, or once it is removed."""
        if name not in self._open:
            try:
                self._open[name] = KeyIndexFileReader(self._directory, name, self.slots)
            except NotFoundError:
                return None
        return self._open[name]

    def find(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Yield the offsets of messages that may have the key, stored about within these times, newest first."""
        return find_offsets(reversed(self.files()), key_hash(topic, key), begin_ms, end_ms)

    def close(self) -> None:
        """Close the descriptors."""
        self._open.clear()
        self._directory.close()
