"""What a process does with a journal that is killed at each of its calls."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path

from binlog.journal.options import JournalOptions
from stress.crash.journal import programs
from stress.crash.journal.actor import Actor, Witness
from stress.crash.journal.openings import opened
from stress.crash.journal.programs import Step

Scenario = Callable[[Path, JournalOptions, Witness, int], None]
"""With the path, how the journal is kept, where marks go, and who appends."""


def _of(seed: str, steps: Mapping[Step, int], count: int, lives: int = 1) -> Scenario:
    """So many steps, the same every time, in each of some lives."""

    def scenario(path: Path, options: JournalOptions, witness: Witness, writer: int) -> None:
        chance = random.Random(seed)
        actor = Actor(witness, writer)
        for _ in range(lives):
            with opened(path, options, witness, actor) as journal:
                programs.run(actor, journal, chance, steps, count)
                actor.settle()

    return scenario


def only_load(path: Path, options: JournalOptions, witness: Witness, writer: int) -> None:
    """Load and close: rolling back what is left over, where a process was killed before."""
    actor = Actor(witness, writer)
    with opened(path, options, witness, actor) as journal:
        actor.add(journal)


SCENARIOS: dict[str, Scenario] = {
    "only_load": only_load,
    "records": _of("records", programs.RECORDS, 8),
    "transactions": _of("transactions", programs.TRANSACTIONS, 4, lives=3),
    "reuse": _of("reuse", programs.REUSE, 30),
    "compaction": _of("compaction", programs.COMPACTION, 20),
}
