"""The dead letters of a group: a log of the messages that were given up, each once.

A dead letter is appended idempotently, numbered as the group's state numbers dying items.  So if a member dies between
the append and the acknowledgement, the next member appends nothing, and acknowledges.

After a repair of the group's log, which removes damaged operations, items may die in another order, and get the numbers
of other dead letters.  So if the log has that number, its last dead letter decides: it is this item's, or the item gets
the next number.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from binlog.consumers.members.message_source import StoredRecord
from binlog.consumers.state.group_state import Item
from binlog.consumers.state.logs import DeadLetterLog, LastLetter
from binlog.errors import CorruptError, GoneError, NotFoundError
from binlog.format.consumers.message import Message
from binlog.log.batch import Batch
from binlog.log.reader import Reader
from binlog.log.writer import Writer

PRODUCER = "dead letters"
SEQUENCE, DELIVERY = "binlog-sequence", "binlog-delivery"


class LettersOnDisk:
    """A log of dead letters in a directory, as a DeadLetterLog.  It is made if it is missing."""

    def __init__(self, path: str) -> None:
        self._path, self._writer = path, Writer(path)

    def append_idempotent(self, batches: list[Batch], *, producer: str, sequence: int) -> object:
        """Append records unless the producer has a batch with this number or a later one.  Durable on return."""
        return self._writer.append_idempotent(batches, producer=producer, sequence=sequence)

    def last_letter(self, producer: str) -> LastLetter | None:
        """Return the last dead letter of a producer, None if there is none."""
        batch = self._writer.last_producer_batch(producer)
        if batch is None:
            return None
        try:
            with Reader(self._path, batch.ref) as reader:
                entries = reader.read_batch(records_max=1).entries()
        except (CorruptError, GoneError):
            entries = []
        return LastLetter(batch.sequence, entries[0].data if entries else None)

    def close(self) -> None:
        """Close the log."""
        self._writer.close()


class DeadLetters:
    """The log of dead letters in a group's directory; it is made when it is needed.

    open_log: opens it.
    """

    def __init__(self, open_log: Callable[[], DeadLetterLog], group: str) -> None:
        self._open_log = open_log
        self._group = group
        self._log: DeadLetterLog | None = None

    def append(self, item: Item, record: StoredRecord | None, is_dying: Callable[[], bool]) -> None:
        """Append a dying item, unless it was appended.  Durable on return.

        record: None if it cannot be read.  is_dying: whether the caller still has the item, by all operations so far.
        """
        self._log = self._log or self._open_log()
        number = self._number(self._log, item, is_dying)
        if number is None:
            return
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
        self._log.append_idempotent([batch], producer=PRODUCER, sequence=number)

    def _number(self, log: DeadLetterLog, item: Item, is_dying: Callable[[], bool]) -> int | None:
        """Return the number under which to append an item, None if it was appended."""
        last = log.last_letter(PRODUCER)
        if last is None or last.number < item.letter:
            return item.letter
        if last.record is None or _item_of(last.record) == (item.sequence, item.delivery):
            return None
        # If a later item died in the same history, this one is done, and the caller has not read that.
        return last.number + 1 if is_dying() else None

    def close(self) -> None:
        """Close the log."""
        if self._log is not None:
            self._log.close()


def _item_of(record: bytes) -> tuple[int, int]:
    """Return the sequence and the delivery of a dead letter's item."""
    headers = Message.parse(record).headers
    return int(headers.get(SEQUENCE, b"-1")), int(headers.get(DELIVERY, b"0"))


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
            sequence, delivery = _item_of(record.data)
            if sequence in sequences:
                found[sequence] = max(delivery, found.get(sequence, 0))
    return found
