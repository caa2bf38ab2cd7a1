"""A simulated process: a member of the group, with the product's code, and the items that its user has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from binlog.consumers.members.letter_log import DeadLetters
from binlog.consumers.members.member import Member
from binlog.consumers.members.message_source import MessageSource, StoredRecord
from binlog.consumers.members.parts import Held, Parts
from binlog.consumers.state.clock import GroupClock
from binlog.consumers.state.group_log import GroupLog
from binlog.consumers.state.group_state import AppliedOperation, GroupState, Item, Outcome
from binlog.consumers.state.state_reader import StateReader, Wanted
from binlog.consumers.waking.waiting import Role
from binlog.errors import BusyError, CorruptError, UnknownOutcomeError
from binlog.format.consumers.operation import MARK, Delivery, Failure, Kind, Reset, Section
from binlog.format.record import Ref
from binlog.storage.mode import Mode
from binlog.storage.waiting.bell_watcher import Bell
from stress.group_model.sim_log import FIRST_OFFSET, SimLog, SimMessageLog, SimReader, SimWriter

if TYPE_CHECKING:
    from stress.group_model.world import World

SEATS = 6
UUID = b"g" * 16
_PATH = "/nowhere/group"


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

    def restore(self) -> None:
        pass

    def close(self) -> None:
        if self._world.seats.get(self.number) is self._process:
            del self._world.seats[self.number]


class SimSeats:
    """The seats, for one process."""

    def __init__(self, world: World, process: Process) -> None:
        self._world, self._process = world, process

    def take(self, is_living: Callable[[int], bool]) -> SimSeat:
        free = [number for number in range(SEATS) if number not in self._world.seats]
        if not free:
            raise BusyError("all seats are taken")
        return self._take(self._world.random.choice(free))

    def take_dead(self, number: int) -> SimSeat | None:
        if number not in self._world.seats:
            return self._take(number)
        return SimSeat(self._world, number, self._process) if self._is_wrong else None

    @property
    def _is_wrong(self) -> bool:
        """Whether this process takes living members for dead while it joins, by a seeded bug."""
        return self._process not in self._world.processes and self._world.has("living-buried")

    def _take(self, number: int) -> SimSeat:
        self._world.seats[number] = self._process
        seat = SimSeat(self._world, number, self._process)
        try:
            self._world.step()
        except InterruptError:
            seat.close()  # in the product an exception here closes the descriptor
            raise
        return seat

    def is_gone(self, number: int) -> bool:
        return number not in self._world.seats

    def is_free(self, number: int) -> bool:
        return number not in self._world.seats or self._is_wrong


class InterruptError(BaseException):
    """A signal handler raises this in the middle of a call, and the process survives."""


class LateLetters(DeadLetters):
    """A seeded bug: appends a dead letter when the next one comes."""

    _late: tuple[Item, StoredRecord | None, Callable[[], bool]] | None = None

    def append(self, item: Item, record: StoredRecord | None, is_dying: Callable[[], bool]) -> None:
        late, self._late = self._late, (item, record, is_dying)
        if late is not None:
            super().append(*late)


def sim_state_reader(world: World) -> StateReader:
    """Return a reader of the group's log, which begins with the newest checkpoint."""

    class _SimStateReader(StateReader):
        """A StateReader of the simulated log.  `_open` is that of the product, with the simulated files."""

        @classmethod
        def _open(
            cls, path: str, wanted: Wanted, *, durable_only: bool = False
        ) -> tuple[StateReader, list[tuple[Ref, AppliedOperation]]]:
            log = world.group_log
            for number in reversed(log.numbers):
                reader = SimReader(log, log.starts[number - 1])
                opened = cls(path, reader, UUID, state=world.new_state(is_audit=False))
                if (applied := opened._begin(Ref(number, FIRST_OFFSET), wanted, is_first=number == 1)) is not None:
                    return opened, applied
            raise CorruptError(path, 0, "group_operation", "there is no checkpoint, and the first file is gone")

    return _SimStateReader.open(_PATH)


class SimGroupLog(GroupLog):
    """The group's log of one process: its files are simulated, and a checkpoint is always due."""

    def __init__(self, world: World, process: Process) -> None:
        self._world, self._process = world, process
        super().__init__(
            _PATH, SimWriter(world.group_log), sim_state_reader(world), SimClock(world), self._checkpoint_turn
        )

    @property
    def _checkpoint_at(self) -> float:
        return 0.0

    @_checkpoint_at.setter
    def _checkpoint_at(self, _: float) -> None:
        pass

    @contextmanager
    def _checkpoint_turn(self) -> Iterator[bool]:
        world = self._world
        if world.checkpoint_process is not None:
            yield False
            return
        world.checkpoint_process = self._process
        try:
            yield True
        finally:
            world.checkpoint_process = None

    def submit(self, sections: Sequence[Section], **options: Any) -> Outcome:
        if options.get("flags") == MARK and self._world.has("checkpoint-early"):
            self._remove_before(self._world.group_log.ref(len(self._world.group_log.records)))
        return super().submit(sections, **options)

    def _remove_before(self, mark: Ref) -> None:
        self._world.step()
        self._world.group_log.remove_before(mark.number)


