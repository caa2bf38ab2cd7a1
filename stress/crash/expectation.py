"""What must be true after a power cut at some tick, by what the workload had been told until then."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from binlog import Batch, Ref, Turn, Writer
from stress.crash.marks import Mark, MarkKind


def record_of(seed: str, writer: int, index: int) -> bytes:
    """The `index`-th record of a writer: it tells which it is, and the rest of it cannot be guessed."""
    chance = random.Random(f"{seed}/{writer}/{index}")
    size = chance.choices(
        (chance.randrange(16, 200), chance.randrange(200, 1500), chance.randrange(1500, 4000)), (6, 3, 1)
    )
    head = b"%d:%d:" % (writer, index)
    return head + chance.randbytes(size[0])


TURNS = 30
"""The writer whose calls are turns of a source, counted from 0."""


def take_turn(writer: Writer[Any], seed: str, number: int, first: int, count: int) -> Turn | None:
    """Have some records of that writer appended as a turn; None where they are in the log."""
    records = [record_of(seed, TURNS, index) for index in range(first, first + count)]
    batches = [Batch.from_records(records[:1]), Batch.from_records(records[1:])]
    return writer.append_turn(batches, source="turns", turn=number)


def turns_in(marks: list[Mark]) -> list[tuple[int, int]]:
    """Each turn that was tried: its first record, and how many."""
    tried = {mark.first: mark.record_count for mark in marks if mark.kind is MarkKind.TRIED and mark.writer == TURNS}
    return sorted(tried.items())


@dataclass(slots=True)
class Own:
    """What one writer had tried, and was told is kept: its first `acknowledged` records, at `refs`."""

    acknowledged: int = 0
    tried: int = 0
    refs: dict[int, Ref] = field(default_factory=dict)


class Expectation:
    """Grows as the marks of a run are added to it, in order."""

    def __init__(self) -> None:
        self.writers: dict[int, Own] = {}
        self.number_least = 0
        self._tried: list[Mark] = []

    def add(self, mark: Mark, seed: str) -> None:
        """Take one more mark into account."""
        own = self.writers.setdefault(mark.writer, Own())
        if mark.kind is MarkKind.TRIED:
            self._tried.append(mark)
            own.tried = max(own.tried, mark.first + mark.record_count)
        elif mark.kind is MarkKind.CUT_OVER and mark.ref is not None:
            self.number_least = max(self.number_least, mark.ref.number)
        elif mark.kind is MarkKind.ACKNOWLEDGED:
            own.acknowledged = max(own.acknowledged, mark.first + mark.record_count)
            if mark.ref is not None:
                self._place(own, mark, mark.ref, seed)

    def tried(self) -> list[Mark]:
        """What was tried, as marks for an expectation to begin with."""
        return list(self._tried)

    def acknowledged(self) -> list[Mark]:
        """What was acknowledged, likewise."""
        return [
            Mark(MarkKind.ACKNOWLEDGED, writer, index, 1, own.refs.get(index))
            for writer, own in self.writers.items()
            for index in range(own.acknowledged)
        ]

    def _place(self, own: Own, mark: Mark, ref: Ref, seed: str) -> None:
        """The records of one call lie in one file, one after the other."""
        offset = ref.offset
        for index in range(mark.first, mark.first + mark.record_count):
            own.refs[index] = Ref(ref.number, offset)
            offset += 4 + len(record_of(seed, mark.writer, index))


def group_bounds(marks: list[Mark]) -> dict[int, frozenset[int]]:
    """How many records of each writer may be there: whole calls only."""
    bounds: dict[int, set[int]] = {}
    for mark in marks:
        if mark.kind is MarkKind.TRIED:
            bounds.setdefault(mark.writer, {mark.first}).add(mark.first + mark.record_count)
    return {writer: frozenset(found) for writer, found in bounds.items()}
