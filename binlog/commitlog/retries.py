"""Messages that a group of consumers could not handle: they are given to it again later, and in the end set apart.

As in RocketMQ's SendMessageProcessor: the first time after ten seconds, later each time, in a topic of the group's own.
"""

from __future__ import annotations

from binlog.commitlog.message import Message
from binlog.commitlog.waiting import again
from binlog.format.commitlog.message import StoredMessage
from binlog.format.commitlog.message_id import message_id
from binlog.format.commitlog.properties import DELAY, ORIGIN_ID, RETRY_TOPIC, parse_properties
from binlog.format.commitlog.topics import dead_topic, retry_topic

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
