"""Topics that RocketMQ keeps for itself, and how long a message waits at each delay level."""

from __future__ import annotations

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
# Of each half message that was ended: a message whose body is its queue offset.
ENDED_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
ENDED_TAG = "d"
DELAY_TOPIC = "SCHEDULE_TOPIC_XXXX"
_SYSTEM_PREFIX = "RMQ_SYS_"
_RETRY_PREFIX = "%RETRY%"
_DEAD_PREFIX = "%DLQ%"

# By level, from 1 on.  Of a level that is not here, RocketMQ's dispatch makes a second.
DELAY_SECONDS = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)


def retry_topic(group: str) -> str:
    """Where messages go that a group of consumers is to be given again."""
    return _RETRY_PREFIX + group


def dead_topic(group: str) -> str:
    """Where messages end that a group of consumers was given too often."""
    return _DEAD_PREFIX + group


def is_system_topic(topic: str) -> bool:
    """Whether RocketMQ keeps it for itself."""
    return topic.startswith(_SYSTEM_PREFIX) or topic == DELAY_TOPIC


def is_waiting_topic(topic: str) -> bool:
    """Whether messages only wait in it, or tell of others that do."""
    return topic in (HALF_TOPIC, ENDED_TOPIC, DELAY_TOPIC)


def due_ms(store_ms: int, level: int) -> int:
    """When a message that was stored then, at that delay level, is to go to its topic."""
    seconds = DELAY_SECONDS[min(level, len(DELAY_SECONDS)) - 1] if level > 0 else 1
    return store_ms + 1000 * seconds
