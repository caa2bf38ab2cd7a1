"""What is recorded: small runs of the public API that tell, in marks, what they tried and what they were told.

Each is a function of a log's path and a seed, and runs in a process that the recorder is preloaded into.  To add one,
write it and put it into WORKLOADS; to add a mode of appending, put it into MODES.
"""

from __future__ import annotations

import os
import random
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import binlog
from binlog import Reader, Ref, Writer
from stress.crash.expectation import DRAFTS, TURNS, Given, record_of, take_turn
from stress.crash.jpos import Peer, peer_file
from stress.crash.judge import PREPARE_BYTES
from stress.crash.marks import Mark, MarkKind, Recorder, Values
from stress.crash.recording import Prepare
from stress.crash.striker import Action, Kind, Strike, arm
from stress.crash.subject import Workload

MODES = ("sync", "flush", "stage")
"""The modes of the workload `modes`, as binlog.Mode names them.  In any but `sync`, an append is acknowledged only by a
later append in `sync` or a `sync()` of the same writer."""

# The syncs of log files by a process that makes a log and appends a turn as drafts.
_SYNC_OF_HEADER, _SYNC_OF_CLOSE, _SYNC_OF_SECOND_CLOSE = range(3)
_AFTER_RECOVERY = 20  # the writer of what is appended once a crashed log was opened; no other workload has so many


class Told:
    """A writer whose every call is marked."""

    def __init__(self, log: Path, seed: str, number: int, *, first: int = 0) -> None:
        self._log = log
        self._seed = seed
        self._number = number
        self._count = first
        self._recorder = Recorder()
        self._writer = Writer(log, prepare_bytes=PREPARE_BYTES)

    def append(self, mode: str = "sync") -> None:
        """Append the next record."""
        self._append(1, mode, many=False)

    def append_many(self, count: int, mode: str = "sync") -> None:
        """Append the next records together."""
        self._append(count, mode, many=True)

    def append_turn(self, number: int, count: int) -> None:
        """Append the next records as a turn of the source that this writer is, which `judge` tries again."""
        first, self._count = self._count, self._count + count
        self._mark(MarkKind.TRIED, first, count, None)
        runs = take_turn(self._writer, self._log, self._seed, Given(self._number, number, first, count))
        assert runs
        for run_count, ref in runs:
            self._mark(MarkKind.ACKNOWLEDGED, first, run_count, ref)
            first += run_count

    def cutover(self) -> None:
        """Cut over, whatever the open file is."""
        self._mark(MarkKind.CUT_OVER, 0, 0, Ref(self._writer.cutover(), 0))

    def sync(self) -> None:
        """Sync, which acknowledges everything before."""
        self._writer.sync()
        self._mark(MarkKind.ACKNOWLEDGED, 0, self._count, None)

    def close(self) -> None:
        """Close the writer."""
        self._writer.close()

    def _append(self, count: int, mode: str, *, many: bool) -> None:
        first, self._count = self._count, self._count + count
        records = [record_of(self._seed, self._number, index) for index in range(first, self._count)]
        self._mark(MarkKind.TRIED, first, count, None)
        option: dict[str, Any] = {} if mode == "sync" else {"mode": binlog.Mode[mode.upper()]}
        refs = self._writer.append_many(records, **option) if many else [self._writer.append(records[0], **option)]
        if mode == "sync":
            self._mark(MarkKind.ACKNOWLEDGED, first, count, refs[0])

    def _mark(self, kind: MarkKind, first: int, count: int, ref: Ref | None) -> None:
        self._recorder.mark(Mark(kind, self._number, first, count, ref))


def _at_once(*works: Callable[[], None]) -> None:
    """Run each in a forked child, all at once."""
    children = []
    for work in works:
        child = os.fork()
        if child == 0:
            try:
                work()
            except BaseException:  # noqa: BLE001 - the child ends here, whatever it was
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        children.append(child)
    failed = [child for child in children if os.waitpid(child, 0)[1] != 0]
    if failed:
        raise RuntimeError(f"{len(failed)} of {len(children)} processes of a workload failed")


def single(log: Path, seed: str) -> None:
    """One record at a time, by one writer that is opened anew once."""
    chance = random.Random(seed)
    count = chance.randint(8, 12)
    first = chance.randint(1, count - 1)
    for start, stop in ((0, first), (first, count)):
        told = Told(log, seed, 0, first=start)
        for _ in range(start, stop):
            told.append()
        told.close()


def groups(log: Path, seed: str) -> None:
    """Three processes, each with records one by one and several in one call."""

    def work(number: int) -> None:
        chance = random.Random(f"{seed}/{number}")
        told = Told(log, seed, number)
        for _ in range(chance.randint(2, 3)):
            if chance.random() < 0.3:
                told.append()
            else:
                told.append_many(chance.randint(2, 4))
        told.close()

    _at_once(*(lambda number=number: work(number) for number in range(3)))


def modes(log: Path, seed: str) -> None:
    """Two processes that append in one mode and another, with a sync now and then."""

    def work(number: int) -> None:
        chance = random.Random(f"{seed}/{number}")
        told = Told(log, seed, number)
        for _ in range(chance.randint(3, 5)):
            mode = chance.choice(MODES)
            match chance.randrange(4):
                case 0:
                    told.append_many(chance.randint(2, 3), mode)
                case 1:
                    told.append(mode)
                    told.sync()
                case _:
                    told.append(mode)
        told.close()

    _at_once(*(lambda number=number: work(number) for number in range(2)))


