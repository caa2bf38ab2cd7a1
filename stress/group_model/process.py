"""A simulated process: a member of the group, with the product's code, and the items that its user has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from binlog.consumers.clock import GroupClock
from binlog.consumers.dead_letters import DeadLetters
from binlog.consumers.group_log import GroupLog
from binlog.consumers.member import Held, Member, Parts
from binlog.consumers.message_source import MessageSource, StoredRecord
from binlog.consumers.state import Assigned, GroupState, Item
from binlog.consumers.state_reader import StateReader
from binlog.errors import BusyError
from binlog.format.consumers.operation import Delivery, Failure, Kind
from binlog.storage.waiting.bell_watcher import Bell
from stress.group_model.sim_log import SimMessageLog, SimReader, SimWriter

if TYPE_CHECKING:
    from stress.group_model.world import World

SEATS = 6
UUID = b"g" * 16


class DiedError(BaseException):
    """The process was killed."""


class SimClock(GroupClock):
    """The clock of the world."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def boot(self) -> bytes:
        return self._world.boot.to_bytes(16)

    def since_boot_ns(self) -> int:
        return self._world.since_boot_ns

    def wall_ns(self) -> int:
        return self._world.wall_ns


class SimSeat:
    """A taken seat.  number: which one."""

    def __init__(self, world: World, number: int, process: Process) -> None:
        self.number = number
        self._world, self._process = world, process

    @property
    def is_ours(self) -> bool:
        return self._world.seats.get(self.number) is self._process

    def close(self) -> None:
        if self.is_ours:
            del self._world.seats[self.number]


class SimSeats:
    """The seats, for one process."""

    def __init__(self, world: World, process: Process) -> None:
        self._world, self._process = world, process

    def take(self) -> SimSeat:
        free = [number for number in range(SEATS) if number not in self._world.seats]
        if not free:
            raise BusyError("all seats are taken")
        number = self._world.random.choice(free)
        self._world.seats[number] = self._process
        self._world.step()
        return SimSeat(self._world, number, self._process)

    def is_free(self, number: int) -> bool:
        is_joining = self._process not in self._world.processes
        return number not in self._world.seats or (is_joining and self._world.has("living-buried"))


class LateLetters(DeadLetters):
    """A seeded bug: appends a dead letter when the next one comes."""

    _late: tuple[Item, StoredRecord | None] | None = None

    def append(self, item: Item, record: StoredRecord | None) -> None:
        late, self._late = self._late, (item, record)
        if late is not None:
            super().append(*late)


class SimWaiting:
    """No waiting: the world lets members act in any order."""

    def begin(self, seat: int) -> None:
        pass

    @contextmanager
    def idle(self, seat: int) -> Iterator[int]:
        yield 0

    def wake_listener(self) -> None:
        pass

    def listens(self, seat: int) -> bool:
        return True

    def wait(self, seat: int, seen: int, timeout: float, bell: tuple[Bell, int] | None) -> None:
        pass

    def is_check_due(self) -> bool:
        return True

    def wake_for_items(self, state: GroupState, *, but: int) -> None:
        pass

    def wake(self, seat: int) -> None:
        pass

    def hand_over(self, state: GroupState, own: int) -> None:
        pass


class Process:
    """One process.  items: those that its user has and has not ended.  dies_at: the message that kills it."""

    def __init__(self, world: World, number: int) -> None:
        self.number = number
        self.boot = world.boot
        self.is_alive = True
        self.is_frozen = False
        self.items: list[Held] = []
        self._world = world
        states = StateReader("/nowhere/group", SimReader(world.group_log), UUID, state=world.new_state(is_audit=False))
        log = GroupLog("/nowhere/group", SimWriter(world.group_log), states, SimClock(world))
        log.set_up(world.settings, 0)
        parts = Parts(
            clock=SimClock(world),
            log=log,
            source=MessageSource(SimMessageLog(world.data)),
            seats=SimSeats(world, self),
            waiting=SimWaiting(),  # type: ignore[arg-type]
            dead_letters=(LateLetters if world.has("ack-before-letter") else DeadLetters)(
                lambda: SimWriter(world.dead), "group"
            ),
        )
        self.member = Member(parts, lease_ns=0, mode=world.mode, skips_gone=False)
        self.member.prefetch = world.prefetch
        if world.has("start-unchecked"):
            start = self.member._start

            def start_unchecked(item: Assigned) -> Assigned:
                return start(item) or item._replace(delivery=item.delivery + 1)

            self.member._start = start_unchecked  # type: ignore[method-assign]

    def take(self) -> Held | None:
        """Take an item, as `consume` does; None if there is none now."""
        held = self.member.take(1 + self._world.prefetch, 0)
        if held is not None:
            self.items.append(held)
        return held

    def ack(self, held: Held) -> list[Delivery]:
        """Acknowledge an item."""
        return self._finish((Kind.DONE, [Delivery(held.sequence, held.delivery)]), held)

    def fail(self, held: Held, *, delay_ns: int) -> list[Delivery]:
        """Report a failure."""
        due_ns = self.member.time_ns() + delay_ns if delay_ns else 0
        return self._finish((Kind.RETRY, [Failure(held.sequence, held.delivery, due_ns, "failed")]), held)

    def reject(self, held: Held) -> list[Delivery]:
        """Make an item a dead letter."""
        return self._finish((Kind.REJECT, [Failure(held.sequence, held.delivery, 0, "rejected")]), held)

    def _finish(self, section: tuple[Kind, list[object]], held: Held) -> list[Delivery]:
        self.items.remove(held)
        return self.member.finish(section, held.sequence, held.epoch)

    def notice_deaths(self) -> None:
        """Do what the watcher's thread does."""
        world = self._world
        dead = [each for each in self.member.others().items() if SimSeats(world, self).is_free(each[0])]
        self.member.record_deaths(dead)
