"""*kill*: a process dies by SIGKILL at a random moment; every record whose call returned is in the log."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

import binlog
from binlog import Mode
from tests.support.events import bodies
from tests.support.logging_workers import log_until_killed, numbers_by_writer


def _kill_one(log: Path, mode: Mode, chance: random.Random) -> None:
    """Start a process that logs, kill it, and compare the log with the numbers that the process has reported."""
    reports, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reports)
        try:
            log_until_killed(log, theirs, mode)
        finally:
            os._exit(1)
    os.close(theirs)
    reported = b""
    count = chance.choice((0, 1, 2, 50, 400))
    while reported.count(b"\n") < count:
        reported += os.read(reports, 65536)
    time.sleep(chance.random() * 0.004)  # so that the moment is a random one
    os.kill(child, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    while more := os.read(reports, 65536):
        reported += more
    os.close(reports)
    returned = [int(line) for line in reported.split(b"\n")[:-1]]
    binlog.Writer(log).close()  # another process opens the log
    found = numbers_by_writer(bodies(log)).get(0, [])
    assert found == list(range(len(found)))
    assert len(returned) <= len(found) <= len(returned) + 1
    assert binlog.check(log) == []


def _kill(folder: Path, count: int) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for number in range(count):
        _kill_one(folder / str(number), list(Mode)[number % len(Mode)], chance)


@pytest.mark.slow
def test_no_returned_record_is_lost_in_20_kills(in_memory: Path) -> None:
    _kill(in_memory, 20)


@pytest.mark.slow
def test_no_returned_record_is_lost_in_150_kills(in_memory: Path) -> None:
    _kill(in_memory, 150)


@pytest.mark.slow
@pytest.mark.install
def test_no_returned_record_is_lost_in_1000_kills(in_memory: Path) -> None:
    _kill(in_memory, 1000)