def cutover(log: Path, seed: str) -> None:
    """Two processes that append, and cut over in between."""

    def work(number: int) -> None:
        chance = random.Random(f"{seed}/{number}")
        told = Told(log, seed, number)
        for _ in range(2):
            told.append()
            if chance.random() < 0.7:
                told.cutover()
            if chance.random() < 0.5:
                told.append_many(2)
        told.close()

    _at_once(*(lambda number=number: work(number) for number in range(2)))


def turns(log: Path, seed: str) -> None:
    """A source's turns, beside records of another process."""

    def source() -> None:
        chance = random.Random(f"{seed}/source")
        told = Told(log, seed, TURNS)
        for number in range(chance.randint(2, 4)):
            told.append_turn(number, chance.randint(1, 4))
        told.close()

    def other() -> None:
        told = Told(log, seed, 0)
        for _ in range(random.Random(f"{seed}/other").randint(1, 3)):
            told.append()
        told.close()

    _at_once(source, other)


def drafts(log: Path, seed: str) -> None:
    """A source's turns that become files of the log, beside another process; or the source dies, and it goes on."""
    chance = random.Random(seed)
    dies = chance.random() < 0.8  # such runs have fewer states

    def source() -> None:
        told = Told(log, seed, DRAFTS)
        for number in range(1 if dies or chance.random() < 0.6 else 2):
            told.append_turn(number, chance.randint(2 if dies else 1, 3))
        told.close()

    def other() -> None:
        told = Told(log, seed, 0)
        for _ in range(1 if dies else chance.randint(1, 3)):
            told.append()
            if chance.random() < 0.2:
                told.cutover()
        told.close()

    if dies:
        sync = chance.choice((_SYNC_OF_HEADER, _SYNC_OF_CLOSE, _SYNC_OF_CLOSE, _SYNC_OF_SECOND_CLOSE))
        _killed(source, log, Strike(Action.KILL_BEFORE, sync, (Kind.DATA_SYNC,), names_end=".dat"))
        other()
    else:
        _at_once(source, other)


def _killed(work: Callable[[], None], log: Path, strike: Strike) -> None:
    """Run it in a forked child, which is killed at a call, or else at the end."""
    child = os.fork()
    if child == 0:
        try:
            arm(strike, str(log))
            work()
            os.kill(os.getpid(), signal.SIGKILL)
        except BaseException:  # noqa: BLE001 - the child ends here, whatever it was
            traceback.print_exc()
        os._exit(1)
    if os.waitpid(child, 0)[1] != signal.SIGKILL:
        raise RuntimeError("a process that was to be killed failed")


def archives(log: Path, seed: str) -> None:
    """A writer whose closed files become archives; few records, for what is looked at is how one takes the place."""
    chance = random.Random(seed)
    told = Told(log, seed, 0)
    for _ in range(chance.randint(1, 2)):
        told.append_many(chance.randint(1, 3))
        told.cutover()
        binlog.archive(log, keep_last=chance.randrange(2))
    told.append()
    binlog.archive(log)
    told.close()


def recovery(log: Path, seed: str) -> None:
    """A writer opens what a power cut left, and goes on.  What a reader then shows counts as acknowledged."""
    chance = random.Random(f"{seed}/recovery")
    told = Told(log, seed, _AFTER_RECOVERY)
    _acknowledge_what_is_shown(log)
    told.append()
    if chance.random() < 0.3:
        told.cutover()
    if chance.random() < 0.5:
        told.append_many(2)
    told.close()


def _acknowledge_what_is_shown(log: Path) -> None:
    recorder = Recorder()
    with Reader(log) as reader:
        for entry in reader:
            writer, index = map(int, entry.data.split(b":", 2)[:2])
            recorder.mark(Mark(MarkKind.ACKNOWLEDGED, writer, index, 1, entry.ref))


def jpos(log: Path, seed: str) -> None:
    """A file that jPOS made: one of ours and one that follows its rules append to it, and ours cuts it over."""

    def ours() -> None:
        chance = random.Random(f"{seed}/ours")
        told = Told(log, seed, 0)
        for _ in range(chance.randint(4, 7)):
            told.append()
        if chance.random() < 0.5:
            told.append_many(2)
        if chance.random() < 0.4:
            told.cutover()
            told.append()
        told.close()

    def theirs() -> None:
        peer = Peer(log, seed, 1)
        for _ in range(random.Random(f"{seed}/theirs").randint(3, 5)):
            peer.append()

    _at_once(ours, theirs)


def prepare_jpos(log: Path, seed: str) -> list[Values]:
    """The file that jPOS made, with a few records."""
    count = random.Random(f"{seed}/prepare").randint(0, 3)
    log.mkdir()
    return [mark.values for mark in peer_file(log, seed, 2, count)]


WORKLOADS: dict[str, Workload] = {
    "single": single,
    "groups": groups,
    "modes": modes,
    "cutover": cutover,
    "turns": turns,
    "drafts": drafts,
    "archives": archives,
    "recovery": recovery,
    "jpos": jpos,
}

PREPARED: dict[str, Prepare] = {"jpos": prepare_jpos}
"""What is there, durably, before the recording begins, and what of it counts as acknowledged."""
