"""Parked messages, which wait in a topic of RocketMQ's, and messages that are retried.

The properties of a parked message name its destination.  Each has a unique key, and its delivered copy names the offset
of the parked one; so after a crash the key index shows which messages were delivered.

A message that a consumer group could not handle is retried in the group's retry topic, and in the end becomes a dead
letter.  As in RocketMQ's SendMessageProcessor, the first retry comes after ten seconds, and the delay grows.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable

from binlog.commitlog.append.message import Message
from binlog.errors import CorruptError
from binlog.format.commitlog.message import COMMIT, QUEUE_ID_MAX, StoredMessage
from binlog.format.commitlog.message_parts import (
    DELAY,
    ORIGIN_ID,
    PARKED_AT,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    RETRY_TOPIC,
    UNIQUE_KEY,
    message_id,
    pack_host,
    pack_properties,
    parse_count,
    parse_properties,
)
from binlog.format.commitlog.names import dead_topic, is_parking_topic, is_topic, retry_topic

# Finds the messages of a topic with a key, stored at a time or later.
Find = Callable[[str, str, int], list[StoredMessage]]


def park(message: Message, topic: str, queue_id: int) -> Message:
    """Return the message to append to a queue of a parking topic.  Raises: ValueError for an invalid destination."""
    if not 0 <= message.queue_id <= QUEUE_ID_MAX:
        raise ValueError(f"not a valid queue: {message.queue_id}")
    properties = parse_properties(message.properties)
    if not properties.get(UNIQUE_KEY):  # the key index has no empty keys
        properties[UNIQUE_KEY] = uuid.uuid4().hex.upper()
    properties[REAL_TOPIC] = message.topic
    properties[REAL_QUEUE_ID] = str(message.queue_id)
    return message._replace(topic=topic, queue_id=queue_id, properties=pack_properties(properties))


def unpark(stored: StoredMessage, *, without: Iterable[str] = ()) -> Message:
    """Return the message to append to its destination, without some of its properties.

    Raises: CorruptError if the properties do not name the destination.
    """
    properties = parse_properties(stored.properties)
    topic, queue_id = destination(stored)
    for name in (REAL_TOPIC, REAL_QUEUE_ID, *without):
        properties.pop(name, None)
    properties[PARKED_AT] = str(stored.offset)
    return as_new_message(stored, properties)._replace(topic=topic, queue_id=queue_id)


def destination(stored: StoredMessage) -> tuple[str, int]:
    """Return the topic and queue of a parked message.  Raises: CorruptError if its properties do not name them."""
    properties = parse_properties(stored.properties)
    topic, queue_id = properties.get(REAL_TOPIC, ""), properties.get(REAL_QUEUE_ID, "")
    number = parse_count(queue_id)
    if not is_topic(topic) or is_parking_topic(topic) or number is None or number > QUEUE_ID_MAX:
        raise CorruptError(stored.topic, stored.offset, "properties", "a parked message does not name its destination")
    return topic, number


def as_new_message(stored: StoredMessage, properties: dict[str, str]) -> Message:
    """Return a message to append with the parts of a stored one, and these properties."""
    return Message(
        stored.topic,
        stored.body,
        pack_properties(properties),
        stored.queue_id,
        stored.flag,
        stored.system_flag,
        stored.born_ms,
        pack_host(stored.born_host),
        stored.reconsume_count,
        stored.prepared_offset,
    )


def was_delivered(stored: StoredMessage, topics: Iterable[str], find: Find) -> bool:
    """Return whether a parked message was delivered to one of these topics, by this engine or a RocketMQ broker."""
    key = parse_properties(stored.properties).get(UNIQUE_KEY)
    return key is not None and any(
        parse_properties(found.properties).get(PARKED_AT) == str(stored.offset)
        or (found.transaction == COMMIT and found.prepared_offset == stored.offset)
        for topic in topics
        for found in find(topic, key, stored.store_ms)
    )


RETRIES_MAX = 16
_FIRST_LEVEL = 3


def as_retry(message: StoredMessage, group: str, *, delay_level: int = 0, count_max: int = RETRIES_MAX) -> Message:
    """Return the message to append for another delivery to the group.

    delay_level: of the delivery; 0 for a level that grows with each retry.  If it is negative, or after `count_max`
    retries, the message goes to the dead-letter topic.
    """
    properties = parse_properties(message.properties)
    properties.setdefault(RETRY_TOPIC, message.topic)
    properties.setdefault(ORIGIN_ID, message_id(message.store_host, message.offset))
    properties.pop(DELAY, None)
    dead = delay_level < 0 or message.reconsume_count >= count_max
    if not dead:
        properties[DELAY] = str(delay_level or _FIRST_LEVEL + message.reconsume_count)
    topic = dead_topic(group) if dead else retry_topic(group)
    return as_new_message(message, properties)._replace(
        topic=topic, queue_id=0, reconsume_count=message.reconsume_count + 1, prepared_offset=0
    )
