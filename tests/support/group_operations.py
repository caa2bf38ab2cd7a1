"""A plain state of a group and the operations of its members, for tests of the rules."""

from __future__ import annotations

from dataclasses import dataclass, field

from binlog.consumers.state.group_state import Assigned, ItemState, Outcome
from binlog.consumers.state.settings import Settings
from binlog.format.consumers.operation import (
    NO_SEAT,
    START_FIRST,
    Again,
    Delivery,
    Failure,
    Join,
    Kind,
    MessageFacts,
    Operation,
    Section,
    Setting,
    Window,
    group_seed,
    pack_operation,
    parse_operation,
)
from stress.group_model.plain_state import PlainState

SEED = group_seed(b"g" * 16)


@dataclass
class GroupOperations:
    """Applies operations to a state, each through its bytes.  now_ns: group time; the test moves it."""

    settings: Settings = field(default_factory=Settings)
    state: PlainState = field(default_factory=PlainState)
    now_ns: int = 0

    def __post_init__(self) -> None:
        self.apply(NO_SEAT, (Kind.SETTINGS, {Setting.START: 0, **self.settings.as_values()}))

    def apply(
        self,
        seat: int,
        *sections: Section,
        want: int = 0,
        flags: int = 0,
        generation: int | None = None,
        epoch: int | None = None,
    ) -> Outcome:
        """Apply an operation of a seat, by default of its last generation and in this epoch."""
        operation = Operation(
            seat,
            self.state.generations.get(seat, 0) if generation is None else generation,
            0,
            self.now_ns,
            self.state.epoch if epoch is None else epoch,
            want,
            flags,
            list(sections),
        )
        return self.applied(operation)

    def applied(self, operation: Operation) -> Outcome:
        """Apply an operation, through its bytes."""
        parsed = parse_operation(pack_operation(operation, SEED), SEED)
        assert parsed == operation
        return self.state.apply(parsed)

    def join(self, *seats: int, lease_ns: int = 0) -> None:
        """Let members take these seats."""
        for seat in seats:
            generation = self.state.generations.get(seat, 0) + 1
            assert self.apply(seat, (Kind.JOIN, Join(lease_ns, "a test")), generation=generation).counted

    def produce(self, count: int, **facts: int) -> None:
        """Add messages to the known ones; with facts, if there are any."""
        messages = (MessageFacts(**facts),) * count if facts else ()
        window = Window(self.state.known_end, count, (1, 256), 0, messages)
        self.apply(NO_SEAT, (Kind.WINDOW, window))

    def produce_keys(self, *keys: int) -> None:
        """Add a message for each of these keys."""
        messages = tuple(MessageFacts(key_hash=key) for key in keys)
        self.apply(NO_SEAT, (Kind.WINDOW, Window(self.state.known_end, len(keys), (1, 256), 0, messages)))

    def take(self, seat: int, want: int = 1) -> list[int]:
        """Assign items to a seat, start the first one, and return the sequences of all."""
        return [each.sequence for each in self.assign(seat, want)]

    def assign(self, seat: int, want: int = 1) -> list[Assigned]:
        """Assign items to a seat, and start the first one."""
        return self.apply(seat, want=want, flags=START_FIRST).assigned

    def start(self, seat: int, *sequences: int) -> None:
        """Start items that the seat has."""
        self.apply(seat, (Kind.START, list(sequences)))

    def ack(self, seat: int, *sequences: int) -> list[Delivery]:
        """Acknowledge the last delivery of each item; return those refused."""
        return self.apply(seat, (Kind.DONE, [self.last(each) for each in sequences])).refused

    def fail(self, seat: int, sequence: int, *, after_ns: int = 0, reason: str = "failed") -> list[Delivery]:
        """Report a failure; return the delivery if it is refused."""
        due_ns = self.now_ns + after_ns if after_ns else 0
        failure = Failure(*self.last(sequence), due_ns, reason)
        return self.apply(seat, (Kind.RETRY, [failure])).refused

    def again(self, sequence: int, *, delivery: int = 0, key_hash: int = 0) -> None:
        """Deliver a message now, as an operator."""
        self.apply(NO_SEAT, (Kind.AGAIN, [Again(sequence, delivery, key_hash)]))

    def kill(self, *seats: int) -> None:
        """Record that the members of these seats died."""
        self.apply(NO_SEAT, (Kind.DEATH, [(seat, self.state.generations[seat]) for seat in seats]))

    def last(self, sequence: int) -> Delivery:
        """Return the last delivery of an item."""
        return Delivery(sequence, self.state.items[sequence].delivery)

    def state_of(self, sequence: int) -> ItemState | None:
        """Return the state of an item, None if it is done or new."""
        item = self.state.items.get(sequence)
        return None if item is None else item.state
