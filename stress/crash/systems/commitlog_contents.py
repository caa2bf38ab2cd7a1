"""What an open store has, and whether its parts say the same: the log, the queues, the key index."""

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
_TOPICS = ("orders", "prices")  # as long as each other, so that messages can be
_QUEUES = 2


def message_of(writer: int, index: int, size: int = 0) -> Message:
    """The `index`-th message of a writer, with a body of some 30 to 400 bytes, or of `size`."""
    return Message.of(
        _TOPICS[index % 3 % 2],
        record_bytes(writer, index, size),
        queue_id=(index // 2) % _QUEUES,
        tag=_tag_of(index),
        keys=[_own_key(writer, index), _shared_key(index)],
    )


def _own_key(writer: int, index: int) -> str:
    """The key that no other message has."""
    return f"{writer}-{index}"


def _shared_key(index: int) -> str:
    """The key that every third message has."""
    return f"third-{index % 3}"


def _tag_of(index: int) -> str:
    """The tag of a writer's `index`-th message."""
    return f"tag-{index % 5}"


def _identity_of(message: StoredMessage) -> Identity | None:
    """Which message it is, None if it is none, or not as it was appended."""
    identity = identity_of(message.body)
    if identity is None:
        return None
    wanted = message_of(*identity)
    found, properties = parse_properties(message.properties), parse_properties(wanted.properties)
    is_like = (message.topic, message.queue_id) == (wanted.topic, wanted.queue_id)
    return identity if is_like and all(found.get(name) == properties[name] for name in (KEYS, TAGS)) else None


class Place(NamedTuple):
    """Where a message lies: in the commit log, and in its queue."""

    offset: int
    queue_offset: int


@dataclass
class Contents:
    """What a store has.  start, end: of its commit log.  problems: what its parts say differently."""

    start: int
    end: int
    messages: dict[Identity, Place] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def inspect(store: MessageStore) -> Contents:
    """Look at all of it."""
    log = store._log
    contents = Contents(log.files.min_offset, store.max_offset)
    found: dict[Identity, StoredMessage] = {}
    last_end = contents.start
    for message in log.scan(contents.start):
        last_end = message.offset + message.message_bytes
        identity = _identity_of(message)
        if identity is None:
            contents.problems.append(f"at {message.offset} is a message that nobody appended: {message.body[:40]!r}")
        elif identity in found:
            contents.problems.append(f"{identity} is there twice: {found[identity].offset}, {message.offset}")
        else:
            found[identity] = message
            contents.messages[identity] = Place(message.offset, message.queue_offset)
    contents.problems += _end(store, last_end)
    contents.problems += _queues(store, found)
    contents.problems += _keys(store, found)
    return contents


def _end(store: MessageStore, last_end: int) -> list[str]:
    """Whether the log ends with its last message, or the blank behind that, and there is nothing behind the end."""
    wrong = []
    file_bytes = store._options.file_bytes
    folder = Path(store.path) / COMMIT_LOG_FOLDER
    rest = -last_end % file_bytes
    if store.max_offset not in (last_end, last_end + rest):
        wrong.append(f"the last message ends at {last_end}, and the log at {store.max_offset}")
    files = sorted(int(name) for name in os.listdir(folder))
    if files != [file.offset for file in store._log.files.files]:
        wrong.append(f"the commit log has {store._log.files.files}, and its folder {files}")
    if files and (behind := (folder / f"{files[-1]:020d}").read_bytes()[max(store.max_offset - files[-1], 0) :]).strip(
        b"\0"
    ):
        wrong.append(f"behind the end, at {store.max_offset}, {len(behind.strip(bytes(1)))} bytes are not zero")
    if rest and store.max_offset == last_end + rest and files:
        data = (folder / f"{last_end - last_end % file_bytes:020d}").read_bytes()
        if not data[last_end % file_bytes :].startswith(BLANK.pack({"rest_bytes": rest})):
            wrong.append(
                f"there is neither a message nor a blank at {last_end}, and the log ends at {store.max_offset}"
            )
    return wrong


def _queues(store: MessageStore, found: dict[Identity, StoredMessage]) -> list[str]:
    """Whether each queue has what the log has of it, in the log's order."""
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
                wrong.append(f"queue {key} has {there}, and the log none of its messages")
            continue
        first = messages[0][1].queue_offset
        expected = [message.queue_offset for _, message in messages]
        if expected != [*range(first, first + len(messages))]:
            wrong.append(f"of queue {key} the log has {expected}")
            continue
        if there != range(first, first + len(messages)):
            wrong.append(f"queue {key} has {there}, and the log {range(first, first + len(messages))}")
            continue
        units = [QueueUnit(at.offset, at.message_bytes, java_hash(_tag_of(identity[1]))) for identity, at in messages]
        lies = [*parse_units(queues[key].read(first, len(messages)))]
        wrong += [
            f"unit {first + number} of queue {key} is {unit}, and should be {units[number]}"
            for number, unit in enumerate(lies)
            if unit != units[number]
        ]
        if not wrong and store.pull(topic, queue_id, first, _COUNT_MAX) != [message for _, message in messages]:
            wrong.append(f"what is pulled from queue {key} is not what the log has of it")
    return wrong


def _keys(store: MessageStore, found: dict[Identity, StoredMessage]) -> list[str]:
    """Whether each message is found by its keys, and nothing else is."""
    wrong = []
    shared: dict[tuple[str, str], list[int]] = defaultdict(list)
    for (writer, index), message in found.items():
        shared[message.topic, _shared_key(index)].append(message.offset)
        by_key = [each.offset for each in store.find(message.topic, _own_key(writer, index), count=_COUNT_MAX)]
        if by_key != [message.offset]:
            wrong.append(f"by the key of {(writer, index)}, which lies at {message.offset}, is found {by_key}")
    for (topic, key), offsets in shared.items():
        by_key = [each.offset for each in store.find(topic, key, count=_COUNT_MAX)]
        if by_key != offsets[::-1]:
            wrong.append(f"by the key {key} of {topic} is found {by_key}, and the log has {offsets[::-1]}")
    return wrong
