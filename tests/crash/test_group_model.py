"""The crash model of consumer groups, for a few seconds: promises hold, and seeded bugs are found.

`python -m stress.group_model` runs it for longer.  Seeds are fixed here, so that a failure is due to a change.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stress.group_model.__main__ import run_many
from stress.group_model.seeded_bugs import SEEDED_BUGS
from tests.support.turns import in_turn

ROOT = Path(__file__).parents[2]
RUNS = 100

# Seeds for bugs that the others' seed finds only after many runs.
_SEEDS: dict[str, int] = {}


def test_a_group_keeps_every_promise(figure: Callable[[str], None]) -> None:
    runs, violations = run_many(1, frozenset(), seconds=120, violations_max=1, runs_max=RUNS)
    assert violations == [], f"replay: python -m stress.group_model --replay {violations[0][0]}"
    assert runs == RUNS
    figure(f"model of consumer groups: {runs} runs, no violation")


@pytest.mark.slow
@pytest.mark.parametrize("name", in_turn(SEEDED_BUGS))
def test_every_seeded_bug_is_found(name: str) -> None:
    _, violations = run_many(_SEEDS.get(name, 1), frozenset([name]), seconds=240, violations_max=1)
    assert violations


def test_each_seeded_bug_is_in_the_model() -> None:
    source = "".join(path.read_text() for path in (ROOT / "stress" / "group_model").glob("*.py"))
    assert [name for name in SEEDED_BUGS if f'has("{name}")' not in source] == []
