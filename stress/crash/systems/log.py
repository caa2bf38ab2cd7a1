"""A log: how it is used by processes that die, meet faults, or are recorded, and what a state of it must be.

A state is read, appended to, has the turns of its run taken again, is opened again, appended to and read again; `check`
is silent throughout.
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
from stress.crash.fault import NO_SPACE, Fared, Fault
from stress.crash.marks import Values
from stress.crash.mortal import remove_shared_memory
from stress.crash.records import identity_of, record_bytes
from stress.crash.striker import Kind
from stress.crash.system import (
    Crash,
    Death,
    Observing,
    Scenario,
    Storm,
    System,
    Who,
)
from stress.crash.systems.log_actor import (
    PREPARE_BYTES,
    How,
    LogActor,
    Turn,
    in_mode,
    many,
    read,
    take_turn,
    turn,
    turns_in,
)
from stress.crash.systems.log_expectation import Entries, Expectation, Observation, compare
from stress.crash.systems.log_leader import one_leader
from stress.crash.systems.log_workloads import PREPARED, WORKLOADS

LOCK_SECONDS = 20.0
_JUDGES = (1999, 1998)
_LARGE_BYTES = 3000  # two of them lead beyond the space that was prepared
_HUGE_BYTES = 150_000  # more than a ring or the leader's buffer takes
_PAGES_BYTES = 9000
"""A record that has a page of its own: what shares one with a later append is written anew with it, and so the later
sync makes good what one that failed left out."""

_PROCESSES = 8
_CUTOVERS = 0.002
_BACKGROUND = Background(flush_seconds=0.01, sync_seconds=0.02)
_MODES = (
    (Mode.SYNC,), (Mode.SYNC,), (Mode.SYNC,), (Mode.FLUSH,), (Mode.STAGE,), (Mode.SYNC, Mode.FLUSH, Mode.STAGE),
    (Mode.SYNC, Mode.STAGE), (Mode.SYNC,),
)  # fmt: skip


def _append_for_ever(log: Path, who: Who, kept: str) -> None:
    own = who.life % _PROCESSES
    modes, chance = _MODES[own], who.chance
    actor = LogActor(log, who, prepare_bytes=PREPARE_BYTES * 64, background=_BACKGROUND)
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
            os.sched_yield()  # it would fill the log alone


class LogSystem(System[Expectation, Observation]):
    """See the module."""

    name = ""
    noun = "log"
    share = 2.0
    shared = True
    scenarios: ClassVar[Mapping[str, Scenario]] = {
        "open": Scenario((LogActor.go_on,)),
        "append": Scenario((LogActor.go_on, in_mode(Mode.SYNC, size=_PAGES_BYTES), LogActor.go_on)),
        "append_many": Scenario((many(3), many(2))),
        "flush": Scenario((
            in_mode(Mode.FLUSH), in_mode(Mode.FLUSH, size=_PAGES_BYTES), many(2, Mode.FLUSH), LogActor.sync,
            in_mode(Mode.FLUSH),
        )),
        "stage": Scenario((
            in_mode(Mode.FLUSH), in_mode(Mode.STAGE), in_mode(Mode.STAGE), in_mode(Mode.SYNC, size=_PAGES_BYTES),
            in_mode(Mode.STAGE), LogActor.sync, in_mode(Mode.STAGE),
        )),
        # With a record that is written from where it lies.
        "grow": Scenario((
            *(in_mode(Mode.SYNC, size=_LARGE_BYTES),) * 3, in_mode(Mode.SYNC, size=_HUGE_BYTES),
            many(3, size=_LARGE_BYTES),
        )),
        "cutover": Scenario((
            in_mode(Mode.SYNC, size=_PAGES_BYTES), in_mode(Mode.FLUSH), in_mode(Mode.STAGE), LogActor.cutover,
            LogActor.go_on,
        )),
        "turns": Scenario((turn(3), in_mode(Mode.SYNC, size=_PAGES_BYTES), turn(3)), after="turns_again"),
        "drafts": Scenario((turn(3, How.DRAFTS), LogActor.go_on, turn(3, How.DRAFTS)), after="drafts_again"),
        "turns_again": Scenario((LogActor.again, turn(3))),
        "drafts_again": Scenario(
            (LogActor.perhaps_cutover, LogActor.again, turn(3, How.DRAFTS), LogActor.go_on)
        ),
    }  # fmt: skip
    first = "append"
    recovers = "open"
    fails_first = "turns"
    deaths: ClassVar[Mapping[str, Death]] = {"leader": one_leader}
    stride = 1
    storm = Storm(_append_for_ever, _PROCESSES, kills=100, marks=140, share=0.65)
    faulted = ("open", "append", "append_many", "flush", "stage", "grow", "cutover", "turns", "drafts")
    fault_stride = 1
    tries = 10
    harmless = frozenset({Kind.MEMORY, Kind.MAP, Kind.TRUNCATE})
    poisoning = frozenset({Kind.WRITE, Kind.ALLOCATE})
    full_errors = frozenset({"FullError"})
    choices_max = None
    workloads = WORKLOADS
    prepared = PREPARED

    def open(self, path: Path, who: Who, kept: str) -> LogActor:
        """Open a writer."""
        return LogActor(path, who)

    def background_tells(self, fault: Fault) -> bool:
        """Not what befell something in the background."""
        return False

    def fails_alone(self, error: BinlogError) -> bool:
        """Whether it failed while the open file was found by its name, as after drafts.

        Then nothing was appended, and whoever finds the file next writes and syncs anew what this one was to.
        """
        return any(frame.f_code is OpenFileFinder.find.__code__ for frame, _ in traceback.walk_tb(error.__traceback__))

    def wrong_errors(self, fault: Fault, fared: Fared, expected: Expectation) -> list[str]:
        """What is wrong with the errors that somebody was told of a fault.

        UnknownOutcomeError is right if the record is in the file and could not be published; and for drafts, which must
        come into the log then.
        """
        in_file = Kind.WRITE in fault.kinds or fared.errors.count("UnknownOutcomeError") == expected.decided_count
        if fault.error not in NO_SPACE or in_file:
            fared = replace(fared, errors=[each for each in fared.errors if each != "UnknownOutcomeError"])
        return super().wrong_errors(fault, fared, expected)

    def remove(self, path: Path, memory: str) -> None:
        """Remove it, and its shared memory."""
        shutil.rmtree(path, ignore_errors=True)
        remove_shared_memory(memory)

    def expectation(self) -> Expectation:
        """Nothing."""
        return Expectation()

    def observe(self, path: Path, marks: Sequence[Values], *, again: bool = False, stays: bool = False) -> Observation:
        """Do all that the module says to the log in a directory, which need not be there."""
        return observe(path, turns_in(marks), judge=_JUDGES[again], after_fault=stays)

    def compare(
        self, seen: Observation, least: Expectation, most: Expectation, crash: Crash = Crash.POWER
    ) -> list[str]:
        """What is wrong."""
        return compare(seen, least, most, in_order=crash is Crash.POWER)

    def lasted(self, before: Observation, after: Observation) -> list[str]:
        """What is wrong after a power cut."""
        there = set(after.before)
        return [
            f"{identity}, which was at {ref}, is not there"
            for ref, identity in before.all_
            if (ref, identity) not in there
        ]


def observe(log: Path, turns: Sequence[Turn], *, judge: int = _JUDGES[0], after_fault: bool = False) -> Observation:
    """Do all that the module says.

    judge: who appends.  after_fault: what was in the file and not synced may be set aside, though a reader has seen it;
        and after a sync that failed the log goes on in the next file.
    """
    seen = Observation()
    records = [record_bytes(judge, index) for index in range(3)]
    with Observing(seen.problems) as observing:
        observing.step = "reading"
        before: list[Entry] = []
        poisoned = _poisoned_number(log)
        if log.exists():
            problems = [each for each in _problems_so_far(log) if not (poisoned and each.rule == "poison")]
            seen.problems += [f"check before opening: {problem}" for problem in problems]
            before = read(log)
        seen.before = _identified(before, seen.problems)
        observing.step = "appending"
        with Writer(log, prepare_bytes=PREPARE_BYTES, lock_timeout=LOCK_SECONDS) as writer:
            refs = [writer.append(records[0])]
            observing.step = "taking the turns again"
            retaken = [each for each in turns if _take_again(writer, log, each)]
        observing.step = "opening again and appending"
        with Writer(log, prepare_bytes=PREPARE_BYTES, lock_timeout=LOCK_SECONDS) as writer:
            refs += writer.append_many(records[1:])
        seen.number = refs[0].number
        if poisoned and after_fault and seen.number <= poisoned:
            seen.problems.append(f"file {poisoned} was poisoned, and the log goes on at {refs[0]}")
        observing.step = "reading again"
        seen.problems += [f"check after appending: {problem}" for problem in binlog.check(log)]
        entries = read(log)
        if entries[-2:] != [Entry(*each) for each in zip(refs[1:], records[1:], strict=True)]:
            seen.problems.append(f"the log does not end with what was appended to it: {_show(entries[-3:])}")
        if entries[: len(before)] != before and not after_fault:
            seen.problems.append("what was read before the log was opened for writing is not there, or elsewhere")
        seen.all_ = _identified(entries, seen.problems)
        seen.sizes = {identity: len(entry.data) for entry, (_, identity) in zip(entries, seen.all_, strict=False)}
        seen.problems += _not_taken(retaken, seen.all_)
        taken = {(each.writer, each.first + at) for each in turns for at in range(each.record_count)}
        seen.after = [
            (ref, identity)
            for ref, identity in seen.all_
            if identity[0] not in _JUDGES and not (ref > refs[0] and identity in taken)
        ]
    return seen


def _take_again(writer: Writer[Any], log: Path, turn: Turn) -> bool:
    """Take a turn again; whether all of it must be there now, as the source's later turns were not taken before it."""
    last = writer.last_producer_batch(turn.source)
    take_turn(writer, log, turn)
    return last is None or last.sequence <= turn.first


