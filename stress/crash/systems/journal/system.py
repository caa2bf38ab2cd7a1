"""The system of a journal (`binlog.journal`), in files that some ten records fill, except for `blocks`.

A process marks each call before it makes it, and its promise after it.  It also marks the result of each load: the
records loaded are promised from then on, and those that were not loaded are gone for good.  To check a state, the
journal is loaded three times, appended to, reclaimed and compacted.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from errno import ENOSPC
from pathlib import Path
from typing import ClassVar

from binlog.format.journal.block import BLOCK_BYTES
from binlog.format.journal.file_header import JournalLayout
from binlog.format.journal.names import COMPACTED_END, LOCK_FILE, NEW_END, QUARANTINE_FOLDER
from binlog.format.journal.record import Kind as RecordKind
from binlog.journal.journal import Journal
from binlog.journal.options import JournalOptions, Sync
from stress.crash.failure_modes.fault import FAULTS, Fault
from stress.crash.marks import Values
from stress.crash.preloaded.injector import Action, Injection, Kind, arm
from stress.crash.records import Identity
from stress.crash.system import AFTER_DEATH, Crash, ProblemCollector, ProcessContext, Scenario, Storm, System
from stress.crash.systems.journal.actor import (
    ALL,
    COMPACTION,
    ONLY_ADDED,
    RECORDS,
    REUSE,
    TRANSACTIONS,
    JournalActor,
    take_steps,
)
from stress.crash.systems.journal.expectation import Expectation, compare
from stress.crash.systems.journal.marks import CHECKERS, LoadedState, MarkKind, loaded_state, plain_mark
from stress.crash.workers.victim_process import repeat_in_threads, run_and_kill

_SMALL = JournalOptions(file_bytes=2048, buffer_bytes=1024, flush_seconds=0.002, compact_files_min=0, pool_files=4)
OPTIONS: dict[str, JournalOptions] = {
    "native": _SMALL,
    "blocks": replace(_SMALL, file_bytes=16 * BLOCK_BYTES, buffer_bytes=1 << 16),
    "tiny": replace(_SMALL, file_bytes=1024, buffer_bytes=600, pool_files=3),
    "jbm": replace(_SMALL, file_bytes=2560, layout=JournalLayout.JBM),
}
"""The variants by name; each has files of another size."""

# A process dies before one of the first syncs of journal files in a compaction, most of which free dead files.
_SYNCS_OF_COMPACTION = 2
_NATIVE = ("native", "blocks", "tiny")
_FULL_DISKS = [Fault((Kind.OPEN, Kind.WRITE), ENOSPC, end) for end in (NEW_END, COMPACTED_END)]
"""Faults of a full disk, at the calls that meet them on a real one: an existing file has all of its blocks already."""


@dataclass(slots=True)
class Observation:
    """The observation of a state.

    problems: violations that do not depend on the marks.  first, last: the results of the first load and the last.
    """

    problems: list[str] = field(default_factory=list)
    first: LoadedState = field(default_factory=LoadedState)
    last: LoadedState = field(default_factory=LoadedState)


def _append_until_killed(path: Path, process: ProcessContext, variant: str) -> None:
    actor = JournalSystem().open(path, process, variant)
    mixes_variants = {actor: RECORDS, actor.for_thread(1): ALL, actor.for_thread(2): REUSE}
    repeat_in_threads(
        *(lambda each=each, steps=steps: take_steps(each, steps, 10) for each, steps in mixes_variants.items())
    )


class JournalSystem(System[Expectation, Observation]):
    """See the module."""

    name = "journal"
    noun = "journal"
    variants = tuple(OPTIONS)
    scenarios: ClassVar[Mapping[str, Scenario]] = {
        "records": Scenario(RECORDS, 8),
        "transactions": Scenario(TRANSACTIONS, 4, open_count=3),
        "reuse": Scenario(REUSE, 20),
        "compaction": Scenario(COMPACTION, 15),
        "all": Scenario(ALL, 15),
    }
    storm = Storm(_append_until_killed)
    faults: ClassVar[Mapping[str, Fault]] = {**FAULTS, **{fault.name: fault for fault in _FULL_DISKS}}
    fault_kinds = frozenset({
        Kind.READ, Kind.WRITE, Kind.DATA_SYNC, Kind.SYNC, Kind.OPEN, Kind.LINK, Kind.UNLINK, Kind.MAKE_DIRECTORY,
        Kind.LOCK,
    })  # fmt: skip
    # Only a failed write or sync, or a failed rename of a compaction, poisons the journal; also if the reason is a full
    # disk, which only new files can meet, though writes to other files report it too.
    poisoning = frozenset({Kind.WRITE, Kind.LINK})

    def __init__(self) -> None:
        self.workloads = {
            "records": self.repeated(Scenario(RECORDS, 12), 2),
            "waiting": self.repeated(Scenario((_waiting, *(_any,) * 8)), 2),
            "transactions": self.repeated(Scenario(TRANSACTIONS, 6), 3),
            "reuse": self.repeated(Scenario(REUSE, 25), 2),
            "compaction": self.repeated(Scenario(COMPACTION, 14), 2),
            "threads": self.repeated(Scenario((_threads,)), 1),
            # This layout's checks accept a torn record if the file has old bytes there.  So no file is reused, and no
            # record spans more than two sectors.
            "jbm": self.repeated(Scenario(ONLY_ADDED, 9), 2, "jbm"),
            "killed": self.killed(Scenario(ALL, 30), Scenario((_waiting, *(_any,) * 6)), 200),
            "compaction-killed": self._compact_and_die,
            "recovery": self.continued(Scenario((_waiting, *(_any,) * 6))),
        }

    def _compact_and_die(self, path: Path, seed: str) -> None:
        """Kill a process before a sync of a compaction, and let another one continue."""
        sync = random.Random(f"{seed}/sync").randrange(_SYNCS_OF_COMPACTION)

        def compact(actor: JournalActor) -> None:
            take_steps(actor, COMPACTION, 20)
            arm(Injection(Action.KILL_BEFORE, sync, (Kind.DATA_SYNC,), names_end=".jnl"), str(path))
            actor.compact()

        run_and_kill(lambda: self._recorded(path, Scenario((compact,)), seed, 1))
        self._recorded(path, Scenario((_waiting, _any)), seed, AFTER_DEATH)

    def variant_of(self, seed: str) -> str:
        """Choose one of the variants in our own layout."""
        return random.Random(f"{seed}/kept").choice(_NATIVE)

    def crash_of(self, variant: str) -> Crash:
        """A write within one page of memory is atomic; only `blocks` has larger ones."""
        return Crash.TORN if variant == "blocks" else Crash.KILL

    def open(self, path: Path, process: ProcessContext, variant: str) -> JournalActor:
        """Load the journal, in its own variant if it exists; the actor takes over its records."""
        process.witness.mark(plain_mark(MarkKind.LOADING))
        journal, state = _load(path, variant_in(path) or OPTIONS[variant])
        process.wrong.extend(f"a load returned: {line}" for line in state.wrong)
        for mark in state.marks():
            process.witness.mark(mark)
        return JournalActor(journal, process, state)

    def expectation(self) -> Expectation:
        """Return an empty expectation."""
        return Expectation()

    def observe(self, path: Path, marks: Sequence[Values], *, again: bool = False, stays: bool = False) -> Observation:
        """Load the journal three times, append to it, reclaim and compact it."""
        return observe(path, writer=CHECKERS[again])

    def compare(self, seen: Observation, least: Expectation, most: Expectation, crash: Crash) -> list[str]:
        """Return the violations."""
        return compare(seen.first, least, most, crash)

    def check_after_power_cut(self, before: Observation, after: Observation) -> list[str]:
        """Return the violations after a power cut."""
        state = after.first
        if _others(state) != _others(before.last) or state.prepared != before.last.prepared or state.failed:
            return [*state.wrong, "the journal differs from what it held when it was closed"]
        return state.wrong


def variant_in(path: Path) -> JournalOptions | None:
    """Return the options of the journal in a folder, by the size of its files; None if it has none."""
    by_size = {options.file_bytes: options for options in OPTIONS.values()}
    found = (by_size.get(file.stat().st_size) for file in sorted(path.glob("journal-*.jnl")))
    return next((options for options in found if options is not None), None)


def _load(path: Path, options: JournalOptions) -> tuple[Journal, LoadedState]:
    """Start and load a journal; close it if that fails."""
    journal = Journal(path, options)
    try:
        journal.start()
        loaded = journal.load()
        return journal, loaded_state(loaded, keeps_ids=journal._files.layout is JournalLayout.NATIVE)
    except BaseException:
        journal.close()
        raise


def _waiting(actor: JournalActor) -> None:
    """Make the actor wait for each call's sync."""
    actor.syncs = (Sync.WAIT,)


