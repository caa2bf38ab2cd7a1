"""Kill: a writer dies at each of its calls, every one of which is tried.  The page cache survives."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from stress.crash.failure_modes.kill import ON_NOTHING, ON_SOMETHING, WITH_ANOTHER, Case
from stress.crash.preloaded.injector import Action
from tests.support.crash_harness import crash
from tests.support.turns import in_turn

pytestmark = pytest.mark.slow


def _deaths(tmp_path: Path, scenario: str, place: str, *, before: int = -1) -> int:
    """Return how many processes died, each at another call, after one that died at the call `before`."""
    case = Case("kill", scenario, place, "", Action.KILL_BEFORE, 1, first=-1, before=before)
    (tmp_path / "part.json").write_text(json.dumps({"part": "kill", "case": asdict(case)}))
    done = crash("--replay", tmp_path)
    assert done.returncode == 0, done.stdout
    found = re.search(r"a kill at each of (\d+) calls", done.stdout)
    assert found is not None, done.stdout
    return int(found[1])


@pytest.mark.parametrize("place", in_turn([ON_NOTHING, ON_SOMETHING, WITH_ANOTHER]))
@pytest.mark.parametrize("scenario", ["append", "append_many", "grow", "cutover"])
def test_a_writer_killed_at_each_call_loses_nothing(
    tmp_path: Path, scenario: str, place: str, figure: Callable[[str], None]
) -> None:
    deaths = _deaths(tmp_path, scenario, place)
    assert deaths > 30
    figure(f"kill sweep of {scenario} {place}: {deaths} deaths")


@pytest.mark.parametrize("before", in_turn(range(4, 110, 18)))
def test_a_writer_killed_during_the_recovery_of_a_killed_one_loses_nothing(tmp_path: Path, before: int) -> None:
    """Each eighteenth call of a cutover, times each call of the next writer's opening; `make crash` does the rest."""
    assert _deaths(tmp_path, "cutover", ON_SOMETHING, before=before) > 5
