"""What is killed of page stores, and how what is left of one is judged."""

from __future__ import annotations

from pathlib import Path

from stress.crash.life_kill import Scenario, Victim
from stress.crash.pagestore.actor import SCENARIOS, live
from stress.crash.pagestore.judge import Expectation, compare, observe
from stress.crash.paging.actor import Witness
from stress.paging.ledger import Mark


def _living(name: str) -> Scenario:
    def scenario(path: Path, witness: Witness, life: int, seed: str) -> None:
        live(path, witness, life, seed, *SCENARIOS[name])

    return scenario


def _judge(path: Path, scenario: str, marks: list[Mark]) -> tuple[list[str], int]:
    expected = Expectation()
    for mark in marks:
        expected.add(mark)
    expected.died()
    seen = observe(path)
    return [*seen.problems, *compare(seen, expected, expected)], expected.durable


PAGE_STORE_VICTIM = Victim(
    "pagestore-kill",
    {name: (_living("all"), _living(name)) for name in SCENARIOS},
    _judge,
)
