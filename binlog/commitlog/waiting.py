"""Messages that wait in a topic of RocketMQ's until they may go to their own, which their properties name meanwhile.

Each has a unique key, and one that went on says where it waited: so after a crash the key index tells which ones went.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable

from binlog.commitlog.message import Message
from binlog.errors import CorruptError
from binlog.format.commitlog.host import pack_host
from binlog.format.commitlog.message import COMMIT, QUEUE_ID_MAX, StoredMessage
from binlog.format.commitlog.names import is_topic
from binlog.format.commitlog.properties import (
    REAL_QUEUE_ID,
    REAL_TOPIC,
    UNIQUE_KEY,
    WAITED_AT,
    pack_properties,
    parse_count,
    parse_properties,
)
from binlog.format.commitlog.topics import is_waiting_topic

# The messages of a topic that have a key, stored at a time or after it.
Find = Callable[[str, str, int], list[StoredMessage]]


def to_wait(message: Message, topic: str, queue_id: int) -> Message:
    """The message as it waits in a queue of another topic.  Raises: ValueError for a queue that it can never go to."""
    if not 0 <= message.queue_id <= QUEUE_ID_MAX:
        raise ValueError(f"no queue can be {message.queue_id}")
    properties = parse_properties(message.properties)
    if not properties.get(UNIQUE_KEY):  # an empty one is in no key index
        properties[UNIQUE_KEY] = uuid.uuid4().hex.upper()
    properties[REAL_TOPIC] = message.topic
    properties[REAL_QUEUE_ID] = str(message.queue_id)
    return message._replace(topic=topic, queue_id=queue_id, properties=pack_properties(properties))


def to_go_on(stored: StoredMessage, *, without: Iterable[str] = ()) -> Message:
    """The message that waited, as it is appended to its own topic; without some of its properties.

    Raises: CorruptError where it does not say which topic that is.
    """
    properties = parse_properties(stored.properties)
    topic, queue_id = own_queue(stored)
    for name in (REAL_TOPIC, REAL_QUEUE_ID, *without):
        properties.pop(name, None)
    properties[WAITED_AT] = str(stored.offset)
    return again(stored, properties)._replace(topic=topic, queue_id=queue_id)


def own_queue(stored: StoredMessage) -> tuple[str, int]:
    """Topic and queue that a message waits for.  Raises: CorruptError where it does not say."""
    properties = parse_properties(stored.properties)
    topic, queue_id = properties.get(REAL_TOPIC, ""), properties.get(REAL_QUEUE_ID, "")
    number = parse_count(queue_id)
    if not is_topic(topic) or is_waiting_topic(topic) or number is None or number > QUEUE_ID_MAX:
        raise CorruptError(stored.topic, stored.offset, "properties", "it waits, and does not say for which queue")
    return topic, number


def again(stored: StoredMessage, properties: dict[str, str]) -> Message:
    """A message to append that has all that was made with a stored one, and these properties."""
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


def went_on(stored: StoredMessage, topics: Iterable[str], find: Find) -> bool:
    """Whether a message that waited has gone to one of these topics, as ours or a RocketMQ broker has it go."""
    key = parse_properties(stored.properties).get(UNIQUE_KEY)
    return key is not None and any(
        parse_properties(found.properties).get(WAITED_AT) == str(stored.offset)
        or (found.transaction == COMMIT and found.prepared_offset == stored.offset)
        for topic in topics
        for found in find(topic, key, stored.store_ms)
    )
