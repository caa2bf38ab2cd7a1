"""The states that are checked: every prefix of a run, and for each a choice of the subsets of its units.

A span with few units is enumerated in full.  Of one with many: all kept, all lost, each unit alone kept and alone lost,
and then subsets at random from a seed.  States are numbered in this order, so a seed and a number identify one.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator

from stress.crash.disk_model.disk import Disk, Span, Unit

CHOICES_IN_FULL = 64
_SPANS_SHARE = 0.25
_SPANS_MANY = 50

Choice = tuple[int, ...]


def choices(units: tuple[Unit, ...], chance: random.Random) -> Iterator[Choice]:
    """Yield choices of a condition for each unit: all, or somewhat more than CHOICES_IN_FULL."""
    counts = [unit.condition_count for unit in units]
    if math.prod(counts) <= CHOICES_IN_FULL:
        yield from itertools.product(*(range(count) for count in counts))
        return
    newest, oldest = [count - 1 for count in counts], [0] * len(counts)
    yield tuple(newest)
    yield tuple(oldest)
    for corner in (newest, oldest):
        for at, count in enumerate(counts):
            for index in range(count):
                if index != corner[at]:
                    yield (*corner[:at], index, *corner[at + 1 :])
    for _ in range(CHOICES_IN_FULL):
        yield _random_choice(counts, chance)


def _random_choice(counts: list[int], chance: random.Random) -> Choice:
    """Return a choice with most kept, most lost, or half: a fair coin alone hardly ever gives the first two."""
    newest_share = chance.choice((0.25, 0.5, 0.75))
    return tuple(
        count - 1 if chance.random() < newest_share else chance.randrange(count - 1) if count > 2 else 0
        for count in counts
    )


def _ends(disk: Disk, span: Span) -> Iterator[Choice]:
    for names, data in itertools.product((True, False), repeat=2):
        yield tuple(
            unit.condition_count - 1 if (names if disk.has_names(unit.inode) else data) else 0 for unit in span.units
        )


def enumerate_states(disk: Disk, seed: str, choices_max: int | None = None) -> Iterator[tuple[int, Span, Choice]]:
    """Yield the numbered states of a run; many are equal to others.

    choices_max: the limit for one span; if there are many spans, only one in four is taken.  For runs of many calls
        whose end must be reached too.  The choices are random, but include the extremes: all kept, all lost, only names
        kept, only bytes kept.
    """
    numbers = itertools.count()
    spans = disk.spans()
    is_thinned = choices_max is not None and len(spans) > _SPANS_MANY
    for span in spans:
        chance = random.Random(f"{seed}/{span.first}")
        if is_thinned and chance.random() > _SPANS_SHARE:
            continue
        found = [*choices(span.units, chance)]
        if choices_max is not None and len(found) > choices_max:
            ends = [*dict.fromkeys(_ends(disk, span))]
            others = [choice for choice in found if choice not in ends]
            found = [*ends, *chance.sample(others, max(choices_max - len(ends), 0))]
        for choice in found:
            yield next(numbers), span, choice