def _any(actor: JournalActor) -> None:
    take_steps(actor, ALL, 1)


def _threads(actor: JournalActor) -> None:
    """Append from three threads at once; the third compacts and reclaims too."""
    actors, mixes_variants = (actor, actor.for_thread(1), actor.for_thread(2)), (RECORDS, TRANSACTIONS, COMPACTION)
    with ThreadPoolExecutor() as threads:
        _ = [*threads.map(take_steps, actors, mixes_variants, (7,) * 3)]


class _Unseen:
    def mark(self, mark: tuple[object, ...]) -> None:
        """Drop the mark: only the checker knows about its own records."""


def observe(path: Path, *, writer: int = CHECKERS[0]) -> Observation:
    """Load a journal three times, append to it, reclaim and compact it.  writer: of the records appended."""
    seen = Observation()
    with ProblemCollector(seen.problems):
        actor: JournalActor | None = None
        for number in range(3):
            wanted, alive = seen.last, set(actor.alive) if actor else set()
            actor = _visit(seen, path, actor, writer)
            if number == 0:
                seen.first = seen.last
                continue
            state = seen.last
            if _others(state) != _others(wanted) or state.prepared != wanted.prepared:
                seen.problems.append("the journal differs after it was loaded again")
            mine = {record_id for (each, _), (record_id, _) in state.records.items() if each == writer}
            if mine != alive:
                seen.problems.append(f"the checker's records are {sorted(alive)}, but {sorted(mine)} were loaded")
            if state.failed:
                seen.problems.append(f"transactions are reported as failed again: {[*state.failed]}")
            seen.problems += state.wrong
    return seen


