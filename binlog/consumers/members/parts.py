"""The parts of a member, and the items that it hands out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from binlog.consumers.members.letter_log import DeadLetters
from binlog.consumers.members.message_source import MessageSource, StoredRecord
from binlog.consumers.state.clock import GroupClock
from binlog.consumers.state.group_log import GroupLog
from binlog.consumers.waking.seats import SeatFolder
from binlog.consumers.waking.waiting import Waiting


class Held(NamedTuple):
    """An item that the member has, and its message.

    delivery: how often it was started.  counted: how often without being given back.  epoch: in which it was started.
    """

    sequence: int
    delivery: int
    counted: int
    epoch: int
    record: StoredRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts that a member uses."""

    clock: GroupClock
    log: GroupLog
    source: MessageSource
    seats: SeatFolder
    waiting: Waiting
    dead_letters: DeadLetters
