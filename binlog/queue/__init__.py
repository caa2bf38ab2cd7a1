"""A durable queue with a limit on its memory: messages that do not fit are read from pages on disk.

A queue uses one address of a paging manager (`binlog.paging`).
"""

from binlog.queue.memory import Message
from binlog.queue.queue import ADDRESS as QUEUE_ADDRESS
from binlog.queue.queue import DEAD_LETTER_ADDRESS, Queue
from binlog.queue.transaction import QueueTransaction

__all__ = ["DEAD_LETTER_ADDRESS", "QUEUE_ADDRESS", "Message", "Queue", "QueueTransaction"]
