"""The dead letters of a group: a log of the messages that were given up, each once.

A dead letter is appended idempotently, numbered as the group's state numbers dying items.  So if a member dies between
the append and the acknowledgement, the next member appends nothing, and acknowledges.
"""

from __future__ import annotations

import time

from binlog.consumers.state import Item
from binlog.format.consumers.message import Message
from binlog.log.batch import Batch
from binlog.log.writer import Writer

PRODUCER = "dead letters"


class DeadLetters:
    """The log of dead letters in a group's directory; it is made when it is needed."""

    def __init__(self, path: str, group: str) -> None:
        self._path = path
        self._group = group
        self._writer: Writer | None = None

    def append(self, item: Item, record: bytes | None, ref: str) -> None:
        """Append a dying item, unless it was appended.  record: None if it cannot be read.  Durable on return."""
        if self._writer is None:
            self._writer = Writer(self._path)
        message = Message.parse(record or b"")
        facts = {
            "binlog-group": self._group,
            "binlog-sequence": str(item.sequence),
            "binlog-ref": ref,
            "binlog-deliveries": str(item.delivery),
            "binlog-deaths": str(item.deaths),
            "binlog-reason": item.reason,
        }
        letter = Message(
            body=bytes(message.body),
            key=message.key,
            headers={**message.headers, **{name: text.encode() for name, text in facts.items()}},
            produced_ns=time.time_ns(),
        )
        batch = Batch.from_records([letter.pack()])
        self._writer.append_idempotent([batch], producer=PRODUCER, sequence=item.letter)

    def close(self) -> None:
        """Close the log."""
        if self._writer is not None:
            self._writer.close()
