"""The operations of a consumer group: the records of the group's log.

A record is a head, which says who appended it, followed by sections, which say what happened.  The CRC is seeded with
the group's UUID, so that no record of another group, and no other bytes, pass for an operation of this one.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from binlog.format.checksums import crc32c
from binlog.format.consumers.group_layouts import (
    GROUP_AGAIN,
    GROUP_CLOCK,
    GROUP_DELIVERY,
    GROUP_EXTENSION,
    GROUP_FAILURE,
    GROUP_JOIN,
    GROUP_MESSAGE,
    GROUP_OPERATION,
    GROUP_RANGE,
    GROUP_RESET,
    GROUP_SEAT,
    GROUP_SECTION,
    GROUP_SEQUENCE,
    GROUP_SETTING,
    GROUP_WINDOW,
    MAGIC,
    REASON_BYTES_MAX,
    VERSION,
)

NO_SEAT = 0xFFFF
SEATS_MAX = 256
WANT_MAX = 0xFFFF
COUNT_MAX = 0xFFFF
WINDOW_MESSAGES_MAX = 0xFFFF


class Kind(enum.IntEnum):
    """The kinds of sections."""

    SETTINGS = 1  # the group's settings, at its creation and at each change
    CLOCK = 2  # the first member after a boot sets the clock
    JOIN = 3  # the member takes its seat
    LEAVE = 4  # nothing: the member gives back all that it has
    DEATH = 5  # seats whose members died
    DONE = 6  # deliveries that were acknowledged
    START = 7  # items that are handed to the user now
    BACK = 8  # items that are given back, with how often each was started; the delivery is not counted
    RETRY = 9  # deliveries that failed; the items are delivered again
    REJECT = 10  # deliveries that failed for good
    EXTEND = 11  # deliveries that get more time
    WINDOW = 12  # messages that are durable in the log
    GONE = 13  # messages that are not in the log any more
    PAUSE = 14  # nothing: no items are assigned
    RESUME = 15  # nothing: items are assigned again
    RESET = 16  # go back, or forward, to a sequence
    CHECKPOINT = 17  # the state at a mark
    DELETED = 18  # nothing: the last record of the log
    AGAIN = 19  # messages to deliver now: delayed ones, and ones that are done


class Setting(enum.IntEnum):
    """The settings of a group."""

    START = 1  # the sequence at which the group begins; only at its creation
    RULES = 2  # the version of the rules
    DELIVERIES_MAX = 3  # after this many deliveries a message becomes a dead letter; 0 for no limit
    FIRST_NS = 4  # how long a message waits after its first failure, and after its second death
    MOST_NS = 5  # the longest wait
    ORDER = 6  # of messages with the same key: 0 none, 1 strict, 2 relaxed
    ON_EXPIRY = 7  # a message that expired: 0 becomes a dead letter, 1 is dropped
    OUTSTANDING_MAX = 8  # no new message is delivered while this many are outstanding, except for scheduled ones
    IN_HAND_MAX = 9  # no message is delivered while members have this many; 0 for no limit
    FACTOR_PERCENT = 10  # how much longer each later wait after a failure is; after a death it is twice as long
    JITTER_PERCENT = 11  # by how much a wait after a failure may be longer or shorter
    HOLDS_NS = 12  # how long the group holds messages that it has not done, after its last operation; 0 forever
    HOLDS_BYTES = 13  # how many bytes of messages that it has not done the group holds; 0 for all


START_FIRST = 1
MARK = 2

_OPERATION = struct.Struct(GROUP_OPERATION.format)
_SECTION = struct.Struct(GROUP_SECTION.format)
_DELIVERY = struct.Struct(GROUP_DELIVERY.format)
_SEQUENCE = struct.Struct(GROUP_SEQUENCE.format)
_EXTENSION = struct.Struct(GROUP_EXTENSION.format)
_FAILURE = struct.Struct(GROUP_FAILURE.format)
_WINDOW = struct.Struct(GROUP_WINDOW.format)
_MESSAGE = struct.Struct(GROUP_MESSAGE.format)
_RANGE = struct.Struct(GROUP_RANGE.format)
_SEAT = struct.Struct(GROUP_SEAT.format)
_SETTING = struct.Struct(GROUP_SETTING.format)
_CLOCK = struct.Struct(GROUP_CLOCK.format)
_JOIN = struct.Struct(GROUP_JOIN.format)
_RESET = struct.Struct(GROUP_RESET.format)
_AGAIN = struct.Struct(GROUP_AGAIN.format)
HINT_BYTES_MAX = 1000


class Delivery(NamedTuple):
    """One delivery of a message."""

    sequence: int
    delivery: int


class Extension(NamedTuple):
    """More time for a delivery."""

    sequence: int
    delivery: int
    deadline_ns: int


class Failure(NamedTuple):
    """A delivery that failed.  due_ns: when the message is delivered again, 0 for never."""

    sequence: int
    delivery: int
    due_ns: int
    reason: str


class MessageFacts(NamedTuple):
    """The facts about a message that the group needs; 0 means none."""

    key_hash: int = 0
    due_ns: int = 0
    expiry_ns: int = 0


class Window(NamedTuple):
    """Messages that are durable in the log.

    end: the ref after the last one.  last_crc: CRC-32C of the last one.  messages: their facts, or nothing.
    """

    first: int
    message_count: int
    end: tuple[int, int]
    last_crc: int
    messages: tuple[MessageFacts, ...] = ()


class Clock(NamedTuple):
    """Group time in a boot.  boot: its id.  offset_ns: group time minus the time since the boot."""

    boot: bytes
    offset_ns: int


class Join(NamedTuple):
    """A member that takes its seat.  lease_ns: of its items, 0 for none.  hint: about its process, for people."""

    lease_ns: int = 0
    hint: str = ""


class Reset(NamedTuple):
    """Delivers the messages from a sequence on again.  keeps: earlier outstanding items stay."""

    to: int
    keeps: bool = False


class Again(NamedTuple):
    """A message to deliver now.

    delivery: at least the number of its last delivery, and 1, if a message that is done is to be delivered again; 0 if
    it is to stay done, and only a delayed one is meant.  key_hash: of its key, 0 for none.
    """

    sequence: int
    delivery: int = 0
    key_hash: int = 0


Section = tuple[Kind, Any]


@dataclass(slots=True)
class Operation:
    """A record of the group's log.  sections: a kind and its entries, in the order in which they take effect."""

    seat: int = NO_SEAT
    generation: int = 0
    number: int = 0
    group_time_ns: int = 0
    epoch: int = 0
    want: int = 0
    flags: int = 0
    sections: Sequence[Section] = field(default_factory=list)


