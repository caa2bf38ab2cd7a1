"""A process that appends messages, is a member of a consumer group, and acts as its operator, all at random.

It marks each item that it gets; the end of an item before the call, and what became of the call after it.
"""

from __future__ import annotations

import os
import random
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import binlog
from binlog import ConsumerGroup, Item, Mode, Order, Retry, Start, Writer
from binlog.consumers import GroupControl, read_dead_letters
from binlog.consumers.item_batch import ItemBatch
from binlog.consumers.state import group_log
from binlog.consumers.tokens import Token
from binlog.errors import LeaseLostError, NotFoundError, PoisonedError
from stress.crash.system import Actor, ProcessContext, Scenario, Step
from stress.crash.systems.group.marks import ENDS, NO_MESSAGE, Identity, Mark, MarkKind, identity_of, record_of

GROUP = "workers"
DELIVERIES_MAX = 3
REJECTED, FAILED = "rejected", "failed"
"""What is said of items that are rejected, and of those that fail."""
PREPARE_BYTES = 4096
_SOME_SECONDS = 0.02
_BATCH_MAX, _CONSUMED_MAX, _KEPT_MAX = 4, 4, 3
# Of an item's end: an acknowledgement, a failure, a rejection, or none.
_PROBABLY_ACKED = (*[MarkKind.ACK_TRIED] * 6, MarkKind.NACK_TRIED, MarkKind.REJECT_TRIED, MarkKind.BACK_TRIED)


def open_group(path: Path, mode: Mode = Mode.SYNC, history_bytes: int = 0) -> ConsumerGroup:
    """Open the group, whose log has small files.  history_bytes: of older files that stay.

    Retention may remove messages before a reset makes them new again, so those are skipped.
    """
    # Some twenty operations fill a file, and checkpoints are made all the time.
    group_log._FILE_BYTES, group_log._HISTORY_BYTES, group_log._CHECKPOINT_SECONDS = 2500, history_bytes, 0.0
    return ConsumerGroup(
        path,
        GROUP,
        retry=Retry(deliveries_max=DELIVERIES_MAX, first=0, jitter=0),
        order=Order.STRICT,
        mode=mode,
        skip_gone=True,
    )


