"""The system of a log: its scenarios for kills, faults and recordings, and the checks of a state.

A state is read, appended to, retries the producer batches of its run, is opened again, appended to and read again;
`check` must report nothing throughout.
"""

from __future__ import annotations

import os
import shutil
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import binlog
from binlog import Background, Entry, Mode, Writer
from binlog.errors import BinlogError, NotFoundError
from binlog.format.log_header import LOG_HEADER, Flag
from binlog.log.append.open_file import OpenFileFinder
from stress.crash.failure_modes.fault import NO_SPACE, Fault, FaultOutcome
from stress.crash.marks import Values
from stress.crash.preloaded.injector import Kind
from stress.crash.records import identity_of, record_bytes
from stress.crash.system import (
    Crash,
    Death,
    ProblemCollector,
    ProcessContext,
    Scenario,
    Storm,
    System,
)
from stress.crash.systems.log.actor import (
    PREPARE_BYTES,
    How,
    LogActor,
    ProducerCall,
    append_producer_batch,
    in_mode,
    many,
    produce,
    producer_calls,
    read,
)
from stress.crash.systems.log.expectation import Entries, Expectation, Observation, compare
from stress.crash.systems.log.leader import one_leader
from stress.crash.systems.log.workloads import PREPARED, WORKLOADS
from stress.crash.workers.victim_process import remove_shared_memory

LOCK_SECONDS = 20.0
_CHECKERS = (1999, 1998)
_LARGE_BYTES = 3000  # two of them exceed the prepared space
_HUGE_BYTES = 150_000  # more than a ring or the leader's buffer takes
_PAGES_BYTES = 9000
"""The size of a record that has a page of its own.  A page shared with a later append is written again with it, so that
the later sync would repair a failed one.
"""

_PROCESSES = 8
_CUTOVERS = 0.002
_BACKGROUND = Background(flush_seconds=0.01, sync_seconds=0.02)
_MODES = (
    (Mode.SYNC,), (Mode.SYNC,), (Mode.SYNC,), (Mode.FLUSH,), (Mode.STAGE,), (Mode.SYNC, Mode.FLUSH, Mode.STAGE),
    (Mode.SYNC, Mode.STAGE), (Mode.SYNC,),
)  # fmt: skip


def _append_until_killed(log: Path, process: ProcessContext, variant: str) -> None:
    own = process.number % _PROCESSES
    modes, chance = _MODES[own], process.chance
    actor = LogActor(log, process, prepare_bytes=PREPARE_BYTES * 64, background=_BACKGROUND)
    while True:
        mode = chance.choice(modes)
        if own == _PROCESSES - 1 or chance.random() < 0.1:
            actor.append_many(chance.randint(2, 6), mode)
        else:
            actor.append(mode)
        if chance.random() < _CUTOVERS:
            actor.cutover()
        elif mode is not Mode.SYNC and chance.random() < 0.01:
            actor.sync()
        if mode is Mode.STAGE and chance.random() < 0.9:
            os.sched_yield()  # otherwise it would fill the log alone