def _start_unchecked(member: Member) -> None:
    """Seed a bug: a member hands out items that it could not start."""
    own = member._items

    def start(count: int) -> bool:
        items = own.take_assigned(count)
        if not items:
            return False
        outcome = member._submit([(Kind.START, [each.sequence for each in items])])
        own.started(items, is_sure=True)
        begun = {each.sequence for each in outcome.started}
        lost = [each for each in items if each.sequence not in begun]
        found = [each._replace(delivery=each.delivery + 1, is_started=True) for each in lost]
        own.add(AppliedOperation(0, 0, 0, 0, Outcome(True, found, [], []), None))
        return True

    member._start = start  # type: ignore[method-assign]
    member.state.started_by = lambda seat, sequence, delivery: delivery  # type: ignore[method-assign]


class SimWaiting:
    """No waiting: the world lets members act in any order."""

    def begin(self, seat: int) -> None:
        pass

    @contextmanager
    def idle(self, seat: int) -> Iterator[int]:
        yield 0

    def wake_listener(self) -> None:
        pass

    def role(self, seat: int) -> Role:
        return Role.LISTENER

    def wake_all(self, state: GroupState) -> None:
        pass

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
    """One process.

    items: those that its user has and has not ended.  unsure: those whose end was interrupted.
    is_dying: it was killed, and does nothing more.
    """

    def __init__(self, world: World, number: int) -> None:
        self.number = number
        self.boot = world.boot
        self.is_alive = True
        self.is_frozen = self.is_dying = False
        self.items: list[Held] = []
        self.unsure: list[Held] = []
        self._world = world
        log = SimGroupLog(world, self)
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
        self.member = Member(parts, lease_ns=world.lease_ns, mode=world.mode, skips_gone=world.resets)
        self.member.begin_taking(world.prefetch)
        if world.has("start-unchecked"):
            _start_unchecked(self.member)
        if world.has("items-forgotten"):
            log.lost = lambda: None

    def take(self, count: int = 1) -> list[Held]:
        """Take an item, as `consume` does, or up to `count` of them, as `batches` does; none if there is none now."""
        if count > 1:
            found = self.member.take_many(count, wait=0.0, timeout=0.0)
        else:
            held = self.member.take(1 + self._world.prefetch, 0)
            found = [] if held is None else [held]
            if held is not None:
                self.member.delivered()
        self.items += found
        return found

    def ack(self, *items: Held) -> list[Delivery]:
        """Acknowledge items of one epoch."""
        if len(items) == 1:
            return self._ack(items[0])
        done = [Delivery(each.sequence, each.delivery) for each in items]
        return self._finish((Kind.DONE, done), *items, batch=len(items) if len(items) > 1 else 0)

    def fail(self, held: Held, *, delay_ns: int) -> list[Delivery]:
        """Report a failure."""
        due_ns = self.member.time_ns() + delay_ns if delay_ns else 0
        return self._finish((Kind.RETRY, [Failure(held.sequence, held.delivery, due_ns, "failed")]), held)

    def reject(self, held: Held) -> list[Delivery]:
        """Make an item a dead letter."""
        return self._finish((Kind.REJECT, [Failure(held.sequence, held.delivery, 0, "rejected")]), held)

    def _ack(self, held: Held) -> list[Delivery]:
        self.items.remove(held)
        try:
            counts = self.member.ack(held.sequence, held.delivery, held.epoch)
        except (InterruptError, UnknownOutcomeError):
            self.unsure.append(held)
            raise
        return [] if counts else [Delivery(held.sequence, held.delivery)]

    def _finish(self, section: Section, *items: Held, batch: int = 0) -> list[Delivery]:
        for held in items:
            self.items.remove(held)
        try:
            return self.member.finish(
                [section], [Delivery(held.sequence, held.delivery) for held in items], items[0].epoch, batch=batch
            )
        except (InterruptError, UnknownOutcomeError):
            self.unsure += items
            raise

    def reset(self, reset: Reset) -> None:
        """Deliver messages again, as an operator."""
        self.member.log.submit([(Kind.RESET, reset)], anonymous=True, mode=Mode.SYNC)

    def notice_deaths(self) -> None:
        """Do what the watcher's thread does."""
        world = self._world
        members = self.member.membership
        members.record_deaths([each for each in members.others().items() if SimSeats(world, self).is_free(each[0])])


def records_of(log: SimLog, place: Ref) -> list[bytes]:
    """Return the records of a log up to a place, this one included."""
    return log.records[: log.index(Ref(place.number, place.offset + 1))]
