"""A page store, as the power part knows it: small runs that mark what they tried, and what they were promised."""

from __future__ import annotations

from pathlib import Path

from stress.crash.pagestore.actor import SCENARIOS, Step, live
from stress.crash.pagestore.judge import PageStoreJudging
from stress.crash.paging.marks import Recorded
from stress.crash.subject import Subject, Workload

_CHOICES_MAX = 10  # of each of some hundred moments of a run
_AFTER_RECOVERY = 20


def _lives(steps: dict[Step, int], count: int, lives: int) -> Workload:
    """A store that is opened so often, and each time so many steps are taken."""

    def workload(path: Path, seed: str) -> None:
        for life in range(1, lives + 1):
            live(path, Recorded(), life, seed, steps, count)

    return workload


def recovery(path: Path, seed: str) -> None:
    """A store is opened that a power cut left, and gone on with."""
    live(path, Recorded(), _AFTER_RECOVERY, seed, *SCENARIOS["all"])


WORKLOADS: dict[str, Workload] = {name: _lives(*steps, 2) for name, steps in SCENARIOS.items() if name != "all"}
WORKLOADS["recovery"] = recovery

PAGE_STORES = Subject("pagestore-power", WORKLOADS, {}, PageStoreJudging, _CHOICES_MAX)