def group_seed(uuid: bytes) -> int:
    """Return the seed of a group's CRCs."""
    return crc32c(uuid)


def pack_operation(operation: Operation, seed: int) -> bytes:
    """Return the record.  Raises: ValueError if a section has too many entries."""
    body = b"".join(_pack_section(kind, entries) for kind, entries in operation.sections)
    head = _OPERATION.pack(
        MAGIC, VERSION, operation.flags, operation.seat, operation.want, operation.generation, operation.number,
        operation.group_time_ns, operation.epoch, 0,
    )[:-4]  # fmt: skip
    return head + crc32c(body, crc32c(head, seed)).to_bytes(4) + body


def parse_operation(record: bytes, seed: int) -> Operation | None:
    """Return the operation in a record, or None if the record is none of this group."""
    if len(record) < _OPERATION.size:
        return None
    magic, version, flags, seat, want, generation, number, time_ns, epoch, crc = _OPERATION.unpack_from(record)
    if magic != MAGIC or crc != crc32c(record[_OPERATION.size :], crc32c(record[: _OPERATION.size - 4], seed)):
        return None
    if version != VERSION or (seat >= SEATS_MAX and seat != NO_SEAT):
        return None
    sections = _parse_sections(record)
    if sections is None:
        return None
    return Operation(seat, generation, number, time_ns, epoch, want, flags, sections)


def _pack_section(kind: Kind, entries: Any) -> bytes:
    match kind:
        case Kind.CHECKPOINT:
            return _SECTION.pack(kind, 0, 0) + bytes(entries)
        case Kind.SETTINGS:
            packed = [_SETTING.pack(*each) for each in entries.items()]
        case Kind.CLOCK:
            packed = [_CLOCK.pack(*entries)]
        case Kind.JOIN:
            packed = [_pack_join(entries)]
        case Kind.RESET:
            packed = [_RESET.pack(*entries)]
        case Kind.DONE | Kind.BACK:
            packed = [_DELIVERY.pack(*each) for each in entries]
        case Kind.AGAIN:
            packed = [_AGAIN.pack(*each) for each in entries]
        case Kind.START:
            packed = [_SEQUENCE.pack(each) for each in entries]
        case Kind.EXTEND:
            packed = [_EXTENSION.pack(*each) for each in entries]
        case Kind.RETRY | Kind.REJECT:
            packed = [_pack_failure(each) for each in entries]
        case Kind.WINDOW:
            packed = [_pack_window(entries)]
        case Kind.GONE:
            packed = [_RANGE.pack(*each) for each in entries]
        case Kind.DEATH:
            packed = [_SEAT.pack(*each) for each in entries]
        case _:
            packed = []
    if len(packed) > COUNT_MAX:
        raise ValueError(f"a section has at most {COUNT_MAX} entries, not {len(packed)}")
    return _SECTION.pack(kind, 0, len(packed)) + b"".join(packed)