class GroupActor(Actor):
    """See the module.  Its threads may have actors of their own, which share the group: see `for_thread`."""

    def __init__(self, path: Path, process: ProcessContext, mode: Mode = Mode.SYNC, *, history_bytes: int = 0) -> None:
        super().__init__(process)
        self._path, self._mode = path, mode
        self._number = 0
        self._items: list[Item] = []
        self._is_poisoned = False  # a call said so; then closing says nothing more
        with ExitStack() as failing:
            self._writer = failing.enter_context(Writer(path, prepare_bytes=PREPARE_BYTES))
            self._group = failing.enter_context(open_group(path, mode, history_bytes))
            failing.pop_all()
        self._mark(MarkKind.OPENED, delivery=os.getpid())

    # --- messages

    def append_one(self) -> None:
        """Append a message durably, and acknowledge one."""
        self._produce(Mode.SYNC)
        self.ack()

    def produce(self) -> None:
        """Append some messages, durably or not."""
        for _ in range(self._chance.randint(1, 3)):
            self._produce(self._chance.choice((Mode.SYNC, Mode.FLUSH)))

    def produce_many(self) -> None:
        """Append many messages, which are not durable."""
        for _ in range(8):
            self._produce(Mode.FLUSH)

    def _produce(self, mode: Mode) -> None:
        self._number += 1
        identity = Identity(self._process.number, self._number)
        self._mark(MarkKind.PUT_TRIED, identity)
        with self._noting(self._made(MarkKind.PUT_REFUSED, identity)):
            self._writer.append(record_of(identity), mode=mode)
        self._mark(MarkKind.PUT_DONE, identity, durable=mode is Mode.SYNC)

    # --- items

    def get(self) -> None:
        """Get an item, if there is one."""
        self._get(0.0)

    def _get(self, timeout: float | None) -> bool:
        with self._noting():
            item = self._group.get(timeout)
        if item is not None:
            self._take(item)
        return item is not None

    @contextmanager
    def _noting(self, *refusals: Mark) -> Iterator[None]:
        """Write these marks if the call's error says that nothing was done, and note that the log is poisoned."""
        try:
            with self.refusing(*refusals):
                yield
        except PoisonedError:
            self._is_poisoned = True
            raise

    def _take(self, item: Item) -> None:
        self._mark_item(MarkKind.GOT, item)
        self._items.append(item)

    def ack(self) -> None:
        """Acknowledge an item."""
        self._end_one(MarkKind.ACK_TRIED)

    def fail(self) -> None:
        """Report the failure of an item, or make it a dead letter."""
        self._end_one(self._chance.choice((MarkKind.NACK_TRIED, MarkKind.NACK_TRIED, MarkKind.REJECT_TRIED)))

    def give_back(self) -> None:
        """Give an item back."""
        self._end_one(MarkKind.BACK_TRIED)

    def _end_one(self, kind: MarkKind) -> None:
        if not self._items:
            self.get()
        if self._items:
            self._end(self._chance.choice(self._items), kind)

    def end_by_token(self) -> None:
        """Acknowledge an item, or report its failure, as a process that only knows its token."""
        if not self._items:
            return self.get()
        item = self._chance.choice(self._items)
        token = item.token
        calls: dict[MarkKind, Callable[[], None]] = {
            MarkKind.ACK_TRIED: lambda: self._group.ack(token),
            MarkKind.NACK_TRIED: lambda: self._group.nack(token, delay=0, error=FAILED),
            MarkKind.REJECT_TRIED: lambda: self._group.reject(token, error=REJECTED),
        }
        kind = self._chance.choice([*calls])
        self._call(item, kind, calls[kind])
        return None

    def consume(self) -> None:
        """Get some items in a loop, with others assigned ahead, and end most of them."""
        self._consume(0.0, self._chance.randint(1, _CONSUMED_MAX))

    def _consume(self, timeout: float | None, count: int) -> None:
        items = iter(self._group.consume(timeout, prefetch=self._chance.randrange(4)))
        with self._noting(), closing(items):  # type: ignore[type-var]
            for item in items:
                self._take(item)
                if self._chance.random() < 0.9 or len(self._items) > _KEPT_MAX:
                    self._end(self._chance.choice(self._items), self._chance.choice(_PROBABLY_ACKED))
                count -= 1
                if not count:
                    return

    def take_batches(self) -> None:
        """Get batches of items, and end each by one call."""
        self._take_batches(0.0, self._chance.randint(1, 2))

    def _take_batches(self, timeout: float | None, count: int) -> None:
        batches = self._group.batches(self._chance.randint(2, _BATCH_MAX), timeout=timeout)
        with self._noting(), closing(batches):  # type: ignore[type-var]
            for batch in batches:
                for item in batch:
                    self._take(item)
                self._end_batch(batch)
                count -= 1
                if not count:
                    return

    def work(self, *, count: int = 20, threads: int = 2) -> None:
        """Let threads handle items until one has handled `count` of them, and sends SIGTERM to the process."""
        left = [count]

        def handle(item: Item) -> None:
            self._mark_item(MarkKind.GOT, item)
            kind = self._chance.choice(_PROBABLY_ACKED)
            with suppress(LeaseLostError):
                self._call(item, kind, self._ending(item, kind), is_ours=False)
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGTERM)

        self._group.work(handle, threads=threads)

    # --- the end of items

    def _end(self, item: Item, kind: MarkKind) -> None:
        self._call(item, kind, self._ending(item, kind))

    def _ending(self, item: Item, kind: MarkKind) -> Callable[[], None]:
        return {
            MarkKind.ACK_TRIED: item.ack,
            MarkKind.NACK_TRIED: lambda: item.nack(delay=0, error=FAILED),
            MarkKind.REJECT_TRIED: lambda: item.reject(REJECTED),
            MarkKind.BACK_TRIED: item.back,
        }[kind]

    def _call(self, item: Item, kind: MarkKind, call: Callable[[], None], *, is_ours: bool = True) -> None:
        self._mark_item(kind, item)
        try:
            with self._noting(self._made_of(MarkKind.END_REFUSED, item)):
                call()
        except LeaseLostError:
            self._mark_item(MarkKind.LOST, item)
            if not is_ours:
                raise
        else:
            self._mark_item(MarkKind.ENDED, item)
        if is_ours:
            self._items.remove(item)

    def _end_batch(self, batch: ItemBatch) -> None:
        kinds = [self._chance.choice(_PROBABLY_ACKED) for _ in batch]
        for place, (item, kind) in enumerate(zip(batch, kinds, strict=True)):
            self._mark_item(kind, item)
            if kind is MarkKind.NACK_TRIED:
                batch.nack(place, delay=0, error=FAILED)
            elif kind is MarkKind.REJECT_TRIED:
                batch.reject(place, REJECTED)
            elif kind is MarkKind.BACK_TRIED:
                batch.back(place)
        lost: set[int] = set()
        try:
            with self._noting(*(self._made_of(MarkKind.END_REFUSED, item) for item in batch)):
                batch.ack()
        except LeaseLostError as error:
            lost = _messages_in(str(error))
        for item in batch:
            self._mark_item(MarkKind.LOST if item.sequence in lost else MarkKind.ENDED, item)
            self._items.remove(item)

    # --- an operator

    def pause(self) -> None:
        """Pause the group, and resume it."""
        self._group.pause()
        self._group.resume()

    def release(self) -> None:
        """Give the items of a living member to others."""
        with GroupControl(self._path, GROUP) as control:
            seats = control.state().seats
            if not seats:
                return
            seat = self._chance.choice(sorted(seats))
            self._mark(MarkKind.RELEASE_TRIED, delivery=int(seats[seat].hint.split()[1]))
            with suppress(NotFoundError):  # it has just left
                control.release(seat)

    def reset(self) -> None:
        """Deliver all messages again."""
        self._mark(MarkKind.RESET_TRIED)
        self._group.reset(Start.BEGINNING)
        self._mark(MarkKind.RESET_DONE)

    def retry_dead(self) -> None:
        """Deliver a dead letter again."""
        # If retention had removed the message, the letter has no origin and no body.
        letters = [each for each in read_dead_letters(self._path, GROUP) if each.origin is not None]
        if letters:
            letter = self._chance.choice(letters)
            assert letter.sequence is not None
            self._mark(MarkKind.AGAIN_TRIED, identity_of(letter.body), sequence=letter.sequence)
            with GroupControl(self._path, GROUP) as control:
                control.retry_dead([letter.sequence])
            self._mark(MarkKind.AGAIN_DONE, identity_of(letter.body), sequence=letter.sequence)

    def change_limits(self) -> None:
        """Change a setting of the group."""
        self._group.set(outstanding_max=self._chance.choice((20, 100, 1000)))

    def prune(self) -> None:
        """Close the file of messages, and remove those that the group is done with."""
        self._writer.cutover()
        binlog.prune(self._path, consumed=True)

    # --- closing

    def close(self) -> None:
        """Leave the group, and close everything, which makes it durable."""
        try:
            self._group.close()
            if not self._is_poisoned:
                self._mark(MarkKind.CLOSED)
        finally:
            self._writer.close()
        if not self._is_poisoned:
            self._mark(MarkKind.PUTS_SYNCED)

    # --- in deaths

    def finish_all(self) -> None:
        """Acknowledge all messages."""
        while self._items or self._get(0.0):
            self._end(self._items[-1], MarkKind.ACK_TRIED)

    def append_and_get(self) -> None:
        """Append a message, and get it."""
        self._produce(Mode.SYNC)
        self._get(None)

    def append_durably(self) -> None:
        """Append a message, durably."""
        self._produce(Mode.SYNC)

    def wait_and_acknowledge(self) -> None:
        """Wait for a message, and acknowledge it."""
        self._get(None)
        self._end(self._items[-1], MarkKind.ACK_TRIED)

    # --- in storms

    def for_thread(self) -> GroupActor:
        """Return an actor for another thread, which shares the group, and appends nothing."""
        other = GroupActor.__new__(GroupActor)
        Actor.__init__(other, replace(self._process, chance=random.Random(f"{self._chance.random()}")))
        other._path, other._mode, other._number, other._items = self._path, self._mode, 0, []
        other._is_poisoned = False
        other._writer, other._group = self._writer, self._group
        return other

    def produce_and_get(self) -> None:
        """Append some messages, and end as many items as the others leave."""
        self.produce()
        for _ in range(3):
            if self._get(_SOME_SECONDS):
                self._end(self._items[-1], self._chance.choice(_PROBABLY_ACKED))

    def get_and_end(self) -> None:
        """Wait for an item, and end it, or another one."""
        self._get(None)
        if len(self._items) > self._chance.randrange(4):
            self._end(self._chance.choice(self._items), self._chance.choice(_PROBABLY_ACKED))

    def consume_some(self) -> None:
        """Wait for items in a loop."""
        self._consume(None, self._chance.randint(1, 30))

    def take_some_batches(self) -> None:
        """Wait for batches."""
        self._take_batches(None, self._chance.randint(1, 10))

    def operate(self) -> None:
        """Append messages, and act as an operator."""
        self.produce_and_get()
        draw = self._chance.random()
        for share, step in _OPERATIONS:
            if draw < share:
                step(self)
                break
            draw -= share

    # --- marks

    def _mark_item(self, kind: MarkKind, item: Item) -> None:
        self.mark(self._made_of(kind, item))

    def _made_of(self, kind: MarkKind, item: Item) -> Mark:
        token = Token.parse(item.token)
        place = (token.delivery, token.epoch, token.sequence)
        is_durable = kind is MarkKind.ENDED and self._mode is Mode.SYNC
        return Mark(kind, self._process.number, identity_of(item.data), *place, is_durable)

    def _made(
        self,
        kind: MarkKind,
        message: Identity = NO_MESSAGE,
        *,
        delivery: int = 0,
        sequence: int = 0,
        durable: bool = False,
    ) -> Mark:
        return Mark(kind, self._process.number, message, delivery, 0, sequence, durable)

    def _mark(
        self,
        kind: MarkKind,
        message: Identity = NO_MESSAGE,
        *,
        delivery: int = 0,
        sequence: int = 0,
        durable: bool = False,
    ) -> None:
        self.mark(self._made(kind, message, delivery=delivery, sequence=sequence, durable=durable))


