"""Kill: `ship` dies at each of its system calls, and at random moments while processes append and cut over."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog import Mode, Writer
from binlog.moving import ship
from stress.crash.preloaded.injector import Kind
from tests.support.logs import read_all
from tests.support.preloaded import kill_at_each_call
from tests.support.ship_storms import run_storm


def _assert_closed_files_arrived(log: Path, target: Path) -> None:
    for file in binlog.stat(log).files[:-1]:
        assert (target / os.path.basename(file.path)).read_bytes() == Path(file.path).read_bytes()
    assert not list(target.glob(".*"))


def _ship(folder: Path) -> None:
    ship(folder / "log", folder / "target")


def _ship_and_prune(folder: Path) -> None:
    ship(folder / "log", folder / "target", prune_shipped=True)


def _fill(log: Path) -> None:
    log.parent.mkdir()
    with Writer(log) as writer:
        for number in range(3):
            writer.append_many([b"%d" % number] * 3, mode=Mode.SYNC)
            writer.cutover()
        writer.append(b"open")


def test_a_ship_killed_at_each_call_leaves_nothing_that_looks_complete(
    in_memory: Path, figure: Callable[[str], None]
) -> None:
    start, folder = in_memory / "start", in_memory / "folder"
    _fill(start / "log")
    died, kinds, partial = 0, set(), 0
    for run in kill_at_each_call(_ship, start, folder):
        log, target = folder / "log", folder / "target"
        partial += bool(list(target.glob(".*")))
        for copy in target.glob("0*.dat"):
            assert copy.read_bytes() == (log / copy.name).read_bytes()
        if list(target.glob("*.shipped")):
            assert binlog.check(target) == []
            assert len(read_all(target)) == 3 * len(list(target.glob("*.dat")))
        _ship(folder)
        _assert_closed_files_arrived(log, target)
        assert binlog.check(target) == []
        died += run.killed
        kinds |= set(run.calls)
    assert died > 50
    assert partial > 0
    assert {Kind.WRITE, Kind.SYNC} <= kinds
    figure(f"ship killed at each call: {died} deaths")


def test_a_ship_that_prunes_killed_at_each_call_loses_no_record(in_memory: Path, figure: Callable[[str], None]) -> None:
    start, folder = in_memory / "start", in_memory / "folder"
    _fill(start / "log")
    expected = read_all(start / "log")
    _ship(start)
    died = removed = 0
    for run in kill_at_each_call(_ship_and_prune, start, folder):
        log, target = folder / "log", folder / "target"
        left = len(list(log.glob("*.dat")))
        removed += left < 4
        assert read_all(target) + read_all(log)[-1:] == expected
        _ship_and_prune(folder)
        assert read_all(log) == [b"open"]
        assert binlog.check(log) == binlog.check(target) == []
        died += run.killed
    assert died > 20
    assert removed > 0
    figure(f"ship --prune-shipped killed at each call: {died} deaths")


@pytest.mark.parametrize("kills", [20, pytest.param(100, marks=pytest.mark.install)])
def test_a_ship_killed_at_random_while_4_processes_append_has_what_was_closed(
    tmp_path: Path, figure: Callable[[str], None], kills: int
) -> None:
    log, target = tmp_path / "log", tmp_path / "target"
    seed = random.SystemRandom().randrange(1 << 32)
    last = run_storm(log, str(target), writers=4, kills=kills, seed=seed)
    _assert_closed_files_arrived(log, target)
    assert binlog.check(target) == []
    found = read_all(target)
    assert found == read_all(log)
    for writer in range(4):
        numbers = [int(record.split()[1]) for record in found if record.startswith(b"%d " % writer)]
        assert numbers == list(range(len(numbers)))
    figure(f"ship killed {kills} times while 4 processes appended: {last} files, {len(found)} records")
