"""A queue, as the power part knows it: small runs that mark what they tried, and what they were promised."""

from __future__ import annotations

from pathlib import Path

from stress.crash.paging.actor import ALL, PUTS, REMOVAL, TRANSACTIONS, Step, live
from stress.crash.paging.judge import QueueJudging
from stress.crash.paging.marks import Recorded
from stress.crash.subject import Subject, Workload

_CHOICES_MAX = 10  # of each of some hundred moments of a run
_AFTER_RECOVERY = 20


def _lives(steps: dict[Step, int], count: int, lives: int) -> Workload:
    """A queue that is opened so often, and each time so many steps are taken."""

    def workload(path: Path, seed: str) -> None:
        for life in range(1, lives + 1):
            live(path, Recorded(), life, seed, steps, count)

    return workload


def recovery(path: Path, seed: str) -> None:
    """A queue is opened that a power cut left, and gone on with."""
    live(path, Recorded(), _AFTER_RECOVERY, seed, ALL, 8)


WORKLOADS: dict[str, Workload] = {
    "puts": _lives(PUTS, 20, 2),
    "transactions": _lives(TRANSACTIONS, 10, 2),
    "removal": _lives(REMOVAL, 30, 2),
    "recovery": recovery,
}

QUEUES = Subject("paging-power", WORKLOADS, {}, QueueJudging, _CHOICES_MAX)
