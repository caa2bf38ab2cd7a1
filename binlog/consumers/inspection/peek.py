"""The messages that a group is not done with, read without taking any."""

from __future__ import annotations

import enum
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from binlog.consumers.inspection.history import clock_offset_ns
from binlog.consumers.inspection.replay import folder_of
from binlog.consumers.members.message_source import LogOnDisk, MessageSource
from binlog.consumers.state.group_state import Item, ItemState
from binlog.consumers.state.state_reader import StateReader
from binlog.errors import BinlogError
from binlog.format.consumers.message import Message
from binlog.format.record import Ref
from binlog.log.read.start import Sequence
from binlog.log.reader import Reader


class Status(enum.Enum):
    """The status of a message in a group.

    READY: it came back, and a member may get it.  DELAYED: until its due time.  BLOCKED: by an earlier message with its
    key.  IN_HAND: a member has it.  DYING: a member is to make it a dead letter.  NEW: no member had it yet.
    """

    READY = "ready"
    DELAYED = "delayed"
    BLOCKED = "blocked"
    IN_HAND = "in-hand"
    DYING = "dying"
    NEW = "new"


_STATUS = {
    ItemState.READY: Status.READY,
    ItemState.DELAYED: Status.DELAYED,
    ItemState.BLOCKED: Status.BLOCKED,
    ItemState.HELD: Status.IN_HAND,
    ItemState.STARTED: Status.IN_HAND,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PeekedItem:
    """A message that a group is not done with.

    delivery: how often it was delivered.  seat: of the member that has it, or None.
    due_ns: when it is due, or when its lease ends, nanoseconds since 1970 by the wall clock; None for neither.
    reason: why it is dying.  ref, message: in the log; None if it cannot be read, and then `problem` says why.
    """

    sequence: int
    status: Status
    delivery: int = 0
    seat: int | None = None
    due_ns: int | None = None
    reason: str = ""
    ref: Ref | None = None
    message: Message | None = None
    problem: str | None = None


def peek(
    path: str | os.PathLike[str], name: str, *, statuses: Collection[Status] = tuple(Status), count: int | None = None
) -> Iterator[PeekedItem]:
    """Iterate over the messages that a group of a log is not done with, outstanding ones first; take none.

    statuses: only messages with one of these.  count: n at most.
    Raises, when it is called: NotFoundError if there is no such group; CorruptError, VersionError, AccessError.
    """
    reader = StateReader.open(folder_of(path, name))
    reader.close()
    state = reader.state
    items = state.items()
    chosen = [each for each in items if status_of(each) in statuses]
    peeked = _outstanding(os.fspath(path), chosen, clock_offset_ns(state))
    if Status.NEW in statuses:
        peeked = chain(peeked, _new(os.fspath(path), state.next, {each.sequence for each in items}))
    return islice(peeked, count)


def status_of(item: Item) -> Status:
    """Return the status of an outstanding item."""
    return Status.DYING if item.letter else _STATUS[item.state]


def _outstanding(path: str, items: list[Item], offset_ns: int) -> Iterator[PeekedItem]:
    """Yield items with their messages.  offset_ns: group time minus the wall clock."""
    source = MessageSource(LogOnDisk(path))
    try:
        for item in items:
            message, ref, problem = None, None, None
            try:
                ref, data = source.read(item.sequence)
                message = Message.parse(data)
            except (BinlogError, ValueError) as error:
                problem = str(error)
            yield PeekedItem(
                sequence=item.sequence,
                status=status_of(item),
                delivery=item.delivery - item.uncounted,
                seat=item.seat if item.state in (ItemState.HELD, ItemState.STARTED) else None,
                due_ns=item.due_ns - offset_ns if item.due_ns else None,
                reason=item.reason,
                ref=ref,
                message=message,
                problem=problem,
            )
    finally:
        source.close()


def _new(path: str, first: int, outstanding: set[int]) -> Iterator[PeekedItem]:
    """Yield the messages from a sequence on, but for outstanding ones: those wait for their due times."""
    try:
        reader = Reader(path, Sequence(first))
    except (BinlogError, ValueError) as error:
        yield PeekedItem(sequence=first, status=Status.NEW, problem=str(error))
        return
    with reader:
        for sequence, entry in enumerate(reader, first):
            if sequence not in outstanding:
                message = Message.parse(entry.data)
                yield PeekedItem(sequence=sequence, status=Status.NEW, ref=entry.ref, message=message)
