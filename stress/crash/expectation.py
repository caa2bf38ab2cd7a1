"""What must be true after a power cut at some tick, by what the workload had been told until then."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from binlog import Batch, Ref, Writer
from binlog.format.log_header import FIRST_OFFSET
from stress.crash.drafting import ASIDE, draft_of
from stress.crash.marks import Mark, MarkKind


def record_of(seed: str, writer: int, index: int) -> bytes:
    """The `index`-th record of a writer: it tells which it is, and the rest of it cannot be guessed."""
    chance = random.Random(f"{seed}/{writer}/{index}")
    size = chance.choices(
        (chance.randrange(16, 200), chance.randrange(200, 1500), chance.randrange(1500, 4000)), (6, 3, 1)
    )
    head = b"%d:%d:" % (writer, index)
    return head + chance.randbytes(size[0])


TURNS, DRAFTS = 30, 31
"""The writers whose calls are turns of a source, counted from 0: appended, and written aside as files of the log."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a source, TURNS or DRAFTS, gives in one of its turns: some of its records."""

    source: int
    turn: int
    first: int
    count: int


def take_turn(writer: Writer[Any], log: Path, seed: str, given: Given) -> list[tuple[int, Ref]]:
    """Have these records appended as a turn: how many lie from which place on; none where they are in the log."""
    records = [record_of(seed, given.source, index) for index in range(given.first, given.first + given.count)]
    batches = [Batch.from_records(part) for part in (records[:1], records[1:]) if part or given.source == TURNS]
    if given.source == TURNS:
        turn = writer.append_turn(batches, source="turns", turn=given.turn)
        return [] if turn is None else [(given.count, turn.ref)]
    drafts = [draft_of(log / ASIDE, batch) for batch in batches]
    turn = writer.append_drafts(drafts, source="drafts", turn=given.turn)
    if turn is None:
        return []
    return [(len(batch), Ref(number, FIRST_OFFSET)) for number, batch in enumerate(batches, turn.number)]


def turns_in(marks: list[Mark]) -> list[Given]:
    """Each turn that was tried, in the order of each source."""
    found = []
    for source in (TURNS, DRAFTS):
        tried = [mark for mark in marks if mark.kind is MarkKind.TRIED and mark.writer == source]
        counts = sorted({mark.first: mark.record_count for mark in tried}.items())
        found += [Given(source, turn, first, count) for turn, (first, count) in enumerate(counts)]
    return found


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
