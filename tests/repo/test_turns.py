"""Tests in turn: each runs in one of three runs, and every worker of a run takes the same ones."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.checkout import ROOT
from tests.support.turns import TURNS, in_turn

_MODULE = "tests/crash/test_seeded_bugs.py"


def _collected(*options: str) -> set[str]:
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", *options, _MODULE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return {line for line in done.stdout.splitlines() if "::test_a_seeded_bug_is_found[" in line}


@pytest.mark.slow
@pytest.mark.turn(1)
def test_each_test_in_turn_is_in_one_run_and_in_the_complete_one() -> None:
    turns = [_collected("-m", "not install", "--testrunuid", str(turn)) for turn in range(TURNS)]
    assert all(turns)
    assert sum(map(len, turns)) == len(set.union(*turns))
    assert _collected("-m", "install or turn") == set.union(*turns)


@pytest.mark.slow
@pytest.mark.turn(1)
@pytest.mark.parametrize("options", [(), ("--testrunuid", "2")])
def test_workers_take_the_same_turn(options: tuple[str, ...]) -> None:
    """pytest-xdist fails if they do not; with no turn given, three workers would seldom agree by chance."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "3", "-m", "not install", *options]
    done = subprocess.run(
        [*command, _MODULE, "-k", "there_is_a_bug_for_each_part"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("count", range(1, 10))
def test_each_turn_has_a_value_and_each_value_a_turn(count: int) -> None:
    turns = [value.marks[0].args for value in in_turn(range(count))]
    assert all(turns)
    assert sorted({number for numbers in turns for number in numbers}) == list(range(TURNS))
    assert sum(map(len, turns)) == max(count, TURNS)
