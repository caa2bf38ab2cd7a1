"""Judging one state: it is opened, read, appended to, closed, opened again, appended to and read again.

What comes of that depends on the state's bytes alone, and is an Observation.  Whether it is right depends on what had
been acknowledged as well, so the same state at a later prefix is judged again without being opened again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import binlog
from binlog import Entry, Ref, Writer
from binlog.errors import BinlogError, NotFoundError
from stress.crash.expectation import DRAFTS, TURNS, Given, Own, take_turn

PREPARE_BYTES = 4096
LOCK_SECONDS = 20.0

_APPENDED = (b"the first after the crash", b"the second, by another writer", b"and a third, with the second")

Identity = tuple[int, int]
"""Which record: its writer, and as which of the writer's own."""


def problems_so_far(log: Path) -> list[binlog.Problem]:
    """What `check` finds; nothing in a directory in which the process died before it had begun a log."""
    try:
        return binlog.check(log)
    except NotFoundError:
        return []


@dataclass(frozen=True, slots=True)
class Observation:
    """What came of a state.

    problems: what is wrong whatever had been acknowledged.
    seen: each writer's records, in their order, before a writer opened the log; refs: where they lay after.
    number: the file that the harness' own record went to.
    """

    problems: tuple[str, ...]
    seen: Mapping[int, int]
    refs: Mapping[int, tuple[Ref, ...]]
    number: int


class Judge:
    """Judges the states of one run.

    records: which record is which, of all that the run tried to append.
    bounds: how many records of each writer may be there.
    turns: those of sources, which are tried again; seed: of their bytes.
    """

    def __init__(
        self,
        records: dict[bytes, Identity],
        bounds: Mapping[int, frozenset[int]],
        seed: str = "",
        turns: Sequence[Given] = (),
    ) -> None:
        self._records = records
        self._bounds = bounds
        self._seed = seed
        self._turns = turns
        # Of two files, the first has one record: see take_turn.
        self._ends_of_files = frozenset(given.first + 1 for given in turns if given.source == DRAFTS)

    def observe(self, log: Path) -> Observation:
        """Do all that the module says to the log in a directory, which need not be there."""
        problems: list[str] = []
        before: list[Entry] = []
        after: list[Entry] = []
        number = 0
        step = "reading"
        try:
            if log.exists():
                problems += [f"check before opening: {problem}" for problem in problems_so_far(log)]
                before = _read(log)
            step = "appending"
            with Writer(log, prepare_bytes=PREPARE_BYTES, lock_timeout=LOCK_SECONDS) as writer:
                refs = [writer.append(_APPENDED[0])]
                step = "taking the turns again"
                for given in self._turns:
                    take_turn(writer, log, self._seed, given)
            step = "opening again and appending"
            with Writer(log, prepare_bytes=PREPARE_BYTES, lock_timeout=LOCK_SECONDS) as writer:
                refs += writer.append_many(_APPENDED[1:])
            number = refs[0].number
            step = "reading again"
            problems += [f"check after appending: {problem}" for problem in binlog.check(log)]
            after = self._without_turns(_read(log), refs[0], problems)
            appended = [Entry(ref, data) for ref, data in zip(refs, _APPENDED, strict=True)]
            if after[-len(appended) :] != appended:
                problems.append(f"the log does not end with what was appended to it: {_show(after[-3:])}")
            after = after[: -len(appended)]
            if after[: len(before)] != before:
                problems.append("what was read before the log was opened for writing is not there, or elsewhere")
        except BinlogError as error:
            problems.append(f"{step}: {type(error).__name__}: {error}")
        except Exception as error:  # noqa: BLE001 - whatever the log raises is what is to be told
            problems.append(f"{step}: an error that is none of binlog's: {type(error).__name__}: {error}")
        found = self._by_writer(before, problems, ingested=False)
        seen = {writer: len(refs) for writer, refs in found.items()}
        places = self._by_writer(after, problems)
        return Observation(tuple(problems), seen, places, number)

    def _without_turns(self, entries: list[Entry], first: Ref, problems: list[str]) -> list[Entry]:
        """Without the turns that were appended only now: behind `first`.  All of them must be there, once."""
        for source in (TURNS, DRAFTS):
            count = sum(given.count for given in self._turns if given.source == source)
            own = [entry for entry in entries if self._records.get(entry.data, (None, 0))[0] == source]
            if [self._records[entry.data][1] for entry in own] != list(range(count)):
                problems.append(f"of {count} records of turns that were taken again, the log has {_show(own)}")
            if own:
                entries = [entry for entry in entries if not (entry.ref > first and entry in own)]
        return entries

    def _by_writer(
        self, entries: list[Entry], problems: list[str], *, ingested: bool = True
    ) -> dict[int, tuple[Ref, ...]]:
        """Where each writer's records lie; they must be its first ones, in order, each once, and whole calls.

        ingested: whether a writer has finished all ingests; before that, a reader may see the first files of one, each
        of them whole, and nothing behind them: whoever appends has placed the others first (decision 32).
        """
        found: dict[int, list[Ref]] = {}
        for entry in entries:
            identity = self._records.get(entry.data)
            if identity is None:
                problems.append(f"at {entry.ref} is a record that nobody appended: {_show([entry])}")
                continue
            writer, index = identity
            own = found.setdefault(writer, [])
            if index != len(own):
                problems.append(f"at {entry.ref} is record {index} of writer {writer}, expected was {len(own)}")
            own.append(entry.ref)
        for writer, own in found.items():
            bounds = self._bounds.get(writer, frozenset())
            if not ingested and writer == DRAFTS and entries[-1].ref == own[-1]:
                bounds |= self._ends_of_files
            if len(own) not in bounds:
                problems.append(f"{len(own)} records of writer {writer} are there, which is a part of one call's")
        return {writer: tuple(own) for writer, own in found.items()}


def compare(seen: Observation, least: Mapping[int, Own], most: Mapping[int, Own], number_least: int) -> list[str]:
    """What is wrong with an observation.

    least: what had been acknowledged at the last tick at which the state may arise; most: tried, at the first.
    """
    wrong = list(seen.problems)
    for writer, own in least.items():
        refs = seen.refs.get(writer, ())
        if len(refs) < own.acknowledged:
            wrong.append(f"{own.acknowledged} records of writer {writer} were acknowledged, {len(refs)} are there")
        elif seen.seen.get(writer, 0) < own.acknowledged:
            there = seen.seen.get(writer, 0)
            wrong.append(f"a reader before any writer saw {there} of {own.acknowledged} acknowledged by {writer}")
        wrong += [
            f"record {index} of writer {writer} was acknowledged at {ref} and lies at {refs[index]}"
            for index, ref in own.refs.items()
            if index < min(own.acknowledged, len(refs)) and refs[index] != ref
        ]
    for writer, refs in seen.refs.items():
        tried = most[writer].tried if writer in most else 0
        if len(refs) > tried:
            wrong.append(f"{len(refs)} records of writer {writer} are there, {tried} were tried")
    if not wrong and seen.number < number_least:
        wrong.append(f"the log goes on in file {seen.number}, and was cut over to {number_least}")
    return wrong


def _read(log: Path) -> list[Entry]:
    with binlog.Reader(log) as reader:
        return list(reader)


def _show(entries: list[Entry]) -> str:
    return ", ".join(f"{entry.ref} {entry.data[:24]!r} ({len(entry.data)} bytes)" for entry in entries)
