"""binlog's consumer groups: workers that claim and acknowledge messages of a log."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import binlog
from binlog import ConsumerGroup
from stress.bench.measuring import Prepare, preparing
from stress.bench.peers.claim_work import Claims, claim_loop, claim_many_loop, parts
from stress.bench.processes import Loop

NAME = "group"
WAIT_SECONDS_MAX = 60.0
"""Longer than a worker waits for a message that exists."""


def log_of(directory: Path) -> Path:
    """Return the log in the directory of a measurement."""
    return directory / "log"


def claiming(mode: binlog.Mode, count: int) -> Prepare:
    """Take and acknowledge one message after another in `ConsumerGroup.consume`.  count: messages that wait."""
    return _working(mode, count, lambda group: claim_loop(_claims(group)))


def claiming_many(mode: binlog.Mode, count: int, messages: int) -> Prepare:
    """Take and acknowledge batches of messages in `ConsumerGroup.batches`.  count: messages that wait."""
    return _working(mode, count, lambda group: claim_many_loop(_claims_of_many(group, messages)))


def _working(mode: binlog.Mode, count: int, loop: Callable[[ConsumerGroup], Loop]) -> Prepare:
    def joined(group: ConsumerGroup) -> Loop:
        join(group)
        return loop(group)

    return preparing(
        lambda directory: ConsumerGroup(log_of(directory), NAME, mode=mode),
        joined,
        make=lambda directory: fill(log_of(directory), count),
        stored=_acknowledged,
    )


def join(group: ConsumerGroup) -> None:
    """Take a seat of the group, with one of the messages that wait, and give the message back."""
    item = group.get(timeout=WAIT_SECONDS_MAX)
    assert item is not None
    item.back()


def fill(log: Path, count: int) -> None:
    """Append this number of messages to a log, durably."""
    with binlog.Writer(log) as writer:
        for messages in parts(count):
            writer.append_many(messages)


def _acknowledged(directory: Path) -> int:
    with ConsumerGroup(log_of(directory), NAME, create=False) as group:
        return group.stat().counters.done


def _claims(group: ConsumerGroup) -> Claims:
    items = iter(group.consume(timeout=0))

    def take() -> int:
        nonlocal items
        item = next(items, None)
        if item is None:  # the loop has ended, because no message waits
            items = iter(group.consume(timeout=0))
            return 0
        item.ack()
        return 1

    return Claims(take, partial(_append, group))


def _claims_of_many(group: ConsumerGroup, messages: int) -> Claims:
    batches = group.batches(messages, timeout=0)

    def take() -> int:
        nonlocal batches
        batch = next(batches, None)
        if batch is None:
            batches = group.batches(messages, timeout=0)
            return 0
        with batch:
            return len(batch)

    return Claims(take, partial(_append, group))


def _append(group: ConsumerGroup, messages: list[bytes]) -> None:
    with binlog.Writer(group.path) as writer:
        writer.append_many(messages)
