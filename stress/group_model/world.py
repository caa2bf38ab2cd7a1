"""One run: members, deaths, power cuts, producers, operators and retention, in an order that a seed decides."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from binlog.consumers.members.parts import Held
from binlog.consumers.state.group_state import GroupState
from binlog.consumers.state.settings import Order, Settings
from binlog.errors import BinlogError, BusyError, FullError, UnknownOutcomeError
from binlog.format.consumers.message import Message
from binlog.format.consumers.operation import Delivery, Kind, Reset, entries_of, group_seed, parse_operation
from binlog.storage.mode import Mode
from stress.group_model.audit import Audit, ViolationError, message_of
from stress.group_model.plain_group import PlainGroup
from stress.group_model.plain_items import Item
from stress.group_model.plain_state import PlainState
from stress.group_model.process import UUID, DiedError, InterruptError, Process, records_of
from stress.group_model.seeded_bugs import SEEDED_BUGS
from stress.group_model.sim_log import SimLog

_SECOND = 1_000_000_000
_DEPTH_MAX = 3
_KEYS = (b"a", b"b")
_BUGS_IN_RULES = frozenset(("death-uncounted", "late-ack", "suspects-together", "rule-differs", "key-ignored"))


class PowerError(BaseException):
    """The power failed: every process is gone."""


class World:
    """The logs, the seats and the processes."""

    def __init__(self, seed: int, seeded: frozenset[str] = frozenset(), *, trace: bool = False) -> None:
        self.random = random = Random(seed)
        self._seeded = seeded
        self._trace = trace
        self.steps = 0
        self.boot = 0
        self.since_boot_ns = 5 * _SECOND
        self.wall_ns = 1_000 * _SECOND
        self.seats: dict[int, Process] = {}
        # In some runs members die of poison only; then no other message may be delivered more than twice.
        self.only_poison_kills = random.random() < 0.2
        self._dies = not self.only_poison_kills and random.random() < 0.8
        self._loses_power = not self.only_poison_kills and random.random() < 0.5
        self._poisons = self.only_poison_kills or random.random() < 0.3
        self._prunes = random.random() < 0.5
        self._interrupts = not self.only_poison_kills and random.random() < 0.4
        self._fills = not self.only_poison_kills and random.random() < 0.3
        self.resets = not self.only_poison_kills and random.random() < 0.2
        self._batches = random.random() < 0.4
        self.lease_ns = 0 if self.only_poison_kills else random.choice([0, 0, 0, 3 * _SECOND])
        self.data, self.dead = SimLog(self, "log"), SimLog(self, "dead")
        self.group_log = SimLog(self, "group", file_records=random.choice([0, 0, 10, 25]))
        self.prefetch = random.choice([0, 1, 1, 3])
        self.mode = random.choice([Mode.SYNC, Mode.SYNC, Mode.FLUSH])
        self.settings = Settings(
            deliveries_max=random.choice([0, 2, 3, 10]),
            first_ns=random.choice([0, _SECOND]),
            outstanding_max=random.choice([3, 100]),
            in_hand_max=random.choice([0, 0, 4]),
            order=random.choice([Order.NONE, Order.NONE, Order.STRICT, Order.RELAXED]),
        )
        self.audit = Audit(self)
        self.processes: list[Process] = []
        self.checkpoint_process: Process | None = None
        self.reset_count = 0
        self._running: list[Process] = []
        self._message_count = self._process_count = 0
        self._has_no_power = self._is_ending = False

    def has(self, name: str) -> bool:
        """Whether this world has a seeded bug."""
        assert name in SEEDED_BUGS, name
        return name in self._seeded

    # ---- called by the processes ----

    def step(self) -> None:
        """Let anything happen between two steps of a process.  Raises: DiedError, PowerError, InterruptError."""
        self.steps += 1
        if self._has_no_power:
            raise PowerError
        if self._running and self._running[-1].is_dying:
            raise DiedError
        if self._is_ending or not self._running or not self._running[-1].is_alive:
            return
        choice = self.random.random()
        if self._dies and choice < 0.03:
            self._running[-1].is_dying = True
            raise DiedError
        if self._loses_power and choice < 0.035:
            self._has_no_power = True
            raise PowerError
        if self._interrupts and choice < 0.05:
            raise InterruptError
        if choice < 0.2 and len(self._running) < _DEPTH_MAX:
            self._act()

    def is_full(self) -> bool:
        """Whether the disk has no space for the next record."""
        return self._fills and not self._is_ending and self.random.random() < 0.02

    def appended(self, log: SimLog, record: bytes) -> None:
        """Take note of a record, of which the audit must know at once."""
        if log is not self.group_log or not self.resets:
            return
        operation = parse_operation(record, group_seed(UUID))
        assert operation is not None
        for reset in entries_of(operation, Kind.RESET):
            before = self.state_after(log.records[:-1])
            if before.epoch == operation.epoch:
                self.reset_count += 1
                self.audit.reset(reset, before)

    def new_state(self, *, is_audit: bool) -> GroupState:
        """Return a state of the group; a plain one if a bug is seeded in its rules."""
        seed = group_seed(UUID)
        if not self._seeded & _BUGS_IN_RULES:
            return GroupState(seed)
        group = PlainGroup(seed)
        self._seed_rules(group.plain)
        if self.has("rule-differs") and not is_audit and self.random.random() < 0.5:
            pick_new, pick_ready = group.plain._pick_new, group.plain._pick_ready
            group.plain._pick = lambda *, is_alone: pick_ready() or pick_new()  # type: ignore[method-assign]
        return group

    def _seed_rules(self, state: PlainState) -> None:
        if self.has("death-uncounted"):
            returns = state._return_of_dead

            def return_uncounted(item: Item) -> None:
                item.uncounted += 1
                returns(item)

            state._return_of_dead = return_uncounted  # type: ignore[method-assign]
        if self.has("late-ack"):
            find = state.items.get
            state._last_delivery = lambda sequence, delivery: find(sequence)  # type: ignore[method-assign]
        if self.has("suspects-together"):
            state._has_suspect = lambda seat: False  # type: ignore[method-assign]
        if self.has("key-ignored"):
            state.items.queue_by_key = lambda item: True  # type: ignore[method-assign]

    # ---- a run ----

    def run(self, step_count: int) -> None:
        """Raises: ViolationError."""
        try:
            while self.steps < step_count:
                self.steps += 1
                self._guard(self._act)
            self._end()
        except BinlogError as error:
            raise ViolationError(f"{type(error).__name__}: {error}") from error

    def _guard(self, action: Callable[[], None]) -> None:
        try:
            action()
        except PowerError:
            self._lose_power()
        assert not self._running

    def _act(self) -> None:
        random = self.random
        free = [each for each in self.processes if each not in self._running and each.is_alive and not each.is_frozen]
        choice = random.random()
        if choice < 0.15 or not free:
            if choice < 0.1 or not self.processes:
                self._produce()
            if len(self.processes) < 4 and (random.random() < 0.4 or not free):
                self._begin()
            elif not free and not self._running:
                random.choice(self.processes).is_frozen = False
            return
        process = random.choice(free)
        if choice < 0.2:
            self.since_boot_ns += random.choice([1, _SECOND, 5 * _SECOND])
        elif choice < 0.24 and self._prunes:
            self._prune()
        elif choice < 0.26 and self._dies:
            self._kill(process)
        elif choice < 0.28 and not self.only_poison_kills:
            self._release_frozen(process)
        elif choice < 0.3:
            self.say(f"process {process.number} leaves")
            self.audit.left(process)
            self._do(process, process.member.leave)
            if process.is_alive:
                self._bury(process)
        elif choice < 0.31 and self.resets:
            self._reset(process)
        elif choice < 0.38:
            self._do(process, process.notice_deaths)
        elif choice < 0.42:
            self._do(process, process.member.give_back)
        elif choice < 0.65 or not process.items:
            self._do(process, lambda: self._take(process))
        else:
            self._do(process, lambda: self._finish(process))

    def _do(self, process: Process, action: Callable[[], object]) -> None:
        """Let a process act; it may die in the middle, or be interrupted."""
        self._running.append(process)
        try:
            action()
        except DiedError:
            self._kill(process)
        except (InterruptError, UnknownOutcomeError):
            # The latter if other members removed the operation after a checkpoint, before this one had applied it.
            self.say(f"process {process.number} is interrupted")
        except FullError:
            self.say(f"process {process.number} has no space")
        finally:
            self._running.pop()

    def _release_frozen(self, process: Process) -> None:
        """Stop a process for a while; let an operator give its items to others; or let it continue."""
        others = [each for each in self.processes if each.is_frozen and each not in self._running]
        for each in others:
            seat = each.member.log.seat
            if self.random.random() < 0.3 and seat in process.member.state.seats:
                self.say(f"process {process.number} releases the seat of process {each.number}")
                self.audit.released(each)
                generation = process.member.state.seats[seat].generation
                self._do(process, partial(process.member.membership.release, [(seat, generation)]))
            each.is_frozen = self.random.random() < 0.5
            if not process.is_alive:
                return
        process.is_frozen = self.random.random() < 0.3

    def _reset(self, process: Process) -> None:
        """Let an operator deliver messages again."""
        if self.data.first < len(self.data.records):
            reset = Reset(self.random.randrange(self.data.first, len(self.data.records)), self.random.random() < 0.5)
            self.say(f"process {process.number} resets the group to message {reset.to}, keeps {reset.keeps}")
            self.data.durable = len(self.data.records)
            self._do(process, partial(process.reset, reset))

    def _begin(self) -> None:
        self._process_count += 1
        self.say(f"process {self._process_count} joins")
        # A process that dies while it joins has a seat, and no number in the list.
        place = _Newcomer()
        self._running.append(place)  # type: ignore[arg-type]
        try:
            process = Process.__new__(Process)
            place.process = process
            process.__init__(self, self._process_count)  # type: ignore[misc]
            self.processes.append(process)
        except (DiedError, InterruptError, UnknownOutcomeError, BusyError, FullError):
            self.say(f"process {self._process_count} ends while it joins")
            self._free_seats(place.process)
        finally:
            self._running.pop()

    def _produce(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            self._message_count += 1
            kind = "poison" if self._poisons and self.random.random() < 0.1 else "message"
            body = f"{kind} {self._message_count}".encode()
            key = self.random.choice(_KEYS) if self.random.random() < 0.4 else None
            self.data.records.append(body if key is None else Message(body=body, key=key).pack())
        if self.random.random() < 0.5:
            self.data.durable = len(self.data.records)

    def _take(self, process: Process) -> None:
        for held in process.take(self.random.randint(2, 4) if self._batches and self.random.random() < 0.5 else 1):
            body, _ = message_of(held)
            self.say(f"process {process.number} gets {body.decode()}, delivery {held.delivery}")
            self.audit.handed(process, held)
            if body.startswith(b"poison"):
                process.is_dying = True
                raise DiedError

    def _finish(self, process: Process) -> None:
        held = self.random.choice(process.items)
        body, choice = message_of(held)[0], self.random.random()
        items = [held]
        if choice < 0.7 or self.only_poison_kills:
            if self._batches:
                items += [each for each in process.items if each is not held and each.epoch == held.epoch]
            self.say(
                f"process {process.number} acknowledges {', '.join(message_of(each)[0].decode() for each in items)}"
            )
            self._ack(process, items)
        elif choice < 0.9:
            self.say(f"process {process.number} fails {body.decode()}")
            self.audit.ending(process, held, is_ack=False)
            self._unless_full(process, items, partial(process.fail, held, delay_ns=self.random.choice([0, _SECOND])))
        else:
            self.say(f"process {process.number} rejects {body.decode()}")
            self.audit.ending(process, held, is_ack=False)
            self._unless_full(process, items, partial(process.reject, held))

    def _ack(self, process: Process, items: list[Held]) -> None:
        for each in items:
            self.audit.ending(process, each, is_ack=True)
        refused = {each.sequence for each in self._unless_full(process, items, partial(process.ack, *items))}
        for each in items:
            if each.sequence not in refused:
                self.audit.acknowledged(process, each)

    def _unless_full(self, process: Process, items: list[Held], end: Callable[[], list[Delivery]]) -> list[Delivery]:
        """End items; if there is no space for that, the process still has them."""
        try:
            return end()
        except FullError:
            process.items += items
            for each in items:
                self.audit.refused(process, each)
            raise

    def _kill(self, process: Process) -> None:
        self.say(f"process {process.number} dies")
        self._bury(process)

    def _bury(self, process: Process) -> None:
        process.is_alive = False
        self.audit.died(process)
        self._free_seats(process)
        if process in self.processes:
            self.processes.remove(process)

    def _free_seats(self, process: Process) -> None:
        for number in [number for number, owner in self.seats.items() if owner is process]:
            del self.seats[number]

    def _lose_power(self) -> None:
        self.say("power fails")
        self._running.clear()
        for process in list(self.processes):
            self._bury(process)
        self.seats.clear()
        for log in (self.data, self.group_log):
            log.lose_power()
        self.audit.lost_power(self.state_after(self.group_log.records).epoch)
        self._has_no_power = False
        self.boot += 1
        self.since_boot_ns = self.random.choice([1, 3]) * _SECOND
        self.wall_ns = self.random.choice([0, 1_000, 2_000]) * _SECOND

    def _prune(self) -> None:
        """Remove messages that the group is done with, by the durable part of its log."""
        log = self.group_log
        count = len(log.records) if self.has("prune-unconfirmed") else log.durable
        state = self.state_after(log.records[:count])
        if state.is_created and state.floor > self.data.first:
            self.say(f"messages before {state.floor} are removed")
            self.data.first = state.floor

    def state_after(self, records: list[bytes]) -> GroupState:
        """Return the state after some operations."""
        state = self.new_state(is_audit=True)
        for record in records:
            assert state.apply(record) is not None
        return state

    # ---- the end ----

    def _end(self) -> None:
        """Let one last member finish everything, and check that nothing was lost."""
        self._is_ending = True
        for process in self.processes:
            records = records_of(self.group_log, process.member.log.position)
            self.audit.check_state(process, self.state_after(records))
        if self._interrupts or self._fills:
            for process in list(self.processes):
                self._take_all(process)
        for process in list(self.processes):
            if self.only_poison_kills:
                self.audit.left(process)
                self._do(process, process.member.leave)
            self._bury(process)
        last = Process(self, 0)
        for _ in range(50 * (1 + self._message_count)):
            found = last.take()
            if not found:
                self.since_boot_ns += 3_600 * _SECOND
                if not last.member.state.outstanding_count and last.member.state.next == len(self.data.records):
                    break
            for held in found:
                self.audit.handed(last, held)
                self._ack(last, [held])
        data = last.member.state.pack()
        again = self.new_state(is_audit=True)
        again.load(data)
        if again.pack() != data:
            raise ViolationError("a checkpoint is not the state")
        self.audit.check_end()

    def _take_all(self, process: Process) -> None:
        """Let a process that was interrupted deliver all that it has."""
        while process.is_alive and (found := process.take()):
            for held in found:
                self.audit.handed(process, held)
        self.audit.check_in_hand(process)

    def say(self, text: str) -> None:
        """Print what happens, if the run is traced."""
        if self._trace:
            print(f"{self.steps:5} {'  ' * len(self._running)}{text}")


class _Newcomer:
    """In place of a process that is joining."""

    is_alive = True
    is_dying = False
    process: Process
