"""The content of an open store, and whether log, queues and key index agree."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from binlog.commitlog.append.message import Message
from binlog.commitlog.store import MessageStore
from binlog.format.commitlog.indexes import QueueUnit, parse_units
from binlog.format.commitlog.message import BLANK, StoredMessage
from binlog.format.commitlog.message_parts import KEYS, TAGS, java_hash, parse_properties
from binlog.format.commitlog.names import COMMIT_LOG_FOLDER
from stress.crash.records import Identity, identity_of, record_bytes

_COUNT_MAX = 100_000
_TOPICS = ("orders", "prices")  # of equal length, so that messages can be
_QUEUES = 2


def message_of(writer: int, index: int, size: int = 0) -> Message:
    """Return a writer's `index`-th message, with a body of about 30 to 400 bytes, or of `size`."""
    return Message.of(
        _TOPICS[index % 3 % 2],
        record_bytes(writer, index, size),
        queue_id=(index // 2) % _QUEUES,
        tag=_tag_of(index),
        keys=[_own_key(writer, index), _shared_key(index)],
    )


def _own_key(writer: int, index: int) -> str:
    """Return the key that no other message has."""
    return f"{writer}-{index}"


def _shared_key(index: int) -> str:
    """Return the key that every third message has."""
    return f"third-{index % 3}"


def _tag_of(index: int) -> str:
    """Return the tag of a writer's `index`-th message."""
    return f"tag-{index % 5}"


def _identity_of(message: StoredMessage) -> Identity | None:
    """Return the identity of a message, None if it is not one of ours, or was changed."""
    identity = identity_of(message.body)
    if identity is None:
        return None
    wanted = message_of(*identity)
    found, properties = parse_properties(message.properties), parse_properties(wanted.properties)
    is_like = (message.topic, message.queue_id) == (wanted.topic, wanted.queue_id)
    return identity if is_like and all(found.get(name) == properties[name] for name in (KEYS, TAGS)) else None


class Place(NamedTuple):
    """The offsets of a message: in the commit log, and in its queue."""

    offset: int
    queue_offset: int


@dataclass
class Contents:
    """The content of a store.  start, end: of its commit log.  problems: contradictions between its parts."""

    start: int
    end: int
    messages: dict[Identity, Place] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def inspect(store: MessageStore) -> Contents:
    """Inspect all of a store."""
    log = store._log
    contents = Contents(log.files.min_offset, store.max_offset)
    found: dict[Identity, StoredMessage] = {}
    last_end = contents.start
    for message in log.scan(contents.start):
        last_end = message.offset + message.message_bytes
        identity = _identity_of(message)
        if identity is None:
            contents.problems.append(f"the message at {message.offset} was never appended: {message.body[:40]!r}")
        elif identity in found:
            contents.problems.append(f"{identity} is in the log twice: {found[identity].offset}, {message.offset}")
        else:
            found[identity] = message
            contents.messages[identity] = Place(message.offset, message.queue_offset)
    contents.problems += _end(store, last_end)
    contents.problems += _queues(store, found)
    contents.problems += _keys(store, found)
    return contents


def _end(store: MessageStore, last_end: int) -> list[str]:
    """Check that the log ends with its last message, or the blank after it, and has only zeros after the end."""
    wrong = []
    file_bytes = store._options.file_bytes
    folder = Path(store.path) / COMMIT_LOG_FOLDER
    rest = -last_end % file_bytes
    if store.max_offset not in (last_end, last_end + rest):
        wrong.append(f"the last message ends at {last_end}, but the log at {store.max_offset}")
    files = sorted(int(name) for name in os.listdir(folder))
    if files != [file.offset for file in store._log.files.files]:
        wrong.append(f"the commit log has {store._log.files.files}, but its folder {files}")
    if files:
        after_end = (folder / f"{files[-1]:020d}").read_bytes()[max(store.max_offset - files[-1], 0) :].strip(b"\0")
        if after_end:
            wrong.append(f"{len(after_end)} bytes after the end, at {store.max_offset}, are not zero")
    if rest and store.max_offset == last_end + rest and files:
        data = (folder / f"{last_end - last_end % file_bytes:020d}").read_bytes()
        if not data[last_end % file_bytes :].startswith(BLANK.pack({"rest_bytes": rest})):
            wrong.append(f"neither a message nor a blank is at {last_end}, but the log ends at {store.max_offset}")
    return wrong


def _queues(store: MessageStore, found: dict[Identity, StoredMessage]) -> list[str]:
    """Check that each queue has exactly the log's messages of it, in the log's order."""
    wrong = []
    wanted: dict[tuple[str, int], list[tuple[Identity, StoredMessage]]] = defaultdict(list)
    for identity, message in found.items():
        wanted[message.topic, message.queue_id].append((identity, message))
    queues = dict(store._queues.items())
    for key in {*wanted, *queues}:
        topic, queue_id = key
        messages = wanted[key]
        there = store.queue_range(topic, queue_id)
        if not messages:
            if there:
                wrong.append(f"queue {key} has {there}, but the log has none of its messages")
            continue
        first = messages[0][1].queue_offset
        expected = [message.queue_offset for _, message in messages]
        if expected != [*range(first, first + len(messages))]:
            wrong.append(f"the log has the queue offsets {expected} of queue {key}")
            continue
        if there != range(first, first + len(messages)):
            wrong.append(f"queue {key} has {there}, but the log {range(first, first + len(messages))}")
            continue
        units = [QueueUnit(at.offset, at.message_bytes, java_hash(_tag_of(identity[1]))) for identity, at in messages]
        found_units = [*parse_units(queues[key].read(first, len(messages)))]
        wrong += [
            f"unit {first + number} of queue {key} is {unit}, and should be {units[number]}"
            for number, unit in enumerate(found_units)
            if unit != units[number]
        ]
        if not wrong and store.pull(topic, queue_id, first, _COUNT_MAX) != [message for _, message in messages]:
            wrong.append(f"the messages pulled from queue {key} differ from the log's")
    return wrong


def _keys(store: MessageStore, found: dict[Identity, StoredMessage]) -> list[str]:
    """Check that each message is found by its keys, and no other message is."""
    wrong = []
    shared: dict[tuple[str, str], list[int]] = defaultdict(list)
    for (writer, index), message in found.items():
        shared[message.topic, _shared_key(index)].append(message.offset)
        by_key = [each.offset for each in store.find(message.topic, _own_key(writer, index), count=_COUNT_MAX)]
        if by_key != [message.offset]:
            wrong.append(f"the key of {(writer, index)}, at {message.offset}, finds {by_key}")
    for (topic, key), offsets in shared.items():
        by_key = [each.offset for each in store.find(topic, key, count=_COUNT_MAX)]
        if by_key != offsets[::-1]:
            wrong.append(f"the key {key} of {topic} finds {by_key}, but the log has {offsets[::-1]}")
    return wrong
