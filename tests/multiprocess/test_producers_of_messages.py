"""Producers with an id in several processes: killed ones continue, and no two have the same id."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

import binlog
from binlog import Message, Producer, Reader
from binlog.errors import BusyError
from binlog.format.consumers.message import MadeBy
from tests.support.checkout import ROOT
from tests.support.children import lines_until_killed, run_script

ID = "till-7"

_NUMBERS = """
import sys, binlog
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with binlog.Producer(path, name) as producer:
    number = -1 if producer.last is None else producer.last
    print("last", number, flush=True)
    while number + 1 < count:
        size = number % 3 + 1
        producer.append_many([b"%d" % each for each in range(number + 1, number + 1 + size)])
        number += size
        print("appended", number, flush=True)
"""

_HOLDS = """
import os, sys, binlog
producer = binlog.Producer(sys.argv[1], sys.argv[2])
producer.append(b"0")
print("holds", flush=True)
if len(sys.argv) > 3 and os.fork() == 0:
    print("forked", flush=True)
sys.stdin.read()
"""


def _numbers(log: Path) -> dict[bytes, list[tuple[int, int]]]:
    """Return the numbers and bodies of each producer's messages, in the order of the log."""
    found: dict[bytes, list[tuple[int, int]]] = {}
    for entry in Reader(log, follow=False):
        message = Message.parse(entry.data)
        assert isinstance(message.made_by, MadeBy)
        found.setdefault(message.made_by.producer, []).append((message.made_by.sequence, int(bytes(message.body))))
    return found


def _has(count: int, lines: list[str]) -> bool:
    return len(lines) >= count


@contextmanager
def _holder(log: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run a process that has the id, until it is killed."""
    command = [sys.executable, "-c", _HOLDS, str(log), ID, *options]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "holds\n"
        yield process
        process.kill()


@pytest.mark.parametrize("rounds", [12])
def test_a_producer_killed_at_random_moments_continues_without_gap_or_repeat(log: Path, rounds: int) -> None:
    chance = random.SystemRandom()
    acknowledged = -1
    for _ in range(rounds):
        enough = partial(_has, chance.randrange(1, 25))
        lines = lines_until_killed(_NUMBERS, log, ID, 1 << 60, enough=enough)
        began, *appended = [int(line.split()[1]) for line in lines]
        assert began >= acknowledged
        acknowledged = max(began, *appended, began)
    with Producer(log, ID) as producer:
        last = producer.last
        assert last is not None
        assert last >= acknowledged
    (numbers,) = _numbers(log).values()
    assert numbers == [(number, number) for number in range(last + 1)]
    assert binlog.check(log) == []


def test_a_second_process_is_refused_at_once_and_learns_the_holder(log: Path) -> None:
    with _holder(log) as process:
        for _ in range(2):
            with pytest.raises(BusyError) as caught:
                Producer(log, ID)
            assert caught.value.holder == f"process {process.pid}"
            assert f"process {process.pid}" in str(caught.value)
            # A process that does not run is no different from one that runs.
            process.send_signal(signal.SIGSTOP)
        with Producer(log, "another") as another:
            another.append(b"0")
        process.kill()
        process.wait()
        with Producer(log, ID) as producer:
            assert producer.last == 0
            producer.append(b"1")
    assert sorted(_numbers(log).values()) == [[(0, 0)], [(0, 0), (1, 1)]]


def test_a_child_that_outlives_its_killed_parent_does_not_have_the_id(log: Path) -> None:
    with _holder(log, "fork") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "forked\n"
        process.kill()
        process.wait()
        # The child ends when its standard input does, after this block.
        with Producer(log, ID) as producer:
            assert producer.last == 0


def test_processes_with_other_ids_append_side_by_side(log: Path) -> None:
    count = 60
    names = [f"till-{number}" for number in range(4)]
    command = [sys.executable, "-c", _NUMBERS, str(log)]
    processes = [subprocess.Popen([*command, name, str(count)], cwd=ROOT, stdout=subprocess.DEVNULL) for name in names]
    assert [process.wait() for process in processes] == [0] * len(names)
    found = _numbers(log)
    assert len(found) == len(names)
    for numbers in found.values():
        assert numbers == [(number, number) for number in range(len(numbers))]
        assert len(numbers) >= count


def test_processes_that_try_the_same_id_at_once_append_one_after_the_other(log: Path) -> None:
    script = """
import sys, binlog
for number in range(20):
    while True:
        try:
            with binlog.Producer(sys.argv[1], sys.argv[2]) as producer:
                producer.append(b"%d" % (0 if producer.last is None else producer.last + 1))
            break
        except binlog.BusyError:
            pass
"""
    command = [sys.executable, "-c", script, str(log), ID]
    processes = [subprocess.Popen(command, cwd=ROOT) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    (numbers,) = _numbers(log).values()
    assert numbers == [(number, number) for number in range(60)]


def test_a_process_that_ends_without_closing_frees_its_id(log: Path) -> None:
    script = "import os, sys, binlog; p = binlog.Producer(sys.argv[1], sys.argv[2]); p.append(b'0'); os._exit(0)"
    assert run_script(script, log, ID).returncode == 0
    with Producer(log, ID) as producer:
        assert producer.last == 0
