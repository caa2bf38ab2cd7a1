"""Idle members: no more of them wake than there are messages, and none is needed for the others to continue."""

from __future__ import annotations

import os
import random
import shutil
import signal
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from binlog import ConsumerGroup, Reader, Writer
from binlog.consumers import stat_group
from binlog.consumers.members import member
from binlog.log.read import cursor
from tests.support.commanded_workers import CommandedWorker
from tests.support.group_workers import IDLE_AT, WorkerPool, listener, pid_of, stop_process, until_idle
from tests.support.waiting import until

GROUP = "billing"


def _append(log: Path, *bodies: str) -> None:
    with Writer(log) as writer:
        writer.append_many([body.encode() for body in bodies])


def test_if_the_listener_is_stopped_another_idle_member_has_the_message(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    waits_ms = []
    _append(tmp_path, "first")
    with Writer(tmp_path) as writer, WorkerPool(tmp_path, GROUP, prefetch=0) as pool:
        pool.start(3)
        pool.until("acked", "0")
        for number in range(1, 8):
            until_idle(tmp_path, GROUP, 3)
            stopped = pid_of(stat_group(tmp_path, GROUP), listener(tmp_path, GROUP))
            stop_process(stopped)
            appended_ns = time.monotonic_ns()
            writer.append(b"next")
            got = pool.until("got", str(number))
            assert (pool.pids[got.label] != stopped, got.words[2]) == (True, "1")
            waits_ms.append((int(got.words[3]) - appended_ns) / 1e6)
            pool.until("acked", str(number))
            os.kill(stopped, signal.SIGCONT)
    figure(
        f"a new message while the listener is stopped: median {statistics.median(waits_ms):.1f} ms, "
        f"most {max(waits_ms):.1f} ms"
    )


def _switches(pid: int) -> int:
    """Return how often the main thread of a process has begun to wait."""
    lines = Path(f"/proc/{pid}/task/{pid}/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("voluntary_ctxt_switches"))
    return int(line.split()[1])


def test_one_message_wakes_two_of_32_idle_members_at_most(tmp_path: Path, figure: Callable[[str], None]) -> None:
    """The median of some rounds, because each idle member wakes every few seconds, too."""
    woken = []
    _append(tmp_path, "first")
    with Writer(tmp_path) as writer, WorkerPool(tmp_path, GROUP, prefetch=0) as pool:
        pool.start(32)
        pool.until("acked", "0")
        for number in range(1, 10):
            until_idle(tmp_path, GROUP, 32)
            before = {pid: _switches(pid) for pid in pool.pids.values()}
            writer.append(b"next")
            pool.until("acked", str(number))
            until_idle(tmp_path, GROUP, 32)
            woken.append(sum(_switches(pid) != count for pid, count in before.items()))
        pool.end()
    assert statistics.median(woken) <= 2
    figure(f"one message, 32 idle members: {sorted(woken)} of them woke")


def test_32_messages_wake_32_idle_members(tmp_path: Path, figure: Callable[[str], None]) -> None:
    go = tmp_path / "go"
    log = tmp_path / "log"
    _append(log, *["next"] * 32)
    with Writer(log) as writer, WorkerPool(log, GROUP, waits_for=str(go)) as pool:
        go.touch()
        pool.start(32)
        for _ in range(32):
            pool.until("acked")
        until_idle(log, GROUP, 32)
        go.unlink()
        appended_ns = time.monotonic_ns()
        writer.append_many([b"next"] * 32)
        got = [pool.until("got") for _ in range(32)]
        assert {said.label for said in got} == set(pool.pids)
        go.touch()
        pool.work_until_done(64, workers=32)
    assert sorted(pool.sequences("acked")) == list(range(64))
    figure(f"32 messages: 32 idle members had one each after {(int(got[-1].words[3]) - appended_ns) / 1e6:.0f} ms")


def _remove_wakeups(folder: Path) -> None:
    (folder / "wakeups").unlink()


def _truncate_wakeups(folder: Path) -> None:
    os.truncate(folder / "wakeups", 0)


def _overwrite_wakeups(folder: Path) -> None:
    with open(folder / "wakeups", "r+b") as file:
        file.write(random.randbytes(4096))


def _remove_members(folder: Path) -> None:
    shutil.rmtree(folder / "members")


@pytest.mark.parametrize(
    "damage",
    [_remove_wakeups, _truncate_wakeups, _overwrite_wakeups, pytest.param(_remove_members, marks=pytest.mark.turn(0))],
)
def test_damage_to_the_files_that_only_help_loses_nothing(
    tmp_path: Path, damage: Callable[[Path], None], figure: Callable[[str], None]
) -> None:
    """A member that joins later, a message, and a death after it, are noticed: late at worst."""
    _append(tmp_path, "0", "1")
    with CommandedWorker(tmp_path, GROUP) as victim, CommandedWorker(tmp_path, GROUP) as idle:
        assert victim.do("get", 10) == [0, 1]
        assert idle.do("get", 10) == [1, 1]
        assert idle.do("ack", 1) is None
        idle.begin("get", 60)
        until_idle(tmp_path, GROUP, 1)
        damage(tmp_path / "groups" / GROUP)
        began = time.monotonic()
        with CommandedWorker(tmp_path, GROUP) as later:
            _append(tmp_path, "2")
            assert idle.answer() == [2, 1]
            seconds = time.monotonic() - began
            idle.begin("get", 60)
            assert later.do("get", 0) is None
            began = time.monotonic()
            victim.kill()
            later.begin("get", 60)
            until(lambda: stat_group(tmp_path, GROUP).counters.started == 4)
            death_seconds = time.monotonic() - began
            assert stat_group(tmp_path, GROUP).counters.died == 1
            later.kill()
    stat = stat_group(tmp_path, GROUP)
    assert (stat.counters.done, stat.floor) == (1, 0), "nothing is done that was not acknowledged"
    name = damage.__name__.strip("_").replace("_", " ")
    figure(f"{name}: a message after {seconds:.3f} s, the item of a killed member after {death_seconds:.3f} s")


def test_a_member_whose_waker_died_before_its_futex_call_is_woken_by_that_death(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (member, cursor):
        monkeypatch.setattr(module, "_WAIT_SECONDS_MAX", 3600.0)
    _append(tmp_path, "0")
    with (
        CommandedWorker(tmp_path, GROUP) as waker,
        ThreadPoolExecutor(1) as thread,
        ConsumerGroup(tmp_path, GROUP) as idle,
    ):
        assert waker.do("get", 10) == [0, 1]
        got = thread.submit(idle.get, None)
        until_idle(tmp_path, GROUP, 1)
        with open(tmp_path / "groups" / GROUP / "wakeups", "r+b") as wakeups:
            os.pwrite(wakeups.fileno(), bytes(256), IDLE_AT)  # as far as the waker came
        waker.kill()
        item = got.result(30)
        assert item is not None
        item.ack()


def _operation_count(log: Path) -> int:
    with Reader(log / "groups" / GROUP) as operations:
        return sum(1 for _ in operations)


@pytest.mark.parametrize("limit", [{"in_hand_max": 1}, {"outstanding_max": 1}], ids=lambda limit: next(iter(limit)))
def test_idle_members_of_a_group_at_its_limit_do_not_ask_again_and_again(tmp_path: Path, limit: dict[str, int]) -> None:
    _append(tmp_path, *map(str, range(10)))
    with CommandedWorker(tmp_path, GROUP, **limit) as busy:
        assert busy.do("get", 10) == [0, 1]
        with ExitStack() as stack:
            idle = [stack.enter_context(CommandedWorker(tmp_path, GROUP)) for _ in range(3)]
            for worker in idle:
                worker.begin("get", 1)
            assert [worker.answer() for worker in idle] == [None] * 3
            assert _operation_count(tmp_path) < 50
            idle[0].begin("get", 60)
            until_idle(tmp_path, GROUP, 1)
            assert busy.do("ack", 0) is None
            assert idle[0].answer() == [1, 1]
