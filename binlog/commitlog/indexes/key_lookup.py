"""Looking a key up in the files of a key index: in each the chain that the key's slot leads to, newest entry first.

While a file is written to, entries come first, then their slots, and the count last.  So a slot may lead to entries
that do not count yet, and after a crash to some that never will; those before them do.

The key index, as a reader in another process sees it: its files are being written, made and removed meanwhile.
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
from binlog.format.commitlog.store_files import News
from binlog.storage.directory import Directory, OpenFile
from binlog.storage.failures import own_errors
from binlog.storage.files import read_at


class KeyedFile(Protocol):
    """A file of a key index."""

    size: KeyIndexSize

    def read(self, size: int, offset: int) -> bytes:
        """So many bytes from an offset."""


def find_offsets(files: Iterable[KeyedFile], hash_: int, begin_ms: int, end_ms: int) -> Iterator[int]:
    """Where messages lie whose key has this hash and which were stored within these times, newest first.

    files: the newest first.  Other keys may have the hash, and times are rounded: the messages must be looked at.
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
        # Seconds are rounded down, so the message was stored within this one.
        stored_ms = header["begin_ms"] + entry["seconds"] * 1000
        within = begin_ms < stored_ms + 1000 and stored_ms <= end_ms
        if number < header["entry_count"] and entry["key_hash"] == hash_ and within:
            yield entry["offset"]
        number, newer = entry["previous"], number


def keys_of(message: StoredMessage) -> list[str]:
    """By what the index has it."""
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
    """Those of the messages at these offsets that have the key and were stored within these times, so many at most.

    An index tells of messages that may have the key.  In its first file they may be removed; and where RocketMQ cut a
    damaged end off the log, entries lead to what now lies there, or twice to the same message.
    Raises: CorruptError where a message lies that is not what was written.
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


def slots_of(given: int | None, news: News | None) -> int:
    """How many slots each file has: as `given`, else as the store's owner tells, else as RocketMQ has them."""
    return given or (news.key_slots if news is not None else 0) or SLOT_COUNT


class KeyIndexFileReader:
    """One file."""

    def __init__(self, directory: Directory, name: str, slots: int) -> None:
        """Open it.  Raises: NotFoundError, also while it is being made; CorruptError for a size that none has."""
        self.name = name
        self.path = directory.file_path(name)
        self._file = OpenFile(directory, name, writable=False)
        if self._file.size == 0:
            raise NotFoundError(f"{self.path} is being made")
        try:
            self.size = KeyIndexSize.of(self._file.size, slots)
        except ValueError as error:
            raise CorruptError(self.path, 0, "file_bytes", str(error)) from error

    @property
    def disk_bytes(self) -> int:
        """What it takes on the disk."""
        with own_errors(self.path, "asking for the size"):
            return 512 * os.fstat(self._file.fd).st_blocks

    def read(self, size: int, offset: int) -> bytes:
        """So many bytes from an offset.  Raises: CorruptError where the file was cut."""
        data = read_at(self._file.fd, size, offset, self.path)
        if len(data) < size:
            raise CorruptError(self.path, offset, "file_bytes", f"{size} bytes should be there, and {len(data)} are")
        return data


class KeyIndexReader:
    """The files in `folder`, each of so many slots.  Needs no permission to write.

    Raises, in making one: AccessError.
    """

    def __init__(self, folder: str, slots: int) -> None:
        self.folder = folder
        self.slots = slots
        self._directory = Directory(folder)
        self._open: dict[str, KeyIndexFileReader] = {}

    def files(self) -> list[KeyIndexFileReader]:
        """Those that are there now, the oldest first.  Raises: CorruptError."""
        return [file for name in self.names() if (file := self.file(name)) is not None]

    def names(self) -> list[str]:
        """The names of those that are there now, the oldest first."""
        names = sorted(filter(is_index_name, self._directory.names()))
        for name in self._open.keys() - set(names):
            del self._open[name]
        return names

    def file(self, name: str) -> KeyIndexFileReader | None:
        """The one of this name; None while it is being made, and where it was removed.  Raises: CorruptError."""
        if name not in self._open:
            try:
                self._open[name] = KeyIndexFileReader(self._directory, name, self.slots)
            except NotFoundError:
                return None
        return self._open[name]

    def find(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Where messages lie that may have the key, stored about within these times: newest first."""
        return find_offsets(reversed(self.files()), key_hash(topic, key), begin_ms, end_ms)

    def close(self) -> None:
        """Give its descriptors back."""
        self._open.clear()
        self._directory.close()
