"""The state of a consumer group: which member has which message, computed from the operations of the group's log.

Every member applies the same operations in the same order, so all have the same state, and the log's order decides
which member gets a message.  Nothing here depends on a clock, on random numbers or on the process.  The rules are
applied in C (native/codec/consumers); each has a test:

 1. An operation of another epoch, or of a member that is not alive, changes nothing.
 2. Group time never goes back.  Before an operation takes effect, items whose time has come become ready: those that
    waited for a retry or for their due time, and those whose lease has ended.
 3. An acknowledgement counts if the item is outstanding and the delivery is its last one, even if its lease has ended,
    and whichever process sends it.  A dying item is ended only by the member that has it.
 4. A delivery is counted when the item is started, and only the member that has the item starts it.
 5. An item that failed, or whose member died, in its last allowed delivery is dying: a member makes it a dead letter.
 6. A death returns the member's items.  Each one that it had started may have killed it: those are suspects.
 7. A member that asks for items gets at most its share of those available.  Suspects come first: while there are any,
    a member that has items gets no more, and one that has none gets a suspect, alone.  Then come returned and new items
    in turn, oldest first.
 8. In an ordered group an item waits until all earlier outstanding items with its key are done.
 9. New items are assigned only while fewer than `outstanding_max` are outstanding; returned ones always.
10. A window counts from the end of the known messages on.  A message with a later due time waits for it; one that has
    expired is dying, or dropped.
11. Only acknowledgements, drops of expired messages, and `gone` end a message.
12. Dying items are numbered.  One is assigned at a time, in this order, so that the dead letters are in this order.
13. A reset raises the epoch.  Items from its sequence on are new again; earlier ones stay only if it keeps them,
    and then a delivery that a member had begun is not counted.
14. `again` ends the wait of a delayed item.  It also makes a message that is done an item again, if it says so.  The
    deliveries before that are not counted, and their acknowledgements do not count.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, NamedTuple

from binlog._codec import GroupState as CompiledState
from binlog.consumers.state.settings import Settings
from binlog.format.consumers.operation import Clock, Delivery, Setting
from binlog.log.batch import Batch

DAMAGED = "damaged"
_new = tuple.__new__
_SETTINGS = tuple(each for each in Setting if each is not Setting.START)


class ItemState(enum.IntEnum):
    """The state of an outstanding item."""

    READY = 0  # a member may get it
    DELAYED = 1  # until its due time
    BLOCKED = 2  # by an earlier item with its key
    HELD = 3  # a member has it and has not started it
    STARTED = 4  # a member has handed it to its user


class Item(NamedTuple):
    """An outstanding item: it was assigned or delayed, and is not done.

    due_ns: the due time of a delayed item, the end of the lease of a started one; 0 for none.
    delivery: how often it was started.  uncounted: how many of these deliveries were given back.
    deaths: how many members died that had started it.
    letter: its number among the dying items, 0 if it is not dying.  reason: why it is dying.
    """

    sequence: int
    state: ItemState
    key_hash: int
    expiry_ns: int
    due_ns: int
    seat: int
    delivery: int
    uncounted: int
    deaths: int
    is_suspect: bool
    letter: int
    reason: str


class Seat(NamedTuple):
    """A member that is alive.  held: the sequences of its items, in order."""

    generation: int
    lease_ns: int
    hint: str
    held: list[int]


class Assigned(NamedTuple):
    """An item that an operation got.  delivery: how often it was started, this time included if it is started.

    letter: its number if the member is to make it a dead letter, otherwise 0.
    """

    sequence: int
    delivery: int
    is_started: bool
    letter: int


class Outcome(NamedTuple):
    """What an operation did.

    counted: whether it took effect at all.  started: the deliveries that its section `start` began.
    refused: deliveries that it acknowledged, failed or extended in vain.
    """

    counted: bool
    assigned: list[Assigned]
    started: list[Delivery]
    refused: list[Delivery]


@dataclass(frozen=True, slots=True)
class Counters:
    """What happened so far: counts of operations and messages."""

    done: int = 0
    started: int = 0
    failed: int = 0
    died: int = 0
    expired: int = 0
    dead: int = 0
    gone: int = 0
    void: int = 0


class AppliedOperation(NamedTuple):
    """An operation that was applied.

    epoch: of the group after it.  checkpoint: the entry of its section `checkpoint`, None if it has none.
    """

    seat: int
    generation: int
    epoch: int
    flags: int
    outcome: Outcome
    checkpoint: bytes | None


class GroupState:
    """The state of a group after some operations.  seed: of the CRCs of its operations."""

    def __init__(self, seed: int) -> None:
        self._state = CompiledState(seed)

    def apply(self, record: bytes) -> AppliedOperation | None:
        """Apply the operation in a record; return None, and change nothing, if the record is none of this group."""
        found = self._state.apply(record)
        return None if found is None else _applied(found)

    def apply_many(
        self, batch: Batch, index: int, seat: int, generation: int, *, anonymous: bool
    ) -> tuple[int, list[tuple[int, AppliedOperation]], bool]:
        """Apply the operations of a batch from an index on, up to a mark or checkpoint.

        Returns the index after the last one that was applied; the index and the effect of those that the caller wants;
        and whether the record at the first index is no operation.  It wants those of a member, by its seat and
        generation, if `anonymous` those of no member, and a mark or checkpoint.
        """
        data, offsets = batch.data, batch.offsets
        next_index, found, is_other = self._state.apply_many(data, offsets, index, seat, generation, anonymous)
        return next_index, [(each, _applied(applied)) for each, applied in found], is_other

    def next_checkpoint(self, batch: Batch, index: int) -> int:
        """Return the index of the first checkpoint in a batch from an index on, -1 if there is none."""
        return self._state.next_checkpoint(batch.data, batch.offsets, index)

    def pack_step(
        self, seat: int, generation: int, number: int, time_ns: int, epoch: int, want: int, done: Delivery, start: int
    ) -> bytes:
        """Return the record of an operation that acknowledges a delivery, starts an item, and asks for `want`."""
        return self._state.pack_step(seat, generation, number, time_ns, epoch, want, done[0], done[1], start)

    def pack(self) -> bytes:
        """Return the whole state as bytes, equal for equal states."""
        return self._state.pack()

    def load(self, data: bytes) -> None:
        """Take the state that `pack` made bytes of.  Raises: ValueError."""
        self._state.load(data)

    @property
    def is_created(self) -> bool:
        """Whether the group's log has its settings."""
        return self._state.is_created

    @property
    def is_deleted(self) -> bool:
        """Whether the group was deleted."""
        return self._state.is_deleted

    @property
    def is_paused(self) -> bool:
        """Whether no items are assigned."""
        return self._state.is_paused

    @property
    def epoch(self) -> int:
        """How often the group was reset."""
        return self._state.epoch

    @property
    def clock_ns(self) -> int:
        """The group time of the last operation."""
        return self._state.clock_ns

    @property
    def next(self) -> int:
        """The first sequence that was never assigned; what is before it and not outstanding is done."""
        return self._state.next

    @property
    def known_end(self) -> int:
        """The sequence after the last message that a window named."""
        return self._state.known_end

    @property
    def membership(self) -> int:
        """A number that changes when a member joins or leaves."""
        return self._state.membership

    @property
    def member_count(self) -> int:
        """How many members are alive."""
        return self._state.living

    @property
    def in_hand(self) -> int:
        """How many items members have."""
        return self._state.in_hand

    @property
    def outstanding_count(self) -> int:
        """How many items are outstanding."""
        return self._state.item_count

    @property
    def floor(self) -> int:
        """The smallest sequence that is not done."""
        return self._state.floor()

    @property
    def available(self) -> int:
        """How many items members may get now."""
        return self._state.available()

    @property
    def next_due_ns(self) -> int | None:
        """The group time at which the next item becomes ready, or None."""
        return self._state.next_due_ns()

    @property
    def clock(self) -> Clock | None:
        """The clock of the boot in which it was set last, None if it was never set."""
        found = self._state.clock()
        return None if found is None else Clock(*found)

    def clock_offset_ns(self, boot: bytes) -> int | None:
        """Return group time minus the time since the boot with this id, None if the clock was not set in it."""
        return self._state.clock_offset(boot)

    def started_by(self, seat: int, sequence: int, delivery: int) -> int:
        """Return how often an item was delivered and not given back; 0 if no member started it in this delivery."""
        return self._state.started_by(seat, sequence, delivery)

    @property
    def witness(self) -> tuple[tuple[int, int], int] | None:
        """The end of the last window and the CRC-32C of its last message; None if there is none since a reset."""
        return self._state.witness()

    @property
    def settings(self) -> Settings:
        """The settings of the group."""
        return Settings().changed(dict(zip(_SETTINGS, self._state.settings(), strict=True)))

    @property
    def counters(self) -> Counters:
        """What happened so far."""
        return Counters(*self._state.counters())

    @property
    def seats(self) -> dict[int, Seat]:
        """The living members, by their seats."""
        return {found[0]: Seat(*found[1:]) for found in self._state.members()}

    def last_generation(self, seat: int) -> int:
        """Return the generation of the last member that had a seat, 0 for none."""
        return self._state.last_generation(seat)

    def find(self, sequence: int) -> Item | None:
        """Return an outstanding item, None if there is none with this sequence."""
        found = self._state.item(sequence)
        return None if found is None else Item(found[0], ItemState(found[1]), *found[2:])

    def items(self) -> list[Item]:
        """Return all outstanding items, in the order of their sequences."""
        return [Item(found[0], ItemState(found[1]), *found[2:]) for found in self._state.items()]


def _applied(found: tuple[Any, ...]) -> AppliedOperation:
    seat, generation, epoch, flags, counted, assigned, started, refused, checkpoint = found
    # Each operation of a member comes here, and the constructor of a NamedTuple is slow.
    outcome = _new(
        Outcome,
        (
            counted,
            [_new(Assigned, each) for each in assigned],
            [_new(Delivery, each) for each in started],
            [_new(Delivery, each) for each in refused] if refused else refused,
        ),
    )
    return _new(AppliedOperation, (seat, generation, epoch, flags, outcome, checkpoint))
