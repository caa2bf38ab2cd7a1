"""The history of a group: who did what when, and its state at a time."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from binlog import GoneError, LeaseLostError, NotFoundError, Writer
from binlog.consumers import ConsumerGroup, Event, GroupControl, Retry, events, stat_group, state_at
from binlog.consumers.inspection.history import clock_offset_ns
from binlog.consumers.state import group_log as log_of_group
from binlog.consumers.state.state_reader import StateReader
from tests.support.group_workers import Worker, idle_count
from tests.support.waiting import until

GROUP = "billing"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with one message, so that a member gets no other."""
    _append(tmp_path, 1)
    return tmp_path


def _append(log: Path, count: int) -> None:
    with Writer(log) as writer:
        writer.append_many([b"message %d" % number for number in range(count)])


def _words(log: Path, item: int | None = 0) -> list[str]:
    return [event.what for event in events(log, GROUP, item=item)]


def _only(log: Path, what: str, item: int | None = 0) -> Event:
    (event,) = [event for event in events(log, GROUP, item=item) if event.what == what]
    return event


def _end_one(group: ConsumerGroup) -> None:
    item = group.get(timeout=60)
    assert item is not None
    item.ack()


def _end_all(group: ConsumerGroup, *, timeout: float = 0.2) -> None:
    for item in group.consume(timeout=timeout):
        item.ack()


@pytest.mark.slow
def test_a_message_that_failed_once_was_delivered_twice(log: Path) -> None:
    with ConsumerGroup(log, GROUP, retry=Retry(first=0)) as group:
        for item in group.consume(timeout=0.2, prefetch=0):
            if item.delivery == 1:
                item.nack(error="no answer")
            else:
                item.ack()
    found = list(events(log, GROUP, item=0))
    assert [event.what for event in found] == ["window", "start", "nack", "start", "ack"]
    assert [event.delivery for event in found] == [None, 1, 1, 2, 2]
    assert found[2].detail == "again at once: no answer"
    assert len({event.seat for event in found}) == 1
    assert [event.place for event in found] == sorted(event.place for event in found)
    assert [event.time_ns for event in found] == sorted(event.time_ns for event in found)


