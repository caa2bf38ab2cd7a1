"""Looking a key up in the files of a key index: in each the chain that the key's slot leads to, newest entry first.

While a file is written to, entries come first, then their slots, and the count last.  So a slot may lead to entries
that do not count yet, and after a crash to some that never will; those before them do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from binlog.errors import CorruptError, GoneError, NotFoundError
from binlog.format.commitlog.key_index import KEY_INDEX_ENTRY, KEY_INDEX_HEADER, KEY_INDEX_SLOT, KeyIndexSize
from binlog.format.commitlog.message import DAMAGED_CONTENT, StoredMessage
from binlog.format.commitlog.properties import KEYS, UNIQUE_KEY, parse_properties


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