def _messages_in(text: str) -> set[int]:
    """Return the sequences that a LeaseLostError names."""
    found = re.match(r"message ([\d, ]+):", text)
    assert found is not None, text
    return set(map(int, found[1].split(", ")))


_A = GroupActor
_OPERATIONS: Sequence[tuple[float, Step]] = (
    (0.02, _A.pause), (0.03, _A.release), (0.01, _A.reset), (0.03, _A.retry_dead), (0.05, _A.prune),
    (0.02, _A.change_limits),
)  # fmt: skip

_PUTS: dict[Step, int] = {_A.produce: 3, _A.get: 2, _A.ack: 5}
_LOOPS: dict[Step, int] = {_A.produce_many: 2, _A.consume: 3, _A.take_batches: 3, _A.get: 1}
_DEAD: dict[Step, int] = {_A.produce: 2, _A.fail: 6, _A.ack: 1, _A.get: 1, _A.retry_dead: 1}
_OPERATED: dict[Step, int] = {
    _A.produce: 2, _A.get: 2, _A.ack: 2, _A.end_by_token: 2, _A.give_back: 1, _A.pause: 1, _A.release: 1, _A.reset: 1,
    _A.retry_dead: 1, _A.change_limits: 1, _A.fail: 1,
}  # fmt: skip
_RETENTION: dict[Step, int] = {_A.produce: 4, _A.finish_all: 4, _A.ack: 1, _A.prune: 4}
_ALL = {**_PUTS, **_LOOPS, **_OPERATED, **_RETENTION, _A.fail: 3}

SCENARIOS: Mapping[str, Scenario] = {
    "acks": Scenario(_PUTS, 10),
    "loops": Scenario(_LOOPS, 6),
    "dead": Scenario(_DEAD, 12),
    "operator": Scenario(_OPERATED, 10),
    "retention": Scenario(_RETENTION, 8),
    "all": Scenario(_ALL, 10),
}
SHORT_RETENTION = Scenario((_A.produce, _A.finish_all, _A.prune) * 2)
"""For recorded runs: messages are removed soon after they were acknowledged."""
assert set(_PROBABLY_ACKED) == set(ENDS)