def test_a_message_that_waits_for_a_retry_is_due_later(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group:
        item = group.get()
        assert item is not None
        item.nack(delay=0.05)
        _end_one(group)
    assert _words(log) == ["window", "start", "nack", "due", "start", "ack"]
    assert _only(log, "due").seat is None


@pytest.mark.slow
def test_a_dead_letter_has_its_reason_in_each_step(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group:
        for item in group.consume(timeout=0.2, prefetch=0):
            item.reject("bad amount")
    assert _words(log) == ["window", "start", "reject", "dying", "assign", "dead"]
    assert {_only(log, what).detail for what in ("reject", "dying", "dead")} == {"bad amount"}


@pytest.mark.slow
def test_the_items_of_a_killed_worker_return(log: Path) -> None:
    with Worker(log, GROUP, hangs_at="message 0") as worker:
        worker.until("got", "0")
        worker.kill()
    with ConsumerGroup(log, GROUP) as group:
        _end_all(group)
    found = list(events(log, GROUP))
    (death,) = [event for event in found if event.what == "death"]
    (returned,) = [event for event in found if event.what == "return"]
    (killed,) = [event for event in found if event.what == "start" and event.delivery == 1]
    assert death.seat == returned.seat == killed.seat
    assert (returned.sequence, returned.delivery, returned.detail) == (0, 1, "its member died")
    assert _words(log) == ["window", "start", "return", "start", "ack"]


def test_the_items_of_a_member_that_leaves_return(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group:
        assert group.get() is not None
    assert _only(log, "return").detail == "its member left"


def test_a_lease_that_ended_returns_the_item(log: Path) -> None:
    with ConsumerGroup(log, GROUP, lease=0.05) as group, ConsumerGroup(log, GROUP) as other:
        item = group.get()
        assert item is not None
        _end_one(other)
        with pytest.raises(LeaseLostError):
            item.ack()
    assert _words(log) == ["window", "start", "return", "start", "ack", "refuse"]
    assert _only(log, "return").detail == "its lease ended"


def test_what_an_operator_does_has_no_seat(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group:
        item = group.get()
        assert item is not None
        item.nack(delay=3600)
    with GroupControl(log, GROUP) as control:
        control.pause()
        control.resume()
        control.retry_now()
        control.set(in_hand_max=7)
        control.reset(0)
    found = [event for event in events(log, GROUP) if event.seat is None]
    wanted = ["create", "pause", "resume", "again", "set", "reset"]
    assert [event.what for event in found if event.what in wanted] == wanted
    assert _only(log, "set", None).detail == "in_hand_max 7"
    assert _words(log)[-2:] == ["again", "reset"]


@pytest.mark.slow
def test_a_member_joins_with_a_hint_and_leaves(log: Path) -> None:
    with ConsumerGroup(log, GROUP, lease=2) as group:
        _end_all(group)
    assert _only(log, "join", None).detail.startswith("pid ")
    assert _only(log, "join", None).detail.endswith("lease 2.000 s")
    words = _words(log, None)
    assert words[:3] == ["create", "boot", "join"]
    assert words[-1] == "leave"


@pytest.mark.slow
def test_events_are_about_one_message_only(tmp_path: Path) -> None:
    _append(tmp_path, 5)
    with ConsumerGroup(tmp_path, GROUP) as group:
        _end_all(group)
    for sequence in range(5):
        found = list(events(tmp_path, GROUP, item=sequence))
        assert {event.sequence for event in found} == {sequence}
        assert found[-1].what == "ack"


def _recorded(log: Path) -> tuple[int, bytes]:
    reader = StateReader.open(str(log / "groups" / GROUP))
    reader.close()
    return reader.state.clock_ns, reader.state.pack()


def _do_something(group: ConsumerGroup, log: Path, chance: random.Random) -> None:
    _append(log, chance.randrange(4))
    for item in group.consume(timeout=0, prefetch=chance.randrange(3)):
        match chance.randrange(5):
            case 0:
                item.nack(delay=chance.random() / 100, error="again")
            case 1:
                item.reject("never")
            case 2:
                item.back()
                break
            case _:
                item.ack()


@pytest.mark.slow
def test_the_state_at_a_time_is_the_one_that_a_process_had_then(log: Path) -> None:
    chance, moments = random.Random(53), list[tuple[int, bytes]]()
    with ConsumerGroup(log, GROUP, retry=Retry(deliveries_max=2)) as group:
        while len(moments) < 20:
            _do_something(group, log, chance)
            moments.append(_recorded(log))
    assert len({data for _, data in moments}) > 10
    for time_ns, data in moments:
        assert state_at(log, GROUP, time_ns).pack() == data


@pytest.mark.slow
def test_the_state_at_a_time_is_that_of_workers_in_other_processes(tmp_path: Path) -> None:
    moments = []
    _append(tmp_path, 1)
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(Worker(tmp_path, GROUP))
        for count in range(1, 21):
            until(lambda: stat_group(tmp_path, GROUP).floor == count and idle_count(tmp_path, GROUP) == 2)  # noqa: B023
            moments.append(_recorded(tmp_path))
            _append(tmp_path, 1)
    for time_ns, data in moments:
        assert state_at(tmp_path, GROUP, time_ns).pack() == data


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a group's log have small files, and remove old ones."""
    monkeypatch.setattr(log_of_group, "_FILE_BYTES", 4096)
    monkeypatch.setattr(log_of_group, "_HISTORY_BYTES", 4096)


@pytest.mark.slow
@pytest.mark.usefixtures("small_files")
def test_a_history_begins_with_the_oldest_checkpoint(log: Path) -> None:
    moments = []
    with ConsumerGroup(log, GROUP) as group:
        for _ in range(200):
            _append(log, 1)
            _end_all(group, timeout=0)
            moments.append(_recorded(log))
    names = sorted(path.name for path in (log / "groups" / GROUP).glob("*.dat"))
    assert names[0] > "00000002.dat"
    found = list(events(log, GROUP))
    assert "create" not in {event.what for event in found}
    assert [event.what for event in found][-2:] == ["return", "leave"] or found[-1].what == "leave"
    known = [(time_ns, data) for time_ns, data in moments if time_ns >= found[0].time_ns]
    assert 10 < len(known) < 200
    for time_ns, data in known:
        assert state_at(log, GROUP, time_ns).pack() == data
    with pytest.raises(GoneError, match="were removed"):
        state_at(log, GROUP, moments[0][0])


def test_a_group_that_does_not_exist_has_no_history(log: Path) -> None:
    with pytest.raises(NotFoundError, match="no consumer group 'other'"):
        events(log, "other")
    with pytest.raises(NotFoundError, match="no consumer group 'other'"):
        state_at(log, "other", 0)


@pytest.mark.slow
def test_a_group_did_not_exist_before_it_was_created(log: Path) -> None:
    before_ns = time.time_ns() - 10**9
    ConsumerGroup(log, GROUP).close()
    with pytest.raises(NotFoundError, match="did not exist then"):
        state_at(log, GROUP, before_ns)
    with ConsumerGroup(log, GROUP) as group:
        _end_all(group)
    with pytest.raises(NotFoundError, match="did not exist then"):
        state_at(log, GROUP, before_ns)
    assert state_at(log, GROUP, time.time_ns() + 10**12).floor == 1


@pytest.mark.slow
def test_group_time_follows_the_wall_clock_at_first(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group:
        _end_all(group)
    reader = StateReader.open(str(log / "groups" / GROUP))
    reader.close()
    assert abs(clock_offset_ns(reader.state)) < 3600 * 10**9


def _iterate(found: Iterator[Event]) -> int:
    return sum(1 for _ in found)


@pytest.mark.slow
@pytest.mark.usefixtures("small_files")
def test_a_file_that_is_removed_meanwhile_ends_the_iteration(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group:
        _end_all(group)
        found = events(log, GROUP)
        next(found)
        for _ in range(400):
            _append(log, 1)
            _end_all(group, timeout=0)
    with pytest.raises(GoneError):
        _iterate(found)
