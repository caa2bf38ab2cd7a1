"""What is killed of queues and of those who depage, and how what is left is judged."""

from __future__ import annotations

from pathlib import Path

from stress.crash.life_kill import Victim
from stress.crash.paging import depages, queues
from stress.crash.paging.actor import Scenario
from stress.crash.paging.judge import compare, expectation_of, observe
from stress.paging.ledger import Mark

_SCENARIOS: dict[str, tuple[Scenario, Scenario]] = {
    **{name: (queues.SCENARIOS["all"], scenario) for name, scenario in queues.SCENARIOS.items()},
    **{f"depage-{name}": (depages.SCENARIOS["all"], scenario) for name, scenario in depages.SCENARIOS.items()},
}


def _judge(path: Path, scenario: str, marks: list[Mark]) -> tuple[list[str], int]:
    expected = expectation_of(marks)
    expected.died()
    seen = observe(path, _SCENARIOS[scenario][1].kind)
    return [*seen.problems, *compare(seen.found, expected, expected)], len(expected.durable)


PAGING_VICTIM = Victim(
    "paging-kill",
    {name: (before.live, dies.live) for name, (before, dies) in _SCENARIOS.items()},
    _judge,
)
