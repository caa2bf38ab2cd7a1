"""Judging a state of a journal: it is loaded, appended to, reclaimed and compacted, and loaded again and again.

As with a log, what comes of that depends on the state's bytes alone, and whether it is right on what was promised too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from binlog.errors import BinlogError
from binlog.format.journal.names import ATTIC_FOLDER, LOCK_FILE
from binlog.journal.journal import Journal
from binlog.journal.options import JournalOptions
from stress.crash.journal.actor import Actor
from stress.crash.journal.expectation import Expectation, compare
from stress.crash.journal.loads import JUDGES, Told, open_journal
from stress.crash.journal.marks import Identity, Mark, mark_of
from stress.crash.journal.options import kept_as
from stress.crash.marks import Values
from stress.crash.subject import Judging


@dataclass(slots=True)
class Observation:
    """What came of a state.

    problems: what is wrong whatever had been promised.  first, last: what the first load told, and the last one.
    """

    problems: list[str] = field(default_factory=list)
    first: Told = field(default_factory=Told)
    last: Told = field(default_factory=Told)


class JournalJudging(Judging[Expectation, Observation]):
    """See the module."""

    def __init__(self, seed: str, marks: list[Values]) -> None:
        """Records say which they are; how the journal was kept is told by the files."""

    def expectation(self) -> Expectation:
        """Nothing."""
        return Expectation()

    def add(self, expected: Expectation, mark: Values) -> None:
        """Take one more mark into account."""
        expected.add(mark_of(mark))

    def observe(self, path: Path) -> Observation:
        """Open a state, which is changed by that."""
        return observe(path, kept_as(path))

    def compare(self, seen: Observation, least: Expectation, most: Expectation) -> list[str]:
        """What is wrong."""
        return [*seen.problems, *compare(seen.first, least, most)]

    def crashed(self, least: Expectation, most: Expectation) -> tuple[Values, ...]:
        """What was tried, and what was promised."""
        return tuple(mark.values for mark in least.marks())


class _Unseen:
    def mark(self, mark: Mark) -> None:
        """Nobody looks at what the judge appends but the judge."""


def observe(path: Path, options: JournalOptions, *, writer: int = JUDGES[0]) -> Observation:
    """Open a journal three times, append to it, reclaim and compact it; writer: of what is appended."""
    seen = Observation()
    try:
        _observe(seen, path, options, Actor(_Unseen(), writer))
    except BinlogError as error:
        seen.problems.append(f"{type(error).__name__}: {error}")
    except Exception as error:  # noqa: BLE001 - whatever the journal raises is what is to be told
        seen.problems.append(f"an error that is none of binlog's: {type(error).__name__}: {error}")
    return seen


def _observe(seen: Observation, path: Path, options: JournalOptions, actor: Actor) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    seen.first = seen.last = _visit(seen, path, options, actor, again=False)
    for _ in range(2):
        wanted, alive = seen.last, set(actor.alive)
        seen.last = told = _visit(seen, path, options, actor, again=True)
        if others(told) != others(wanted) or told.prepared != wanted.prepared:
            seen.problems.append("what was there is not there, or is something else, when it is loaded again")
        mine = {record_id for (writer, _), (record_id, _) in told.records.items() if writer == actor.writer}
        if mine != alive:
            seen.problems.append(f"of what was appended {sorted(alive)} is there, and {sorted(mine)} was told")
        if told.failed:
            seen.problems.append(f"transactions are told as failed again: {[*told.failed]}")
    if (left := len(os.listdir("/proc/self/fd")) - descriptors) > 0:
        seen.problems.append(f"{left} descriptors were left open")


def others(told: Told) -> list[tuple[Identity, tuple[int, bool]]]:
    """What a load told, but for what who judges has appended."""
    return [item for item in told.records.items() if item[0][0] not in JUDGES]


def _visit(seen: Observation, path: Path, options: JournalOptions, actor: Actor, *, again: bool) -> Told:
    """Load it once, and append to it."""
    had_attic = (path / ATTIC_FOLDER).exists()
    journal, told = open_journal(path, options)
    try:
        seen.problems += told.wrong if again else []
        seen.problems += _names(path, options, attic=had_attic or bool(told.problems))
        seen.problems += _ids(journal, told)
        if again:
            journal.reclaim()
        _append(journal, actor, told)
        if again:
            journal.compact()
            actor.add(journal)
    finally:
        journal.close()
    return told


def _append(journal: Journal, actor: Actor, told: Told) -> None:
    """Some of everything; a transaction has the id of one that has failed, whose records must not come with it."""
    first, second = actor.add(journal), actor.add(journal)
    tx_id = next(iter(told.failed), actor.new_id())
    added = actor.add_tx(journal, tx_id)
    actor.update_tx(journal, tx_id, first)
    actor.commit(journal, tx_id)
    actor.alive.append(added)
    actor.delete(journal, second)


def _names(path: Path, options: JournalOptions, *, attic: bool) -> list[str]:
    """Nothing may be left of what was being made; all files are whole."""
    wrong = []
    names = options.names
    for name in sorted(os.listdir(path)):
        if names.number(name) is not None:
            if (size := (path / name).stat().st_size) != options.file_bytes:
                wrong.append(f"{name} has {size} bytes once the journal is loaded")
        elif name != LOCK_FILE and not (name == ATTIC_FOLDER and attic):
            wrong.append(f"{name} is there once the journal is loaded")
    return wrong


def _ids(journal: Journal, told: Told) -> list[str]:
    """No id may come again."""
    largest = max([record_id for record_id, _ in told.records.values()] + [*told.prepared, *told.failed], default=0)
    if told.id_max < largest or journal.new_id() <= largest:
        return [f"the largest id is told as {told.id_max}, and {largest} is there"]
    return []
