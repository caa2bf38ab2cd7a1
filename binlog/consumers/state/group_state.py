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
 9. New items are assigned only while fewer than `outstanding_max` are outstanding, and returned ones always.  Messages
    that were never delivered and wait for their due time do not count; but there are never many more than 2**20 items.
10. A window counts from the end of the known messages on.  A message with a later due time waits for it; one that has
    expired is dying, or dropped.
11. Only acknowledgements, drops of expired messages, and `gone` end a message.
12. Dying items are numbered.  One is assigned at a time, in this order, so that the dead letters are in this order.
13. A reset raises the epoch.  Items from its sequence on are new again; earlier ones stay only if it keeps them,
    and then a delivery that a member had begun is not counted.
14. `again` ends the wait of a delayed item.  It also makes a message that is done an item again, if it says so.  The
    deliveries before that are not counted, and their acknowledgements do not count: the next delivery gets a larger
    number than there were starts in the group, and than `again` says.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from binlog._codec import GroupState as CompiledState
from binlog.consumers.state.settings import Settings
from binlog.format.consumers.operation import Clock, Delivery, Setting

DAMAGED = "damaged"
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
    """What happened so far.

    done: messages that were acknowledged.  started: deliveries, also those that were given back.
    failed, died: deliveries that ended with a failure, or with the death of their member.
    expired, dead: messages that expired, or became dead letters.  gone: those that retention removed before the group
    had them.  void: operations that did not count.
    """

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


if TYPE_CHECKING:
    _Compiled = CompiledState[AppliedOperation]
else:
    _Compiled = CompiledState


class GroupState(_Compiled):
    """The state of a group after some operations.  What is not here is in C: native/codec/consumers/group_type.c.

    seed: of the CRCs of its operations.

    is_created: its log has its settings.  is_deleted, is_paused: no items are assigned.
    epoch: how often it was reset.  membership: a number that changes when a member joins or leaves.
    clock_ns: the group time of the last operation.
    next: the first sequence that was never assigned; what is before it and not outstanding is done.
    known_end: the sequence after the last message that a window named.
    floor: the smallest sequence that is not done.
    member_count: how many members are alive.  in_hand: how many items members have.
    outstanding_count: how many items are outstanding.  scheduled_count: how many of them were never delivered and wait
    for their due time.  available: how many items members may get now.
    next_due_ns: the group time at which the next item becomes ready, or None.
    witness: the end of the last window and the CRC-32C of its last message; None if there is none since a reset.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed, AppliedOperation, Outcome, Assigned, Delivery)

    @property
    def clock(self) -> Clock | None:
        """The clock of the boot in which it was set last, None if it was never set."""
        found = self.clock_values()
        return None if found is None else Clock(*found)

    @property
    def settings(self) -> Settings:
        """The settings of the group."""
        return Settings().changed(dict(zip(_SETTINGS, self.setting_values(), strict=True)))

    @property
    def counters(self) -> Counters:
        """What happened so far."""
        return Counters(*self.counter_values())

    @property
    def seats(self) -> dict[int, Seat]:
        """The living members, by their seats."""
        return {found[0]: Seat(*found[1:]) for found in self.member_values()}

    def find(self, sequence: int) -> Item | None:
        """Return an outstanding item, None if there is none with this sequence."""
        found = self.item_values(sequence)
        return None if found is None else Item(found[0], ItemState(found[1]), *found[2:])

    def items(self) -> list[Item]:
        """Return all outstanding items, in the order of their sequences."""
        return [Item(found[0], ItemState(found[1]), *found[2:]) for found in self.all_item_values()]
