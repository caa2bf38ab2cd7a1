"""Messages that are delayed or expire, and very many of them, in simulated time."""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from binlog import ConsumerGroup, Message, Producer, Reader
from binlog.consumers.state.group_state import GroupState
from binlog.consumers.state.settings import Settings
from binlog.format.consumers.operation import (
    NO_SEAT,
    START_FIRST,
    Delivery,
    Join,
    Kind,
    MessageFacts,
    Operation,
    Section,
    Setting,
    Window,
    group_seed,
    pack_operation,
)
from tests.support.waiting import until

GROUP = "billing"
_HOUR_NS = 3_600 * 10**9


@pytest.mark.slow
def test_a_message_with_a_delay_is_not_delivered_before(tmp_path: Path, figure: Callable[[str], None]) -> None:
    delay = 0.2
    with Producer(tmp_path) as producer, ConsumerGroup(tmp_path, GROUP) as group:
        began = time.monotonic()
        producer.append(b"later", delay=delay)
        producer.append(b"now")
        assert [item.data for item in group.consume(timeout=0) if item.ack() is None] == [b"now"]
        item = group.get(timeout=60)
        waited = time.monotonic() - began
        assert item is not None
        assert (item.data, item.delivery) == (b"later", 1)
        assert waited >= delay
    figure(f"a message with a delay of {delay} s: {waited:.3f} s")


@pytest.mark.parametrize(("count", "limit"), [(3_000, 10), pytest.param(100_000, None, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_messages_with_a_long_delay_do_not_keep_others_from_being_delivered(
    tmp_path: Path, count: int, limit: int | None, figure: Callable[[str], None]
) -> None:
    later = Message(body=b"later", due_ns=time.time_ns() + _HOUR_NS)
    with Producer(tmp_path, mode="flush") as producer:
        for first in range(0, count, 1000):
            producer.append_many([later] * min(1000, count - first))
        producer.append(b"now")
    before = _memory_bytes()
    with ConsumerGroup(tmp_path, GROUP, outstanding_max=limit) as group:
        assert [item.data for item in group.consume(timeout=0) if item.ack() is None] == [b"now"]
        figure(f"{count} messages that wait for an hour: {(_memory_bytes() - before) / count:.0f} bytes of memory each")
        with Producer(tmp_path, mode="flush") as producer:
            producer.append(b"again")
        item = group.get(timeout=60)
        assert item is not None
        assert item.data == b"again"
        item.ack()
        assert group.stat().delayed == group.stat().lag == count
    with ConsumerGroup(tmp_path, GROUP) as group:
        with Producer(tmp_path, mode="flush") as producer:
            producer.append(b"again")
        item = group.get(timeout=60)
        assert item is not None
        assert item.data == b"again"


def _memory_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.parametrize("on_expiry", ["dead-letter", "drop"])
@pytest.mark.parametrize("was_known", [False, True])
@pytest.mark.slow
def test_a_message_that_expired_is_a_dead_letter_or_dropped(tmp_path: Path, on_expiry: str, was_known: bool) -> None:
    """It expires before the group learns of it, or while it waits for its due time."""
    with Producer(tmp_path) as producer, ConsumerGroup(tmp_path, GROUP, on_expiry=on_expiry) as group:
        if was_known:
            producer.append(b"short", delay=0.2, expires=0.25)
            assert group.get(timeout=0) is None
        else:
            producer.append(b"short", expires=0.05)
        producer.append(b"long", expires=3600)
        expiry = time.time() + 0.26
        until(lambda: time.time() > expiry)
        assert [item.data for item in group.consume(timeout=0) if item.ack() is None] == [b"long"]
        stat = group.stat()
        assert (stat.counters.expired, stat.floor) == (1, 2)
        assert stat.counters.dead == (on_expiry == "dead-letter")
    if on_expiry == "dead-letter":
        (letter,) = Reader(tmp_path / "groups" / GROUP / "dead")
        message = Message.parse(letter.data)
        assert (message.body, message.headers["binlog-reason"]) == (b"short", b"expired")


class _Simulation:
    """A group with one member, whose time the test moves."""

    def __init__(self) -> None:
        self._seed = group_seed(b"g" * 16)
        self.state = GroupState(self._seed)
        self.now_ns = 0
        self._numbers = itertools.count()
        self.apply(NO_SEAT, (Kind.SETTINGS, {Setting.START: 0, **Settings(outstanding_max=1 << 20).as_values()}))
        self.apply(0, (Kind.JOIN, Join()))

    def apply(self, seat: int, *sections: Section, want: int = 0) -> list[int]:
        """Apply an operation, and return the sequences that it started."""
        flags = START_FIRST if want else 0
        generation = 0 if seat == NO_SEAT else 1
        operation = Operation(seat, generation, next(self._numbers), self.now_ns, 0, want, flags, list(sections))
        applied = self.state.apply(pack_operation(operation, self._seed))
        assert applied is not None
        assert applied.outcome.counted
        return [each.sequence for each in applied.outcome.assigned]


@pytest.mark.parametrize("count", [5_000, pytest.param(100_000, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_delayed_messages_come_in_the_order_of_their_due_times(count: int) -> None:
    """A member sleeps until the next due time, and finds an item each time it wakes."""
    chance, group = random.Random(33), _Simulation()
    due_ns = [chance.randrange(1, _HOUR_NS) for _ in range(count)]
    for first in range(0, count, 1000):
        facts = tuple(MessageFacts(due_ns=each) for each in due_ns[first : first + 1000])
        group.apply(NO_SEAT, (Kind.WINDOW, Window(first, len(facts), (1, 256), 0, facts)))
    assert group.apply(0, want=1) == []
    found: list[int] = []
    while (next_due_ns := group.state.next_due_ns) is not None:
        group.now_ns = next_due_ns
        (sequence,) = group.apply(0, want=1)
        found.append(sequence)
        assert due_ns[sequence] <= group.now_ns
        assert group.apply(0, (Kind.DONE, [Delivery(sequence, 1)])) == []
    assert found == sorted(range(count), key=due_ns.__getitem__)
    assert group.state.floor == count