def _not_taken(turns: Sequence[Turn], entries: Entries) -> list[str]:
    """Each of these turns must be there, once."""
    wrong = []
    for each in turns:
        own = [index for _, (writer, index) in entries if writer == each.writer]
        indexes = range(each.first, each.first + each.record_count)
        if [index for index in own if index in indexes] != [*indexes]:
            wrong.append(f"of a turn that was taken again, {each}, the log has {own}")
    return wrong


def _identified(entries: list[Entry], problems: list[str]) -> Entries:
    found = []
    for entry in entries:
        identity = identity_of(entry.data)
        if identity is None:
            problems.append(f"at {entry.ref} is a record that nobody appended: {_show([entry])}")
        found.append((entry.ref, identity or (-1, 0)))
    return found


def _problems_so_far(log: Path) -> list[binlog.Problem]:
    """What `check` finds; nothing in a directory in which the process died before it had begun a log."""
    try:
        return binlog.check(log)
    except NotFoundError:
        return []


def _poisoned_number(log: Path) -> int:
    """The file that says of itself that a write or sync failed, 0 for none."""
    flags = LOG_HEADER.offset("flags")
    for path in sorted(log.glob("*.dat")):
        if int.from_bytes(path.read_bytes()[flags : flags + 2], "big") & Flag.POISON:
            return int(path.stem)
    return 0


def _show(entries: list[Entry]) -> str:
    return ", ".join(f"{entry.ref} {entry.data[:24]!r} ({len(entry.data)} bytes)" for entry in entries)
