"""What a group promises, checked while the model runs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from binlog.consumers.state import GroupState
from binlog.format.consumers.message import Message
from binlog.storage.mode import Mode

if TYPE_CHECKING:
    from binlog.consumers.member import Held
    from stress.group_model.process import Process
    from stress.group_model.world import World


class ViolationError(Exception):
    """A promise was broken."""


class Audit:
    """The promises of docs/durability.md about consumer groups."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._in_hand: dict[bytes, Process] = {}
        self._deliveries: Counter[bytes] = Counter()  # the last delivery of each message
        self._released: set[Process] = set()
        self._acked: set[bytes] = set()
        self._unreturned: set[bytes] = set()
        self._deaths: Counter[bytes] = Counter()
        self._has_lost_power = False

    def handed(self, process: Process, held: Held) -> None:
        """A member got an item."""
        body = held.record.data
        if process in self._released and held.delivery < self._deliveries[body]:
            return  # it got the item before its seat was released, and does not know
        if body in self._acked:
            raise ViolationError(f"{body!r} was acknowledged, and is delivered again")
        owner = self._in_hand.get(body)
        if owner is not None and owner not in self._released:
            raise ViolationError(f"{body!r} is delivered while process {owner.number} has it")
        if not self._has_lost_power and held.counted <= self._deaths[body]:
            raise ViolationError(f"delivery {held.delivery} of {body!r}, which killed {self._deaths[body]} members")
        limit = self._world.settings.deliveries_max
        if limit and held.counted > limit:
            raise ViolationError(f"delivery {held.delivery} of {body!r}: the limit is {limit}")
        if self._world.only_poison_kills and held.counted > 2 and not body.startswith(b"poison"):
            raise ViolationError(f"delivery {held.delivery} of {body!r}, which killed no member")
        self._in_hand[body] = process
        self._deliveries[body] = held.delivery

    def ending(self, process: Process, held: Held, *, is_ack: bool) -> None:
        """A member is about to end a delivery."""
        if self._in_hand.get(held.record.data) is process:
            del self._in_hand[held.record.data]
        if is_ack:
            self._unreturned.add(held.record.data)

    def acknowledged(self, process: Process, held: Held) -> None:
        """An acknowledgement returned, and counted."""
        body = held.record.data
        owner = self._in_hand.get(body)
        if owner is not None and owner is not process:
            raise ViolationError(f"process {process.number} acknowledges {body!r}, which process {owner.number} has")
        self._acked.add(body)

    def left(self, process: Process) -> None:
        """A process is about to give back all of its items."""
        for body in [body for body, owner in self._in_hand.items() if owner is process]:
            del self._in_hand[body]

    def released(self, process: Process) -> None:
        """An operator is about to give the items of a process to others."""
        self._released.add(process)
        self.left(process)

    def died(self, process: Process) -> None:
        """A process is gone."""
        for body in [body for body, owner in self._in_hand.items() if owner is process]:
            del self._in_hand[body]
            self._deaths[body] += 1

    def lost_power(self) -> None:
        """The power failed."""
        self._has_lost_power = True
        self._in_hand.clear()
        self._deliveries.clear()
        if self._world.mode is Mode.FLUSH:
            self._unreturned |= self._acked
            self._acked.clear()

    def check_state(self, process: Process, state: GroupState) -> None:
        """Compare a process's state with that of its operations."""
        if process.member.state.pack() != state.pack():
            raise ViolationError(f"process {process.number} has another state than its operations give")

    def check_end(self) -> None:
        """Check that each message was acknowledged, or is a dead letter, and no message is one twice."""
        letters = Counter(bytes(Message.parse(record).body) for record in self._world.dead.records)
        twice = [body for body, count in letters.items() if count > 1]
        if twice:
            raise ViolationError(f"{twice[0]!r} is in the dead letters {letters[twice[0]]} times")
        for body in self._world.data.records:
            # An acknowledgement may count although its process died before it returned.
            if body not in self._acked and body not in letters and body not in self._unreturned:
                raise ViolationError(f"{body!r} is lost")
