"""Kill: a process that prunes dies at each of its system calls.  The remaining log has no gap."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from binlog import Writer
from stress.crash.preloaded.injector import Kind
from tests.support.logs import read_all
from tests.support.preloaded import kill_at_each_call, run_preloaded

FILES = 5


def _fill(log: Path) -> None:
    with Writer(log) as writer:
        for number in range(1, FILES + 1):
            writer.append(b"%d" % number)
            if number < FILES:
                writer.cutover()


def _prune(log: Path) -> None:
    binlog.prune(log, keep_bytes=0)


def _gapless(log: Path) -> int:
    """Check the log after any death, and return the number of the first file."""
    assert binlog.check(log) == []
    numbers = [file.number for file in binlog.stat(log).files]
    assert numbers == list(range(numbers[0], FILES + 1))
    assert read_all(log) == [b"%d" % number for number in numbers]
    return numbers[0]


@pytest.mark.slow
def test_a_prune_killed_at_each_call_leaves_a_log_without_a_gap(in_memory: Path, figure: Callable[[str], None]) -> None:
    start, log = in_memory / "start", in_memory / "log"
    _fill(start)
    firsts, kills = [], 0
    for run in kill_at_each_call(_prune, start, log):
        firsts.append(_gapless(log))
        with Writer(log) as writer:
            writer.append(b"after")
        binlog.prune(log, keep_bytes=0)
        assert sorted(path.name for path in log.iterdir()) == [f"{FILES:08d}.dat", f"{FILES:08d}.idx"]
        kills += run.killed
    assert firsts == sorted(firsts)
    assert set(firsts) == set(range(1, FILES + 1))
    assert {Kind.LOCK, Kind.SYNC, Kind.UNLINK} <= set(run.calls)
    figure(f"kill sweep of prune: {kills} kills, {len(run.calls)} calls")


def test_each_removal_is_durable_before_the_next(in_memory: Path) -> None:
    """Power: removals of names may be undone in any order, so that two unsynced ones could leave a gap."""
    log = in_memory / "log"
    _fill(log)
    calls = run_preloaded(_prune, log, kinds=(Kind.UNLINK, Kind.SYNC)).calls
    assert calls == [Kind.SYNC, *[Kind.UNLINK, Kind.UNLINK, Kind.SYNC] * (FILES - 1)]


def test_the_sweep_finds_a_file_removed_out_of_order(in_memory: Path) -> None:
    """A canary for the checks."""
    log = in_memory / "log"
    _fill(log)
    (log / "00000002.dat").unlink()
    with pytest.raises(AssertionError):
        _gapless(log)
