"""Workers that are killed, and messages that kill them: others have the items at once, and none is lost."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from binlog import Message, Reader, Writer
from binlog.consumers import stat_group
from tests.support.checkout import ROOT
from tests.support.commanded_workers import CommandedWorker
from tests.support.group_workers import WorkerPool, until_idle
from tests.support.waiting import until

GROUP = "billing"


def _append(log: Path, *bodies: str) -> None:
    with Writer(log) as writer:
        writer.append_many([body.encode() for body in bodies])


@pytest.mark.parametrize("kills", [15, pytest.param(1000, marks=pytest.mark.install)])
def test_no_item_of_a_killed_worker_is_lost(tmp_path: Path, figure: Callable[[str], None], kills: int) -> None:
    waits_ms = []
    with Writer(tmp_path) as writer, WorkerPool(tmp_path, GROUP, hangs_at="slow", prefetch=0) as pool:
        pool.start(3)
        for number in range(kills):
            until_idle(tmp_path, GROUP, 3)
            writer.append(b"slow")
            victim = pool.until("got", str(number), "1").label
            killed_ns = pool.kill(victim)
            taken = pool.until("got", str(number))
            assert (taken.words[2], taken.label != victim) == ("2", True)
            waits_ms.append((int(taken.words[3]) - killed_ns) / 1e6)
            pool.until("acked", str(number))
            pool.start(1)
        pool.end()
    assert pool.sequences("acked") == list(range(kills))
    assert stat_group(tmp_path, GROUP).counters.died == kills
    waits_ms.sort()
    figure(
        f"{kills} killed workers to other ones: median {statistics.median(waits_ms):.1f} ms, "
        f"99 % within {waits_ms[len(waits_ms) * 99 // 100]:.1f} ms"
    )


def test_if_all_others_are_busy_it_is_the_next_item_that_one_of_them_gets(tmp_path: Path) -> None:
    _append(tmp_path, "0", "1", "2")
    with CommandedWorker(tmp_path, GROUP) as victim, CommandedWorker(tmp_path, GROUP) as busy:
        assert victim.do("get", 10) == [0, 1]
        assert busy.do("get", 10) == [1, 1]
        victim.kill()
        until(lambda: stat_group(tmp_path, GROUP).counters.died == 1)
        assert busy.do("ack", 1) is None
        assert busy.do("get", 10) == [0, 2]
        assert busy.do("ack", 0) is None
        assert busy.do("get", 10) == [2, 1]


_LOCK = """
import os, sys
from binlog.storage.locking.locks import try_lock

fd = os.open(sys.argv[1], os.O_RDWR | os.O_NONBLOCK)
print("open", flush=True)
while not try_lock(fd):
    pass
print("locked", flush=True)
sys.stdin.read()
"""


def test_if_the_process_that_noticed_a_death_dies_another_one_records_it(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    """The first one has locked the dead member's seat, and has not recorded the death."""
    _append(tmp_path, "0")
    with CommandedWorker(tmp_path, GROUP) as victim, CommandedWorker(tmp_path, GROUP) as other:
        assert victim.do("get", 10) == [0, 1]
        (seat,) = (member.seat for member in stat_group(tmp_path, GROUP).members)
        other.begin("get", 60)
        until_idle(tmp_path, GROUP, 1)
        other.stop()
        command = [sys.executable, "-c", _LOCK, str(tmp_path / "groups" / GROUP / "members" / f"{seat:02x}")]
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
            assert first.stdout is not None
            assert first.stdout.readline() == "open\n"
            victim.kill()
            assert first.stdout.readline() == "locked\n"
            other.resume()
            assert stat_group(tmp_path, GROUP).counters.died == 0
            began_ns = time.monotonic_ns()
            first.kill()
            assert other.answer() == [0, 2]
    figure(f"a reaper died, and another one had the item: {(time.monotonic_ns() - began_ns) / 1e6:.1f} ms")


def _letters(log: Path) -> list[Message]:
    return [Message.parse(entry.data) for entry in Reader(log / "groups" / GROUP / "dead")]


@pytest.mark.parametrize("how", [{"prefetch": 10}, {"batch": 100}], ids=["prefetch", "batches"])
def test_a_message_that_kills_its_workers_takes_no_other_along(tmp_path: Path, how: dict[str, int]) -> None:
    count, poison, deliveries_max = 60, 17, 5
    _append(tmp_path, *("poison" if number == poison else "fine" for number in range(count)))
    retry = {"deliveries_max": deliveries_max, "first": 0.01}
    with WorkerPool(tmp_path, GROUP, dies_at="poison", retry=retry, **how) as pool:
        pool.work_until_done(count, workers=2)
    stat = stat_group(tmp_path, GROUP)
    assert (stat.counters.died, stat.counters.dead, stat.counters.done) == (deliveries_max, 1, count - 1)
    (letter,) = _letters(tmp_path)
    assert (letter.body, letter.headers["binlog-reason"]) == (b"poison", b"worker died")
    assert letter.headers["binlog-deliveries"] == b"%d" % deliveries_max
    got = [(int(said.words[1]), int(said.words[2])) for said in pool.reports("got")]
    assert [delivery for sequence, delivery in got if sequence == poison] == list(range(1, deliveries_max + 1))
    assert {delivery for sequence, delivery in got if sequence != poison} <= {1, 2}
    acked = pool.sequences("acked")
    assert len(acked) == len(set(acked))


def test_in_an_outage_the_group_stops_at_its_limit_and_recovers(tmp_path: Path, figure: Callable[[str], None]) -> None:
    count, limit, up = 400, 20, tmp_path / "up"
    log = tmp_path / "log"
    _append(log, *map(str, range(count)))
    options = {"retry": {"deliveries_max": None, "first": 0.02, "most": 0.05}, "group": {"outstanding_max": limit}}
    with WorkerPool(log, GROUP, fails_without=str(up), **options) as pool:

        def has_failed_for_long() -> bool:
            stat = stat_group(log, GROUP)
            assert stat.next <= limit
            return stat.counters.failed >= 200

        began, pids = time.monotonic(), []
        pool.start(2)
        pids = list(pool.pids.values())
        until(has_failed_for_long)
        seconds, ticks = time.monotonic() - began, sum(map(_processor_ticks, pids))
        with Reader(log / "groups" / GROUP) as operations:
            operation_count = sum(1 for _ in operations)
        # No member asks in vain: a failure is one operation, and so is the start of the next delivery.
        assert operation_count <= 4 * stat_group(log, GROUP).counters.started + 100
        up.touch()
        pool.work_until_done(count, workers=2)
    stat = stat_group(log, GROUP)
    assert (stat.counters.done, stat.counters.dead) == (count, 0)
    assert sorted(pool.sequences("acked")) == list(range(count))
    figure(f"an outage: two workers that fail every item used {ticks / seconds:.0f} % of a core")


def _processor_ticks(pid: int) -> int:
    """Return the time that a process has used the processor, in hundredths of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
