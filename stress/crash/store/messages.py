"""The messages that are appended to a store that is to break: each tells which it is."""

from __future__ import annotations

from contextlib import suppress

from binlog.commitlog.message import Message
from binlog.format.commitlog.message import StoredMessage
from binlog.format.commitlog.properties import KEYS, TAGS, parse_properties
from stress.crash.ledger import is_whole, record_bytes

TOPICS = ("orders", "prices")  # as long as each other, so that messages can be
QUEUES = 2

Identity = tuple[int, int]
"""Which message: who appended it, and as which of its own."""


def message_of(writer: int, index: int, size: int = 0) -> Message:
    """The `index`-th message of a writer, with a body of some 30 to 400 bytes, or of `size`."""
    return Message.of(
        TOPICS[index % 3 % 2],
        record_bytes(writer, index, size),
        queue_id=(index // 2) % QUEUES,
        tag=tag_of(index),
        keys=[own_key(writer, index), shared_key(index)],
    )


def own_key(writer: int, index: int) -> str:
    """The key that no other message has."""
    return f"{writer}-{index}"


def shared_key(index: int) -> str:
    """The key that every third message has."""
    return f"third-{index % 3}"


def tag_of(index: int) -> str:
    """The tag of a writer's `index`-th message."""
    return f"tag-{index % 5}"


def identity_of(message: StoredMessage, writers: int) -> Identity | None:
    """Which message it is, or None where it is none of them, or not as it was appended."""
    with suppress(ValueError):
        writer, index = map(int, message.body[:24].split(b":", 2)[:2])
        if writer < writers and is_whole(message.body, writer, index) and _is_like(message, writer, index):
            return writer, index
    return None


def _is_like(message: StoredMessage, writer: int, index: int) -> bool:
    wanted = message_of(writer, index)
    found, properties = parse_properties(message.properties), parse_properties(wanted.properties)
    return (message.topic, message.queue_id) == (wanted.topic, wanted.queue_id) and all(
        found.get(name) == properties[name] for name in (KEYS, TAGS)
    )
