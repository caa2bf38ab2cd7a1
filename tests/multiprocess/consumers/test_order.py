"""Order among messages with the same key, and members that share the work of many keys."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from binlog import ConsumerGroup, Message, Producer, Sequence
from binlog.consumers import stat_group
from tests.support.group_workers import WorkerPool

GROUP = "billing"


def _produce(log: Path, keys: list[bytes], bodies: dict[int, bytes] | None = None) -> None:
    """Append a message for each key; `bodies` gives those that are not `x`, by their place."""
    with Producer(log) as producer:
        producer.append_many([Message(body=(bodies or {}).get(place, b"x"), key=key) for place, key in enumerate(keys)])


@pytest.mark.parametrize(
    ("key_count", "message_count", "workers"),
    [(20, 300, 4), pytest.param(100, 10_000, 8, marks=pytest.mark.install)],
)
def test_with_failures_and_kills_the_messages_of_a_key_start_in_order(
    tmp_path: Path, key_count: int, message_count: int, workers: int
) -> None:
    chance = random.SystemRandom()
    keys = [b"%d" % chance.randrange(key_count) for _ in range(message_count)]
    _produce(tmp_path, keys, {message_count // 2: b"hangs"})
    options = {"retry": {"deliveries_max": None, "first": 0.005, "most": 0.02}, "group": {"order": "strict"}}
    # The work does not end before the worker that has this message is killed, so that at least one dies with an item.
    with WorkerPool(tmp_path, GROUP, fails=0.1, hangs_at="hangs", **options) as pool:
        kill_at = time.monotonic()

        def kill_one() -> None:
            nonlocal kill_at
            if time.monotonic() >= kill_at:
                kill_at = time.monotonic() + chance.uniform(0, 0.2)
                with suppress(ProcessLookupError):
                    os.kill(pool.pids[chance.choice(pool.living)], signal.SIGKILL)

        pool.work_until_done(message_count, workers, meanwhile=kill_one)
    # A worker reports a start before it acknowledges, and the next message of the key starts after that.
    started: dict[bytes, int] = {}
    for sequence in pool.sequences("got"):
        key = keys[sequence]
        assert started.get(key, -1) <= sequence
        started[key] = sequence
    acked = pool.sequences("acked")
    assert len(acked) == len(set(acked))
    counters = stat_group(tmp_path, GROUP).counters
    assert (counters.done, counters.dead) == (message_count, 0)
    assert counters.died > 0
    assert counters.failed > 0


def _drain(group: ConsumerGroup, expected: range) -> float:
    """Acknowledge all items, which are the expected ones; return how many a second, from the first one on."""
    found, began = [], 0.0
    for item in group.consume(timeout=0):
        began = began or time.monotonic()
        found.append(item.sequence)
        item.ack()
    assert found == list(expected)
    return len(expected) / (time.monotonic() - began)


def test_a_key_with_many_waiting_messages_blocks_no_other(tmp_path: Path, figure: Callable[[str], None]) -> None:
    hot, others = 5_000, 999
    keys = [b"hot"] * hot + [b"%d" % number for number in range(others)]
    _produce(tmp_path, keys)
    with ConsumerGroup(tmp_path, "without", start=Sequence(hot), mode="flush") as group:
        rate_without = _drain(group, range(hot, hot + others))
    with ConsumerGroup(tmp_path, "with", order="strict", mode="flush") as group:
        first = group.get(timeout=10)
        assert first is not None
        rate_with = _drain(group, range(hot, hot + others))
        assert (group.stat().floor, group.stat().blocked) == (0, hot - 1)
        first.ack()
        second = group.get(timeout=10)
        assert second is not None
        assert second.sequence == 1
    figure(f"{hot} messages of one key wait: {rate_with:.0f} messages/s of other keys, {rate_without:.0f} without them")


@pytest.mark.parametrize(("order", "found"), [("strict", [2, 4]), ("relaxed", [1, 2, 3, 4]), ("none", [1, 2, 3, 4])])
def test_a_message_that_waits_for_a_retry_lets_later_ones_pass_if_the_order_is_relaxed(
    tmp_path: Path, order: str, found: list[int]
) -> None:
    _produce(tmp_path, [b"a", b"a", b"b", b"a", b"b"])
    with ConsumerGroup(tmp_path, GROUP, order=order) as group:
        first = group.get(timeout=10)
        assert first is not None
        first.nack(delay=3600)
        assert [item.sequence for item in group.consume(timeout=0) if item.ack() is None] == found


@pytest.mark.parametrize("order", ["strict", "relaxed"])
def test_two_messages_of_a_key_are_never_in_hand_together(tmp_path: Path, order: str) -> None:
    _produce(tmp_path, [b"a", b"a", b"b"])
    with ConsumerGroup(tmp_path, GROUP, order=order) as one, ConsumerGroup(tmp_path, GROUP) as two:
        first, other = one.get(timeout=10), two.get(timeout=10)
        assert first is not None
        assert other is not None
        assert (first.sequence, other.sequence) == (0, 2)
        assert two.get(timeout=0) is None
        first.ack()
        second = two.get(timeout=10)
        assert second is not None
        assert second.sequence == 1
