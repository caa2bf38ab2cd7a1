"""Which of the states that a power cut may leave are looked at: every prefix, and of each a choice of its subsets.

A span with few units is walked through in full.  Of one with many: everything kept, everything lost, each unit alone
kept and alone lost, and then subsets drawn at random from a seed.  States are numbered in this order, so a seed and a
number name one again.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator

from stress.crash.disk import Disk, Span, Unit

CHOICES_IN_FULL = 64
_SPANS_SHARE = 0.25
_SPANS_MANY = 50

Choice = tuple[int, ...]


def choices(units: tuple[Unit, ...], chance: random.Random) -> Iterator[Choice]:
    """Choices of a condition for each unit: all there are, or somewhat more than CHOICES_IN_FULL."""
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
    """Most of it kept, most of it lost, or half: a fair coin alone hardly ever gives the first two."""
    kept = chance.choice((0.25, 0.5, 0.75))
    return tuple(
        count - 1 if chance.random() < kept else chance.randrange(count - 1) if count > 2 else 0 for count in counts
    )


def _ends(disk: Disk, span: Span) -> Iterator[Choice]:
    for names, data in itertools.product((True, False), repeat=2):
        yield tuple(
            unit.condition_count - 1 if (names if disk.has_names(unit.inode) else data) else 0 for unit in span.units
        )


def enumerate_states(disk: Disk, seed: str, choices_max: int | None = None) -> Iterator[tuple[int, Span, Choice]]:
    """The numbered states of a run; many are the same as others.

    choices_max: so many of a span at most, and where there are many spans of one in four; for runs of many calls, the
    end of which is to be seen too.  They are drawn from all, but for the ends: all kept, all lost, and only names or
    only bytes kept.
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
