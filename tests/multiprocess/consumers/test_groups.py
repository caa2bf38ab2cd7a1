"""Many workers of a group, beside another group, retention and archives; and a group that is deleted meanwhile."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from binlog import ConsumerGroup, Writer, archive, check, prune
from binlog.consumers import stat_group
from tests.support.commanded_workers import CommandedWorker
from tests.support.group_workers import WorkerPool, until_idle

GROUP = "billing"


def _append(log: Path, count: int) -> None:
    with Writer(log) as writer:
        writer.append_many([b"%d" % number for number in range(count)])


@pytest.mark.parametrize("count", [2_000, pytest.param(100_000, marks=pytest.mark.install)])
def test_four_workers_handle_each_message_once(tmp_path: Path, count: int, figure: Callable[[str], None]) -> None:
    _append(tmp_path, count)
    with WorkerPool(tmp_path, GROUP) as pool:
        began = time.monotonic()
        pool.start(4)
        while len(list(pool.reports("acked"))) < count:
            for _ in range(count // 20):
                pool.until("acked")
        seconds = time.monotonic() - began
        pool.end()
    got = [(int(said.words[1]), int(said.words[2])) for said in pool.reports("got")]
    assert sorted(got) == [(sequence, 1) for sequence in range(count)]
    assert sorted(pool.sequences("acked")) == list(range(count))
    assert all(any(said.label == label for said in pool.reports("acked")) for label in pool.pids)
    figure(f"4 workers: {count / seconds:.0f} durable acknowledgements/s")


def test_a_group_does_not_wait_for_another_one(tmp_path: Path) -> None:
    _append(tmp_path, 20)
    with CommandedWorker(tmp_path, "slow") as slow:
        assert slow.do("get", 10) == [0, 1]
        slow.stop()
        with ConsumerGroup(tmp_path, "fast") as fast:
            items = fast.consume(timeout=0)
            assert [item.sequence for item in items if item.ack() is None] == list(range(20))
        slow.resume()
        assert slow.do("ack", 0) is None
        assert slow.do("get", 10) == [1, 1]
    assert [stat_group(tmp_path, name).floor for name in ("slow", "fast")] == [1, 20]


def test_retention_and_archives_take_no_message_from_workers_that_are_killed(tmp_path: Path) -> None:
    chance, count = random.SystemRandom(), 400
    with Writer(tmp_path) as writer, WorkerPool(tmp_path, GROUP) as pool:
        pool.start(3)
        appended, kill_at = 0, time.monotonic() + 0.2

        def append_and_remove() -> None:
            nonlocal appended, kill_at
            if appended < count:
                writer.append_many([b"%d" % number for number in range(appended, appended + 20)])
                appended += 20
                writer.cutover()
            archive(tmp_path, keep_last=1)
            prune(tmp_path, consumed=True)
            if time.monotonic() >= kill_at:
                kill_at = time.monotonic() + chance.uniform(0, 0.3)
                with suppress(ProcessLookupError):
                    os.kill(pool.pids[chance.choice(pool.living)], signal.SIGKILL)

        pool.work_until_done(count, workers=3, meanwhile=append_and_remove)
        prune(tmp_path, consumed=True)
        assert len(list(tmp_path.glob("*.dat*"))) <= 2
    assert set(pool.sequences("got")) == set(range(count))
    acked = pool.sequences("acked")
    assert len(acked) == len(set(acked))
    assert stat_group(tmp_path, GROUP).counters.done == count
    assert check(tmp_path) == []


def test_members_of_a_deleted_group_learn_it_and_write_nothing_more(tmp_path: Path) -> None:
    _append(tmp_path, 2)
    file = tmp_path / "groups" / GROUP / "00000001.dat"
    with CommandedWorker(tmp_path, GROUP) as busy, CommandedWorker(tmp_path, GROUP) as idle:
        assert busy.do("get", 10) == [0, 1]
        assert idle.do("get", 10) == [1, 1]
        assert idle.do("ack", 1) is None
        idle.begin("get", 60)
        until_idle(tmp_path, GROUP, 1)
        with open(file, "rb") as removed, ConsumerGroup(tmp_path, GROUP) as group:
            group.delete()
            assert idle.answer()["error"] == "GoneError"
            before = removed.read()
            assert busy.error("ack", 0) == "GoneError"
            assert busy.error("get", 0) == "GoneError"
            with ConsumerGroup(tmp_path, GROUP) as another:
                assert [item.delivery for item in another.consume(timeout=0) if item.ack() is None] == [1, 1]
            for each in (busy, idle):
                assert each.error("get", 0) == "GoneError"
                assert each.do("close") is None
            removed.seek(0)
            assert removed.read() == before
