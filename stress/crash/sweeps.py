"""In which order a part of the harness takes its cases."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from typing import Protocol, TypeVar


class Sweep(Protocol):
    """The first case of a sweep."""

    @property
    def row(self) -> str:
        """Of the tally."""


SweepT = TypeVar("SweepT", bound=Sweep)


def by_chance(sweeps: list[SweepT], chance: random.Random) -> Iterator[SweepT]:
    """In an order of chance; a short run as well has some of each kind, for one of each row comes first."""
    chance.shuffle(sweeps)
    firsts = {sweep.row: at for at, sweep in reversed([*enumerate(sweeps)])}.values()
    return iter([sweeps[at] for at in sorted(range(len(sweeps)), key=lambda at: at not in firsts)])


CaseT = TypeVar("CaseT")


def spread(cases: list[CaseT], kind: Callable[[CaseT], Hashable]) -> list[CaseT]:
    """In the same order, but one of each kind comes first, then a second one of each, and so on."""
    seen: Counter[Hashable] = Counter()
    turns = []
    for case in cases:
        turns.append(seen[kind(case)])
        seen[kind(case)] += 1
    return [cases[at] for at in sorted(range(len(cases)), key=turns.__getitem__)]