class LogSystem(System[Expectation, Observation]):
    """See the module."""

    name = ""
    noun = "log"
    share = 2.0
    shared = True
    scenarios: ClassVar[Mapping[str, Scenario]] = {
        "open": Scenario((LogActor.append_one,)),
        "append": Scenario((LogActor.append_one, in_mode(Mode.SYNC, size=_PAGES_BYTES), LogActor.append_one)),
        "append_many": Scenario((many(3), many(2))),
        "flush": Scenario((
            in_mode(Mode.FLUSH), in_mode(Mode.FLUSH, size=_PAGES_BYTES), many(2, Mode.FLUSH), LogActor.sync,
            in_mode(Mode.FLUSH),
        )),
        "stage": Scenario((
            in_mode(Mode.FLUSH), in_mode(Mode.STAGE), in_mode(Mode.STAGE), in_mode(Mode.SYNC, size=_PAGES_BYTES),
            in_mode(Mode.STAGE), LogActor.sync, in_mode(Mode.STAGE),
        )),
        # With a record that is written without a copy.
        "grow": Scenario((
            *(in_mode(Mode.SYNC, size=_LARGE_BYTES),) * 3, in_mode(Mode.SYNC, size=_HUGE_BYTES),
            many(3, size=_LARGE_BYTES),
        )),
        "cutover": Scenario((
            in_mode(Mode.SYNC, size=_PAGES_BYTES), in_mode(Mode.FLUSH), in_mode(Mode.STAGE), LogActor.cutover,
            LogActor.append_one,
        )),
        "batches": Scenario((produce(3), in_mode(Mode.SYNC, size=_PAGES_BYTES), produce(3)), after="batches_again"),
        "ingest": Scenario((produce(3, How.FILES), LogActor.append_one, produce(3, How.FILES)), after="ingest_again"),
        "batches_again": Scenario((LogActor.again, produce(3))),
        "ingest_again": Scenario(
            (LogActor.maybe_cutover, LogActor.again, produce(3, How.FILES), LogActor.append_one)
        ),
    }  # fmt: skip
    first = "append"
    recovers = "open"
    fails_first = "batches"
    deaths: ClassVar[Mapping[str, Death]] = {"leader": one_leader}
    stride = 1
    storm = Storm(_append_until_killed, _PROCESSES, kills=100, marks=140, share=0.65)
    faulted = ("open", "append", "append_many", "flush", "stage", "grow", "cutover", "batches", "ingest")
    fault_stride = 1
    tries = 10
    harmless = frozenset({Kind.MEMORY, Kind.MAP, Kind.TRUNCATE})
    poisoning = frozenset({Kind.WRITE, Kind.ALLOCATE})
    full_errors = frozenset({"FullError"})
    choices_max = None
    workloads = WORKLOADS
    prepared = PREPARED

    def open(self, path: Path, process: ProcessContext, variant: str) -> LogActor:
        """Open a writer."""
        return LogActor(path, process)

    def background_reports(self, fault: Fault) -> bool:
        """Never: a log reports only failures of the call itself."""
        return False

    def fails_only_here(self, error: BinlogError) -> bool:
        """Whether it failed while the open file was found by its name, as after an ingest.

        Then nothing was appended, and the process that finds the file next writes and syncs again what this one was to.
        """
        return any(frame.f_code is OpenFileFinder.find.__code__ for frame, _ in traceback.walk_tb(error.__traceback__))

    def wrong_errors(self, fault: Fault, outcome: FaultOutcome, expected: Expectation) -> list[str]:
        """Return the violations in the errors that a fault caused.

        UnknownOutcomeError is right if the record is in the file and could not be published; and for external files,
        which must then join the log.
        """
        in_file = Kind.WRITE in fault.kinds or outcome.errors.count("UnknownOutcomeError") == expected.decided_count
        if fault.error not in NO_SPACE or in_file:
            outcome = replace(outcome, errors=[each for each in outcome.errors if each != "UnknownOutcomeError"])
        return super().wrong_errors(fault, outcome, expected)

    def remove(self, path: Path, memory: str) -> None:
        """Remove the log and its shared memory."""
        shutil.rmtree(path, ignore_errors=True)
        remove_shared_memory(memory)

    def expectation(self) -> Expectation:
        """Return an empty expectation."""
        return Expectation()

    def observe(self, path: Path, marks: Sequence[Values], *, again: bool = False, stays: bool = False) -> Observation:
        """Take the steps of the module on the log in a directory, which need not exist."""
        return observe(path, producer_calls(marks), checker=_CHECKERS[again], after_fault=stays)

    def compare(
        self, seen: Observation, least: Expectation, most: Expectation, crash: Crash = Crash.POWER
    ) -> list[str]:
        """Return the violations."""
        return compare(seen, least, most, in_order=crash is Crash.POWER)

    def check_after_power_cut(self, before: Observation, after: Observation) -> list[str]:
        """Return the violations after a power cut."""
        there = set(after.before)
        return [
            f"{identity}, which was at {ref}, is missing"
            for ref, identity in before.all_
            if (ref, identity) not in there
        ]


