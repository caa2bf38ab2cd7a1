"""Threads that share a group: what one of them does while another one is in the middle of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from binlog import ConsumerGroup, LeaseLostError, Start, Writer
from binlog.consumers.members.message_source import MessageSource
from binlog.consumers.state.clock import GroupClock
from binlog.consumers.state.group_log import GroupLog
from binlog.consumers.state.group_state import Outcome
from binlog.consumers.state.settings import Settings
from binlog.consumers.state.state_reader import StateReader
from binlog.format.consumers.operation import Join, Kind
from tests.support.interruptions import just_before

GROUP = "billing"
_APPEND_SECONDS = 0.5


@pytest.fixture
def log(tmp_path: Path) -> Iterator[GroupLog]:
    log = GroupLog.open(str(tmp_path), GroupClock())
    log.set_up(Settings(), 0)
    yield log
    log.close()


@pytest.mark.slow
def test_an_item_that_a_reset_took_during_get_acknowledges_no_later_delivery(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        writer.append_many([b"first", b"second"])
    with ConsumerGroup(tmp_path, GROUP) as group, ConsumerGroup(tmp_path, GROUP) as other:
        first = group.get(timeout=0)
        assert first is not None

        def reset() -> None:
            other.reset(Start.BEGINNING)
            with ThreadPoolExecutor(1) as pool, pytest.raises(LeaseLostError):
                pool.submit(first.extend, 1).result()  # so this process knows of the reset

        with just_before(MessageSource.read, reset):
            late = group.get(timeout=0)
        assert late is not None
        again = {item.sequence: item for item in (other.get(timeout=0), other.get(timeout=0)) if item is not None}
        assert sorted(again) == [0, 1]
        with pytest.raises(LeaseLostError):
            late.ack()
        again[late.sequence].ack()


def _append_during_catch_up(log: GroupLog, append: Callable[[], Outcome | None]) -> Outcome | None:
    """Let a thread append an operation after another one has begun to apply, and before it has read."""
    with ThreadPoolExecutor(1) as pool:
        appending: list[Future[Outcome | None]] = []

        def begin() -> None:
            appending.append(pool.submit(append))
            wait(appending, timeout=_APPEND_SECONDS)  # it cannot end before this thread has applied

        with just_before(StateReader.advance, begin):
            log.catch_up()
        return appending[0].result()


@pytest.mark.slow
def test_a_thread_that_reads_knows_the_outcome_of_an_operation_of_no_member(log: GroupLog) -> None:
    outcome = _append_during_catch_up(log, lambda: log.submit([(Kind.PAUSE, None)], anonymous=True))
    assert outcome is not None
    assert outcome.counted
    assert log.state.is_paused


@pytest.mark.slow
def test_a_member_joins_while_another_thread_reads(log: GroupLog) -> None:
    _append_during_catch_up(log, lambda: log.join(3, Join(0, "me")))
    assert log.state.seats[3].generation == log.generation