def _others(state: LoadedState) -> list[tuple[Identity, tuple[int, bool]]]:
    """Return the records of a load, except those that the checker appended."""
    return [item for item in state.records.items() if item[0][0] not in CHECKERS]


def _visit(seen: Observation, path: Path, before: JournalActor | None, writer: int) -> JournalActor:
    """Load the journal once, and append to it."""
    options = variant_in(path) or OPTIONS["native"]
    had_quarantine = (path / QUARANTINE_FOLDER).exists()
    journal, state = _load(path, options)
    try:
        seen.last = state
        actor = JournalActor(journal, ProcessContext(_Unseen(), 0, random.Random(0)), None)
        actor.writer = writer
        if before is not None:
            actor.alive, actor.count = before.alive, before.count
        seen.problems += _names(path, options, quarantine=had_quarantine or bool(state.problems))
        seen.problems += _ids(journal, state)
        if before is not None:
            journal.reclaim()
        _append(actor, state)
        if before is not None:
            journal.compact()
            actor.append_one()
    finally:
        journal.close()
    return actor


def _append(actor: JournalActor, state: LoadedState) -> None:
    """Append some of everything; one transaction reuses the id of a failed one, whose records must not come back with
    it.
    """
    first, second = actor.add_one(Sync.WAIT), actor.add_one(Sync.WAIT)
    tx_id = next(iter(state.failed), actor.new_id())
    added = actor.new_id()
    actor.call(RecordKind.ADD_TX, Sync.LATER, tx_id=tx_id, record_id=added)
    actor.call(RecordKind.UPDATE_TX, Sync.LATER, tx_id=tx_id, record_id=first)
    actor.call(RecordKind.COMMIT, Sync.WAIT, tx_id=tx_id)
    actor.alive.append(added)
    actor.alive.remove(second)
    actor.call(RecordKind.DELETE, Sync.WAIT, record_id=second)


def _names(path: Path, options: JournalOptions, *, quarantine: bool) -> list[str]:
    """Check that no unfinished file is left, and that all files have their full size."""
    wrong = []
    names = options.names
    for name in sorted(os.listdir(path)):
        if names.number(name) is not None:
            if (size := (path / name).stat().st_size) != options.file_bytes:
                wrong.append(f"{name} has {size} bytes after a load")
        elif name != LOCK_FILE and not (name == QUARANTINE_FOLDER and quarantine):
            wrong.append(f"{name} exists after a load")
    return wrong


def _ids(journal: Journal, state: LoadedState) -> list[str]:
    """Check that ids are not given out twice."""
    largest = max([record_id for record_id, _ in state.records.values()] + [*state.prepared, *state.failed], default=0)
    if state.id_max < largest or journal.new_id() <= largest:
        return [f"the largest id is reported as {state.id_max}, but {largest} is in use"]
    return []
