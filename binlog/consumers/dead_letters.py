"""The dead letters of a group: a log of the messages that were given up, each once.

A dead letter is appended idempotently, numbered as the group's state numbers dying items.  So if a member dies between
the append and the acknowledgement, the next member appends nothing, and acknowledges.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from binlog.consumers.logs import DeadLetterLog
from binlog.consumers.message_source import StoredRecord
from binlog.consumers.state import Item
from binlog.errors import NotFoundError
from binlog.format.consumers.message import Message
from binlog.log.batch import Batch
from binlog.log.reader import Reader

PRODUCER = "dead letters"
SEQUENCE, DELIVERY = "binlog-sequence", "binlog-delivery"


class DeadLetters:
    """The log of dead letters in a group's directory; it is made when it is needed.

    open_log: opens it.
    """

    def __init__(self, open_log: Callable[[], DeadLetterLog], group: str) -> None:
        self._open_log = open_log
        self._group = group
        self._log: DeadLetterLog | None = None

    def append(self, item: Item, record: StoredRecord | None) -> None:
        """Append a dying item, unless it was appended.  record: None if it cannot be read.  Durable on return."""
        self._log = self._log or self._open_log()
        message = Message.parse(record.data if record else b"")
        facts = {
            "binlog-group": self._group,
            SEQUENCE: str(item.sequence),
            "binlog-ref": str(record.ref) if record else "",
            "binlog-deliveries": str(item.delivery - item.uncounted),
            DELIVERY: str(item.delivery),
            "binlog-deaths": str(item.deaths),
            "binlog-reason": item.reason,
        }
        letter = Message(
            body=bytes(message.body),
            key=message.key,
            headers={**message.headers, **{name: text.encode() for name, text in facts.items()}},
            produced_ns=time.time_ns(),
        )
        try:
            data = letter.pack()
        except ValueError:
            # The envelope has no room for more headers, so the body is the whole record.
            facts["binlog-record"] = "whole"
            headers = {name: text.encode() for name, text in facts.items()}
            data = Message(body=record.data if record else b"", headers=headers, produced_ns=time.time_ns()).pack()
        batch = Batch.from_records([data])
        self._log.append_idempotent([batch], producer=PRODUCER, sequence=item.letter)

    def close(self) -> None:
        """Close the log."""
        if self._log is not None:
            self._log.close()


def last_deliveries(path: str, sequences: Collection[int]) -> dict[int, int]:
    """Return the number of the last delivery of each of these messages that is in a log of dead letters.

    Reads the whole log.  Raises: as a Reader.
    """
    found: dict[int, int] = {}
    try:
        letters = Reader(path)
    except NotFoundError:
        return found  # the group has none
    with letters:
        for record in letters:
            headers = Message.parse(record.data).headers
            sequence, delivery = int(headers.get(SEQUENCE, b"-1")), int(headers.get(DELIVERY, b"0"))
            if sequence in sequences:
                found[sequence] = max(delivery, found.get(sequence, 0))
    return found
