"""The randomised crash model, for a few seconds: the protocol holds, and seeded bugs are found.

`python -m stress.model` runs it for longer.  Seeds are fixed here, so that a failure is due to a change.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stress.model.__main__ import run_many, run_one
from stress.model.seeded_bugs import SEEDED_BUGS
from tests.support.turns import in_turn

ROOT = Path(__file__).parents[2]
RUNS = 250

# Seeds for bugs that the others' seed finds only after seconds or minutes.
_SEEDS = {
    "quarantine-trusted": 29,
    "close-trusted": 236,
    "confirmed-restaged": 66,
    "move-unsynced": 31,
    "nonce-ignored": 20,
    "not-strict": 61,
    "overtaken-trusted": 52,
    "slot-late": 3,
}


def test_the_protocol_keeps_every_promise(figure: Callable[[str], None]) -> None:
    summary = run_many(1, frozenset(), seconds=60, runs_max=RUNS)
    assert summary.violations == [], "replay: python -m stress.model --replay " + str(summary.violations[0][0])
    assert summary.runs == RUNS
    figure(f"crash model: {summary.runs} runs, {summary.steps} steps, {len(summary.states)} states, no violation")


def test_a_seeded_bug_is_found() -> None:
    """A canary for the model."""
    assert run_many(1, frozenset(["no-sync"]), seconds=60, violations_max=1, runs_max=RUNS).violations


@pytest.mark.slow
@pytest.mark.parametrize("name", in_turn(SEEDED_BUGS))
def test_every_seeded_bug_is_found(name: str) -> None:
    assert run_many(_SEEDS.get(name, 2), frozenset([name]), seconds=240, violations_max=1).violations


def test_each_seeded_bug_is_in_the_model() -> None:
    source = "".join(path.read_text() for path in (ROOT / "stress" / "model").glob("*.py"))
    assert [name for name in SEEDED_BUGS if f'has("{name}")' not in source] == []


def test_a_violation_is_replayed_from_its_seed() -> None:
    command = [sys.executable, "-m", "stress.model", "--seeded-bug", "no-sync", "--seconds", "20"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert re.search(r"^\d+ runs, \d+ steps, \d+ states", done.stdout)
    violation, seed = re.findall(r"violation: (.*)\n  replay: .* --replay (\d+) --seeded-bug no-sync", done.stdout)[0]
    assert run_one(int(seed), frozenset(["no-sync"]))[1] == violation
