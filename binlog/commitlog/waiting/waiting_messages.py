"""Messages that wait in a topic of RocketMQ's until they may go to their own, which their properties name meanwhile.

Each has a unique key, and one that went on says where it waited: so after a crash the key index tells which ones went.

Messages that a group of consumers could not handle: they are given to it again later, and in the end set apart.

As in RocketMQ's SendMessageProcessor: the first time after ten seconds, later each time, in a topic of the group's own.
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
    REAL_QUEUE_ID,
    REAL_TOPIC,
    RETRY_TOPIC,
    UNIQUE_KEY,
    WAITED_AT,
    message_id,
    pack_host,
    pack_properties,
    parse_count,
    parse_properties,
)
from binlog.format.commitlog.names import dead_topic, is_topic, is_waiting_topic, retry_topic

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


RETRIES_MAX = 16
_FIRST_LEVEL = 3


def retried(message: StoredMessage, group: str, *, delay_level: int = 0, count_max: int = RETRIES_MAX) -> Message:
    """The message to append, so that the group is given it again.

    delay_level: after how long; 0 for one that rises with each time.  Negative, or after so many times: it goes to the
    topic of those that were given up.
    """
    properties = parse_properties(message.properties)
    properties.setdefault(RETRY_TOPIC, message.topic)
    properties.setdefault(ORIGIN_ID, message_id(message.store_host, message.offset))
    properties.pop(DELAY, None)
    dead = delay_level < 0 or message.reconsume_count >= count_max
    if not dead:
        properties[DELAY] = str(delay_level or _FIRST_LEVEL + message.reconsume_count)
    topic = dead_topic(group) if dead else retry_topic(group)
    return again(message, properties)._replace(
        topic=topic, queue_id=0, reconsume_count=message.reconsume_count + 1, prepared_offset=0
    )
