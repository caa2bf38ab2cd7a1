"""Workers that fork, start programs, or become another program; threads that end; processes in containers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from binlog import ConsumerGroup, Writer
from binlog.consumers import stat_group
from tests.support.checkout import ROOT
from tests.support.commanded_workers import CommandedWorker
from tests.support.group_workers import Worker, WorkerPool, until_idle
from tests.support.namespaces import container
from tests.support.waiting import until

GROUP = "billing"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    with Writer(path) as writer:
        writer.append_many([b"0"])
    return path


# The child waits until the test has killed its parent and another member has the item.
_PARENT = """
import multiprocessing, os, subprocess, sys, time
from binlog import ConsumerGroup

path, name, how = sys.argv[1:4]
group = ConsumerGroup(path, name)
item = group.get()

def error_of(call):
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "nothing"

def outlive():
    print("lives", flush=True)
    os.read(0, 1)
    print(error_of(item.ack), error_of(lambda: group.ack(token)), flush=True)

token = item.token
if how == "fork":
    if os.fork() == 0:
        outlive()
        os._exit(0)
elif how == "multiprocessing":
    multiprocessing.get_context("fork").Process(target=outlive).start()
else:
    program = (
        "import os, sys; from binlog import ConsumerGroup, LeaseLostError;"
        "print('lives', flush=True); os.read(0, 1)\\n"
        "try: ConsumerGroup(sys.argv[1], sys.argv[2]).ack(sys.argv[3])\\n"
        "except LeaseLostError: print('StateError', 'LeaseLostError')"
    )
    subprocess.Popen([sys.executable, "-c", program, path, name, token], close_fds=False)
time.sleep(600)
"""


@pytest.mark.parametrize("how", ["fork", "multiprocessing", "subprocess"])
def test_a_child_that_outlives_its_killed_parent_keeps_no_item(log: Path, how: str) -> None:
    command = [sys.executable, "-c", _PARENT, str(log), GROUP, how]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        assert parent.stdout.readline() == "lives\n"
        with ConsumerGroup(log, GROUP) as group:
            assert group.get(timeout=0) is None
            parent.kill()
            item = group.get(timeout=60)
            assert item is not None
            assert (item.sequence, item.delivery) == (0, 2)
            parent.stdin.write("!")
            parent.stdin.flush()
            assert parent.stdout.readline().split() == ["StateError", "LeaseLostError"]
            item.ack()


def test_a_worker_that_becomes_another_program_gives_its_items_back(log: Path) -> None:
    with CommandedWorker(log, GROUP) as worker, CommandedWorker(log, GROUP) as other:
        assert worker.do("get", 10) == [0, 1]
        other.begin("get", 60)
        until_idle(log, GROUP, 1)
        worker.begin("exec")
        assert other.answer() == [0, 2]
        os.kill(worker.pid, 0)  # the other program runs


def test_the_end_of_a_thread_returns_no_item(log: Path) -> None:
    with CommandedWorker(log, GROUP) as worker, CommandedWorker(log, GROUP) as other:
        assert worker.do("get", 10) == [0, 1]
        assert worker.do("failing thread") is None
        assert other.do("get", 0) is None
        assert stat_group(log, GROUP).in_hand == 1
        assert worker.do("close") is None
        assert other.do("get", 60) == [0, 1]


def test_members_in_containers_share_a_group(log: Path, tmp_path: Path, figure: Callable[[str], None]) -> None:
    """Two containers have process ids and shared memory of their own, and only the log's directory in common."""
    count = 200
    with Writer(log) as writer:
        writer.append_many([b"fine"] * (count - 1))
    places = [tmp_path / "one", tmp_path / "two"]
    one, two = (container(log, place) for place in places)
    with WorkerPool(places[0], GROUP, prefix=one) as first, WorkerPool(places[1], GROUP, prefix=two) as second:
        first.start(2)
        second.start(2)
        until(lambda: stat_group(log, GROUP).floor == count)
        acked = []
        for pool in (first, second):
            pool.end()
            acked += pool.sequences("acked")
    assert sorted(acked) == list(range(count))
    with Writer(log) as writer:
        writer.append(b"slow")
    with Worker(places[0], GROUP, hangs_at="slow", prefix=one) as victim:
        victim.until("got", str(count))
        with Worker(places[1], GROUP, prefix=two) as other:
            until_idle(log, GROUP, 1)
            killed_ns = victim.kill()
            _, sequence, delivery, got_ns = other.until("got")
            assert (sequence, delivery) == (str(count), "2")
            other.until("acked", str(count))
    figure(f"killed worker to another one in another container: {(int(got_ns) - killed_ns) / 1e6:.1f} ms")
