"""A plain state with the interface of the compiled one, so that bugs can be seeded in its rules."""

from __future__ import annotations

import itertools

from binlog.consumers.state.group_state import AppliedOperation, Counters, GroupState, Item, ItemState, Seat
from binlog.consumers.state.settings import Settings
from binlog.format.consumers.operation import (
    MARK,
    NO_SEAT,
    Clock,
    Delivery,
    Kind,
    Operation,
    entries_of,
    pack_operation,
    parse_operation,
)
from binlog.format.record import LENGTH_BYTES
from stress.group_model.plain_checkpoint import pack_state, parse_state
from stress.group_model.plain_state import PlainState


class PlainGroup(GroupState):
    """See GroupState.  plain: the state, whose methods a test may replace."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._seed = seed
        self.plain = PlainState()

    def apply(self, record: bytes | bytearray | memoryview, /) -> AppliedOperation | None:
        operation = parse_operation(bytes(record), self._seed)
        if operation is None:
            return None
        outcome = self.plain.apply(operation)
        checkpoint = next(iter(entries_of(operation, Kind.CHECKPOINT)), None)
        return AppliedOperation(
            operation.seat, operation.generation, self.plain.epoch, operation.flags, outcome, checkpoint
        )

    def apply_many(
        self,
        data: bytes | bytearray | memoryview,
        offsets: memoryview,
        index: int,
        seat: int,
        generation: int,
        anonymous: bool,
        /,
    ) -> tuple[int, list[tuple[int, AppliedOperation]], bool]:
        records, found = _records(data, offsets), list[tuple[int, AppliedOperation]]()
        while index < len(records):
            applied = self.apply(records[index])
            if applied is None:
                return index, found, True
            is_member = (applied.seat, applied.generation) == (seat, generation)
            is_mark = bool(applied.flags & MARK) or applied.checkpoint is not None
            if is_member or (anonymous and applied.seat == NO_SEAT) or is_mark:
                found.append((index, applied))
            index += 1
            if is_mark:
                break
        return index, found, False

    def next_checkpoint(self, data: bytes | bytearray | memoryview, offsets: memoryview, index: int, /) -> int:
        for number, record in enumerate(_records(data, offsets)[index:], index):
            operation = parse_operation(record, self._seed)
            if operation is not None and any(kind is Kind.CHECKPOINT for kind, _ in operation.sections):
                return number
        return -1

    def pack_step(
        self, seat: int, generation: int, number: int, time_ns: int, epoch: int, want: int, done: int, delivery: int,
        start: int, /
    ) -> bytes:  # fmt: skip
        sections = [(Kind.DONE, [Delivery(done, delivery)]), (Kind.START, [start])]
        return pack_operation(Operation(seat, generation, number, time_ns, epoch, want, 0, sections), self._seed)

    def pack(self) -> bytes:
        return pack_state(self.plain)

    def load(self, data: bytes | bytearray | memoryview, /) -> None:
        self.plain = parse_state(bytes(data))

    @property
    def is_created(self) -> bool:
        return self.plain.is_created

    @property
    def is_deleted(self) -> bool:
        return self.plain.is_deleted

    @property
    def is_paused(self) -> bool:
        return self.plain.is_paused

    @property
    def epoch(self) -> int:
        return self.plain.epoch

    @property
    def clock_ns(self) -> int:
        return self.plain.clock_ns

    @property
    def next(self) -> int:
        return self.plain.next

    @property
    def known_end(self) -> int:
        return self.plain.known_end

    @property
    def membership(self) -> int:
        return self.plain.membership

    @property
    def member_count(self) -> int:
        return len(self.plain.seats)

    @property
    def in_hand(self) -> int:
        return self.plain.in_hand

    @property
    def outstanding_count(self) -> int:
        return len(self.plain.items)

    @property
    def scheduled_count(self) -> int:
        return self.plain.scheduled_count

    @property
    def floor(self) -> int:
        return self.plain.floor

    @property
    def available(self) -> int:
        return self.plain.assignable

    @property
    def next_due_ns(self) -> int | None:
        return self.plain.next_due_ns

    @property
    def clock(self) -> Clock | None:
        return self.plain.clock

    def clock_offset_ns(self, boot: bytes, /) -> int | None:
        clock = self.plain.clock
        return None if clock is None or clock.boot != boot else clock.offset_ns

    def started_by(self, seat: int, sequence: int, delivery: int, /) -> int:
        item = self.plain.items.get(sequence)
        if item is None or (item.state, item.seat, item.delivery) != (ItemState.STARTED, seat, delivery):
            return 0
        return item.delivery - item.uncounted

    @property
    def settings(self) -> Settings:
        return self.plain.settings

    @property
    def counters(self) -> Counters:
        found = self.plain.counters
        return Counters(
            found.done, found.started, found.failed, found.died, found.expired, found.dead, found.gone, found.void
        )

    @property
    def seats(self) -> dict[int, Seat]:
        return {
            number: Seat(seat.generation, seat.lease_ns, seat.hint, sorted(seat.held))
            for number, seat in self.plain.seats.items()
        }

    def last_generation(self, seat: int, /) -> int:
        return self.plain.generations.get(seat, 0)

    def find(self, sequence: int) -> Item | None:
        item = self.plain.items.get(sequence)
        if item is None:
            return None
        return Item(
            item.sequence, item.state, item.key_hash, item.expiry_ns, item.due_ns, item.seat, item.delivery,
            item.uncounted, item.deaths, item.is_suspect, item.letter, item.reason,
        )  # fmt: skip

    def items(self) -> list[Item]:
        return [item for sequence in sorted(self.plain.items) if (item := self.find(sequence)) is not None]


def _records(data: bytes | bytearray | memoryview, offsets: memoryview) -> list[bytes]:
    return [bytes(data[start + LENGTH_BYTES : end]) for start, end in itertools.pairwise(offsets)]
