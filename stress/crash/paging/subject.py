"""A queue, and what is depaged, for the power part: small runs that mark what they tried, and what was promised."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from stress.crash.paging import depages, queues
from stress.crash.paging.actor import Scenario
from stress.crash.paging.judge import PagingJudging
from stress.crash.paging.marks import Recorded
from stress.crash.subject import Subject, Workload

_CHOICES_MAX = 10  # of each of some hundred moments of a run
_AFTER_RECOVERY = 20


def _lives(scenario: Scenario, lives: int) -> Workload:
    """It is opened so often, and each time the steps are taken."""

    def workload(path: Path, seed: str) -> None:
        for life in range(1, lives + 1):
            scenario.live(path, Recorded(), life, seed)

    return workload


def _recovery(scenario: Scenario) -> Workload:
    """It is opened as a power cut left it, and gone on with."""
    return lambda path, seed: scenario.live(path, Recorded(), _AFTER_RECOVERY, seed)


def _subject(part: str, scenarios: dict[str, Scenario], after: Scenario) -> Subject:
    workloads = {name: _lives(scenario, 2) for name, scenario in scenarios.items() if name != "all"}
    workloads["recovery"] = _recovery(after)
    return Subject(part, workloads, {}, partial(PagingJudging, after.kind), _CHOICES_MAX)


QUEUES = _subject("paging-power", queues.SCENARIOS, queues.AFTER)
DEPAGES = _subject("depage-power", depages.SCENARIOS, depages.AFTER)