def observe(
    log: Path, calls: Sequence[ProducerCall], *, checker: int = _CHECKERS[0], after_fault: bool = False
) -> Observation:
    """Take the steps of the module on a log.

    checker: the writer of the records appended.  after_fault: whether recovery may close the file before records that
        were not synced, though a reader has seen them; after a failed sync the log must continue in the next file.
    """
    seen = Observation()
    records = [record_bytes(checker, index) for index in range(3)]
    with ProblemCollector(seen.problems) as collector:
        collector.step = "reading"
        before: list[Entry] = []
        poisoned = _poisoned_number(log)
        if log.exists():
            problems = [each for each in _problems_so_far(log) if not (poisoned and each.rule == "poison")]
            seen.problems += [f"check before opening: {problem}" for problem in problems]
            before = read(log)
        seen.before = _identified(before, seen.problems)
        collector.step = "appending"
        with Writer(log, prepare_bytes=PREPARE_BYTES, lock_timeout=LOCK_SECONDS) as writer:
            refs = [writer.append(records[0])]
            collector.step = "retrying the producer batches"
            retaken = [each for each in calls if _take_again(writer, log, each)]
        collector.step = "opening again and appending"
        with Writer(log, prepare_bytes=PREPARE_BYTES, lock_timeout=LOCK_SECONDS) as writer:
            refs += writer.append_many(records[1:])
        seen.number = refs[0].number
        if poisoned and after_fault and seen.number <= poisoned:
            seen.problems.append(f"file {poisoned} was poisoned, but the log continues at {refs[0]}")
        collector.step = "reading again"
        seen.problems += [f"check after appending: {problem}" for problem in binlog.check(log)]
        entries = read(log)
        if entries[-2:] != [Entry(*each) for each in zip(refs[1:], records[1:], strict=True)]:
            seen.problems.append(f"the log does not end with the records appended to it: {_show(entries[-3:])}")
        if entries[: len(before)] != before and not after_fault:
            seen.problems.append("records read before the log was opened for writing are missing, or have moved")
        seen.all_ = _identified(entries, seen.problems)
        seen.sizes = {identity: len(entry.data) for entry, (_, identity) in zip(entries, seen.all_, strict=False)}
        seen.problems += _not_taken(retaken, seen.all_)
        taken = {(each.writer, each.first + at) for each in calls for at in range(each.record_count)}
        seen.after = [
            (ref, identity)
            for ref, identity in seen.all_
            if identity[0] not in _CHECKERS and not (ref > refs[0] and identity in taken)
        ]
    return seen


def _take_again(writer: Writer[Any], log: Path, call: ProducerCall) -> bool:
    """Retry a producer batch; return whether it must be in the log now, because no later one of its producer was before
    it.
    """
    last = writer.last_producer_batch(call.source)
    append_producer_batch(writer, log, call)
    return last is None or last.sequence <= call.first


def _not_taken(calls: Sequence[ProducerCall], entries: Entries) -> list[str]:
    """Check that each of these producer batches is in the log once."""
    wrong = []
    for each in calls:
        own = [index for _, (writer, index) in entries if writer == each.writer]
        indexes = range(each.first, each.first + each.record_count)
        if [index for index in own if index in indexes] != [*indexes]:
            wrong.append(f"the producer batch {each} was retried, but the log has {own}")
    return wrong


def _identified(entries: list[Entry], problems: list[str]) -> Entries:
    found = []
    for entry in entries:
        identity = identity_of(entry.data)
        if identity is None:
            problems.append(f"the record at {entry.ref} was never appended: {_show([entry])}")
        found.append((entry.ref, identity or (-1, 0)))
    return found


def _problems_so_far(log: Path) -> list[binlog.Problem]:
    """Return the problems that `check` reports; nothing in a directory in which a process died before it had made a
    log."""
    try:
        return binlog.check(log)
    except NotFoundError:
        return []


def _poisoned_number(log: Path) -> int:
    """Return the number of the file whose header says that a write or sync failed, 0 if there is none."""
    flags = LOG_HEADER.offset("flags")
    for path in sorted(log.glob("*.dat")):
        if int.from_bytes(path.read_bytes()[flags : flags + 2], "big") & Flag.POISON:
            return int(path.stem)
    return 0


def _show(entries: list[Entry]) -> str:
    return ", ".join(f"{entry.ref} {entry.data[:24]!r} ({len(entry.data)} bytes)" for entry in entries)
