"""Consumer groups of several processes: each message goes to one, and a death returns its items at once."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

from binlog import Reader, Writer
from binlog.consumers.group import ConsumerGroup, Retry
from binlog.consumers.inspection.stat import stat_group
from binlog.format.consumers.message import Message
from tests.support.group_workers import IDLE_AT, Worker, WorkerPool, idle_count
from tests.support.waiting import until

GROUP = "billing"


def _append(log: Path, *bodies: str) -> None:
    with Writer(log) as writer:
        writer.append_many([body.encode() for body in bodies])


def _has_idle_member(log: Path) -> bool:
    """Whether a living member is idle; others may have died while they were."""
    idle = (log / "groups" / GROUP / "wakeups").read_bytes()[IDLE_AT:]
    return any(idle[member.seat] for member in stat_group(log, GROUP).members)


def test_each_message_goes_to_one_of_the_workers(tmp_path: Path) -> None:
    count, log, go = 400, tmp_path / "log", tmp_path / "go"
    _append(log, *map(str, range(count)))
    with WorkerPool(log, GROUP, waits_for=str(go)) as pool:
        labels = pool.start(4)
        for _ in labels:
            pool.until("got")  # each worker has one now
        go.touch()
        pool.work_until_done(count, 4)
    assert sorted(pool.sequences("got")) == list(range(count))
    assert {said.label for said in pool.reports("got")} == set(labels)


def test_two_groups_get_all_messages(tmp_path: Path) -> None:
    _append(tmp_path, "one", "two")
    for name in ("first", "second"):
        with ConsumerGroup(tmp_path, name) as group:
            assert [item.data for item in group.consume(timeout=0.1) if item.ack() is None] == [b"one", b"two"]


def test_what_a_killed_worker_had_in_hand_is_delivered_at_once(tmp_path: Path, figure: Callable[[str], None]) -> None:
    waits_ms = []
    for number in range(10):
        _append(tmp_path, f"slow {number}")
        with Worker(tmp_path, GROUP, hangs_at=f"slow {number}") as victim:
            victim.until("got", str(number))
            with Worker(tmp_path, GROUP) as other:
                until(lambda: _has_idle_member(tmp_path))
                killed_ns = victim.kill()
                _, sequence, delivery, got_ns = other.until("got")
                assert (sequence, delivery) == (str(number), "2")
                other.until("acked", str(number))
        waits_ms.append((int(got_ns) - killed_ns) / 1e6)
    figure(f"killed worker to another one: median {statistics.median(waits_ms):.1f} ms, most {max(waits_ms):.1f} ms")


def test_if_all_members_are_killed_the_next_one_has_their_items_at_once(tmp_path: Path) -> None:
    _append(tmp_path, "before")
    with Worker(tmp_path, GROUP, hangs_at="a") as one, Worker(tmp_path, GROUP, hangs_at="a") as two:
        until(lambda: idle_count(tmp_path, GROUP) == 2)
        _append(tmp_path, "a", "a")
        until(lambda: stat_group(tmp_path, GROUP).counters.started == 3)
        one.kill()
        two.kill()
    with ConsumerGroup(tmp_path, GROUP) as group:
        found = []
        for item in group.consume(timeout=2):
            found.append((item.data, item.delivery))
            item.ack()
    assert sorted(found) == [(b"a", 2), (b"a", 2)]


def test_a_message_that_kills_its_workers_becomes_a_dead_letter(tmp_path: Path) -> None:
    _append(tmp_path, "poison", "fine")
    for _ in range(3):
        with Worker(tmp_path, GROUP, hangs_at="poison") as worker:
            worker.until("got", "0")
            worker.kill()
    with ConsumerGroup(tmp_path, GROUP, retry=Retry(deliveries_max=3, first=0.01)) as group:
        # Before its last delivery the poison waited, and a worker may have handled the other message meanwhile.
        assert {item.data for item in group.consume(timeout=0.5) if item.ack() is None} <= {b"fine"}
        assert group._opened._joined().state.floor == 2
    (letter,) = Reader(tmp_path / "groups" / GROUP / "dead")
    message = Message.parse(letter.data)
    assert message.body == b"poison"
    assert message.headers["binlog-deliveries"] == b"3"
    assert message.headers["binlog-reason"] == b"worker died"


def test_an_idle_worker_gets_a_new_message_without_polling(tmp_path: Path) -> None:
    _append(tmp_path, "first")
    with Worker(tmp_path, GROUP) as worker:
        worker.until("acked", "0")
        until(lambda: idle_count(tmp_path, GROUP) == 1)
        before_ns = time.monotonic_ns()
        _append(tmp_path, "second")
        got = worker.until("got", "1")
        assert int(got[3]) > before_ns
        worker.until("acked", "1")
