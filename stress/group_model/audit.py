"""What a group promises, checked while the model runs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from binlog.consumers.state.group_state import GroupState
from binlog.consumers.state.settings import Order
from binlog.format.consumers.message import Message
from binlog.format.consumers.operation import Reset
from binlog.storage.mode import Mode

if TYPE_CHECKING:
    from binlog.consumers.members.parts import Held
    from stress.group_model.process import Process
    from stress.group_model.world import World


class ViolationError(Exception):
    """A promise was broken."""


class _Hand(NamedTuple):
    """A process that has a message.  deadline_ns: group time at which its lease ends, 0 for never."""

    process: Process
    key: bytes | None
    deadline_ns: int


class Audit:
    """The promises of docs/durability.md about consumer groups."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._in_hand: dict[bytes, _Hand] = {}
        self._deliveries: Counter[bytes] = Counter()  # the last delivery of each message
        self._released: set[Process] = set()
        self._acked: set[bytes] = set()
        self._unreturned: set[bytes] = set()
        self._deaths: Counter[bytes] = Counter()
        self._has_lost_power = False
        self._epoch = 0

    def handed(self, process: Process, held: Held) -> None:
        """A member got an item."""
        body, key = message_of(held)
        may_be_late = process in self._released or self._world.lease_ns
        if may_be_late and held.delivery < self._deliveries[body]:
            return  # it got the item before its seat was released, or its lease ended, and does not know
        if held.epoch < self._epoch:
            return  # the group was reset since, and it does not know
        if body in self._acked:
            raise ViolationError(f"{body!r} was acknowledged, and is delivered again")
        owner = self._in_hand.get(body)
        if owner is not None and self._has(owner, process):
            raise ViolationError(f"{body!r} is delivered while process {owner.process.number} has it")
        if not self._has_lost_power and held.counted <= self._deaths[body]:
            raise ViolationError(f"delivery {held.delivery} of {body!r}, which killed {self._deaths[body]} members")
        limit = self._world.settings.deliveries_max
        if limit and held.counted > limit:
            raise ViolationError(f"delivery {held.delivery} of {body!r}: the limit is {limit}")
        if self._world.only_poison_kills and held.counted > 2 and not body.startswith(b"poison"):
            raise ViolationError(f"delivery {held.delivery} of {body!r}, which killed no member")
        item = process.member.state.find(held.sequence)
        hand = _Hand(process, key, item.due_ns if item is not None else 1)
        # A member that was stopped between getting the item and this step may not have it any more.
        if key is not None and self._world.settings.order is not Order.NONE and self._has(hand, process):
            self._check_key(process, body, key)
        self._in_hand[body] = hand
        self._deliveries[body] = held.delivery

    def _has(self, owner: _Hand, other: Process) -> bool:
        """Whether a process that got a message must still have it."""
        is_late = bool(owner.deadline_ns) and owner.deadline_ns <= other.member.time_ns()
        return owner.process not in self._released and not is_late

    def _check_key(self, process: Process, body: bytes, key: bytes) -> None:
        for other, owner in self._in_hand.items():
            if other != body and owner.key == key and self._has(owner, process):
                raise ViolationError(f"{body!r} is delivered while {other!r}, with its key, is in hand")

    def ending(self, process: Process, held: Held, *, is_ack: bool) -> None:
        """A member is about to end a delivery."""
        body, _ = message_of(held)
        if self._owner(body) is process:
            del self._in_hand[body]
        if is_ack:
            self._unreturned.add(body)

    def refused(self, process: Process, held: Held) -> None:
        """There was no space for the end of a delivery, so the member still has the item."""
        body, key = message_of(held)
        if held.epoch == self._epoch and body not in self._in_hand and process not in self._released:
            # Not by the process's own state, which may be of earlier.
            item = self._world.state_after(self._world.group_log.records).find(held.sequence)
            if item is not None and item.delivery == held.delivery and item.seat == process.member.log.seat:
                self._in_hand[body] = _Hand(process, key, item.due_ns)

    def acknowledged(self, process: Process, held: Held) -> None:
        """An acknowledgement returned, and counted."""
        body, _ = message_of(held)
        owner = self._owner(body)
        if held.epoch < self._epoch:
            return  # the group was reset between the acknowledgement and its return
        if owner is not None and owner is not process:
            raise ViolationError(f"process {process.number} acknowledges {body!r}, which process {owner.number} has")
        self._acked.add(body)

    def _owner(self, body: bytes) -> Process | None:
        owner = self._in_hand.get(body)
        return None if owner is None else owner.process

    def _of(self, process: Process) -> list[bytes]:
        return [body for body, owner in self._in_hand.items() if owner.process is process]

    def left(self, process: Process) -> None:
        """A process is about to give back all of its items."""
        for body in self._of(process):
            del self._in_hand[body]

    def released(self, process: Process) -> None:
        """An operator is about to give the items of a process to others."""
        self._released.add(process)
        self.left(process)

    def died(self, process: Process) -> None:
        """A process is gone."""
        for body in self._of(process):
            del self._in_hand[body]
            self._deaths[body] += 1

    def reset(self, reset: Reset, before: GroupState) -> None:
        """The group was reset: its messages come again, and earlier ones are done, unless it keeps them.

        before: the state until then.
        """
        self._epoch += 1
        self._in_hand.clear()
        self._deliveries.clear()
        self._deaths.clear()
        bodies = [bytes(Message.parse(record).body) for record in self._world.data.records]
        kept = {item.sequence for item in before.items()} if reset.keeps else set()
        again = set(bodies[reset.to :])
        # A power cut may take the reset back.
        self._unreturned |= self._acked & again
        self._acked -= again
        self._unreturned.update(bodies[sequence] for sequence in range(reset.to) if sequence not in kept)

    def lost_power(self, epoch: int) -> None:
        """The power failed.  epoch: of the group after that."""
        self._has_lost_power = True
        self._epoch = epoch
        self._in_hand.clear()
        self._deliveries.clear()
        if self._world.mode is Mode.FLUSH:
            self._unreturned |= self._acked
            self._acked.clear()

    def check_state(self, process: Process, state: GroupState) -> None:
        """Compare a process's state with that of its operations."""
        if process.member.state.pack() != state.pack():
            raise ViolationError(f"process {process.number} has another state than its operations give")

    def check_in_hand(self, process: Process) -> None:
        """Check that the user of a living process has had each item that the process has started."""
        state = process.member.state
        seat = state.seats.get(process.member.log.seat)
        if seat is None or seat.generation != process.member.log.generation:
            return
        known = {(held.sequence, held.delivery) for held in (*process.items, *process.unsure)}
        for sequence in seat.held:
            item = state.find(sequence)
            assert item is not None
            if item.due_ns == 0 and (sequence, item.delivery) not in known:
                raise ViolationError(f"process {process.number} has message {sequence}, and does not deliver it")

    def check_end(self) -> None:
        """Check that each message was acknowledged, or is a dead letter, and no message is one twice."""
        letters = Counter(bytes(Message.parse(record).body) for record in self._world.dead.records)
        twice = [body for body, count in letters.items() if count > 1 + self._world.reset_count]
        if twice:
            raise ViolationError(f"{twice[0]!r} is in the dead letters {letters[twice[0]]} times")
        for record in self._world.data.records:
            body = bytes(Message.parse(record).body)
            # An acknowledgement may count although its process died before it returned.
            if body not in self._acked and body not in letters and body not in self._unreturned:
                raise ViolationError(f"{body!r} is lost")


def message_of(held: Held) -> tuple[bytes, bytes | None]:
    """Return the body of an item's message, and its key."""
    message = Message.parse(held.record.data)
    return bytes(message.body), message.key