def _pack_failure(failure: Failure) -> bytes:
    reason = failure.reason.encode(errors="backslashreplace")[:REASON_BYTES_MAX].decode(errors="ignore").encode()
    return _FAILURE.pack(failure.sequence, failure.delivery, failure.due_ns, len(reason)) + reason


def _pack_join(join: Join) -> bytes:
    hint = join.hint.encode()[:HINT_BYTES_MAX].decode(errors="ignore").encode()
    return _JOIN.pack(join.lease_ns, len(hint)) + hint


def _pack_window(window: Window) -> bytes:
    messages = b"".join(_MESSAGE.pack(*each) for each in window.messages)
    head = _WINDOW.pack(window.first, window.message_count, len(window.messages), *window.end, window.last_crc)
    return head + messages


class _Bytes:
    """Takes structs from a record one after the other.  Raises: struct.error at its end."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self.at = data, at

    def take(self, layout: struct.Struct) -> tuple[Any, ...]:
        values = layout.unpack_from(self._data, self.at)
        self.at += layout.size
        return values

    def take_bytes(self, count: int) -> bytes:
        found = self._data[self.at : self.at + count]
        if len(found) != count:
            raise struct.error("the record is too short")
        self.at += count
        return found

    @property
    def left(self) -> int:
        return len(self._data) - self.at


def _parse_sections(record: bytes) -> list[Section] | None:
    source, sections = _Bytes(record, _OPERATION.size), list[Section]()
    try:
        while source.left:
            kind, reserved, count = source.take(_SECTION)
            if reserved:
                return None
            sections.append((Kind(kind), _parse_entries(Kind(kind), count, source)))
    except (struct.error, ValueError):
        return None
    return sections


def _parse_entries(kind: Kind, count: int, source: _Bytes) -> Any:
    match kind:
        case Kind.CHECKPOINT:
            return source.take_bytes(source.left)
        case Kind.SETTINGS:
            return dict(source.take(_SETTING) for _ in range(count))
        case Kind.CLOCK if count == 1:
            return Clock(*source.take(_CLOCK))
        case Kind.JOIN if count == 1:
            lease_ns, size = source.take(_JOIN)
            return Join(lease_ns, source.take_bytes(size).decode())
        case Kind.RESET if count == 1:
            to, keeps = source.take(_RESET)
            return Reset(to, bool(keeps))
        case Kind.DONE | Kind.BACK:
            return [Delivery(*source.take(_DELIVERY)) for _ in range(count)]
        case Kind.AGAIN:
            return [Again(*source.take(_AGAIN)) for _ in range(count)]
        case Kind.START:
            return [source.take(_SEQUENCE)[0] for _ in range(count)]
        case Kind.EXTEND:
            return [Extension(*source.take(_EXTENSION)) for _ in range(count)]
        case Kind.RETRY | Kind.REJECT:
            return [_parse_failure(source) for _ in range(count)]
        case Kind.WINDOW if count == 1:
            first, message_count, entry_count, number, offset, crc = source.take(_WINDOW)
            if entry_count not in (0, message_count):
                raise ValueError("a window has facts about all of its messages, or about none")
            facts = tuple(MessageFacts(*source.take(_MESSAGE)) for _ in range(entry_count))
            return Window(first, message_count, (number, offset), crc, facts)
        case Kind.GONE:
            return [source.take(_RANGE) for _ in range(count)]
        case Kind.DEATH:
            return [source.take(_SEAT) for _ in range(count)]
    if count:
        raise ValueError(f"{kind.name} does not have {count} entries")
    return None


def _parse_failure(source: _Bytes) -> Failure:
    sequence, delivery, due_ns, size = source.take(_FAILURE)
    return Failure(sequence, delivery, due_ns, source.take_bytes(size).decode())


def entries_of(operation: Operation, kind: Kind) -> Iterable[Any]:
    """Yield the entries of all sections of a kind."""
    for each, entries in operation.sections:
        if each is kind:
            yield entries
