"""The recorded workloads of a log: small runs that mark their calls and results.

Each is a function of a log's path and a seed, and numbers its processes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import binlog
from binlog import Mode
from stress.crash.marks import Recorder, Values
from stress.crash.preloaded.injector import Action, Injection, Kind, arm
from stress.crash.records import identity_of
from stress.crash.system import AFTER_DEATH, AFTER_POWER_CUT, CHANGES, Prepare, ProcessContext, Workload
from stress.crash.systems.log.actor import How, LogActor, Mark, MarkKind, read
from stress.crash.systems.log.jpos import Peer, peer_file
from stress.crash.workers.victim_process import VictimProcess, run_and_kill

# The syncs of log files by a process that makes a log and ingests a producer batch.
_SYNC_OF_HEADER, _SYNC_OF_CLOSE, _SYNC_OF_SECOND_CLOSE = range(3)
_CALLS_ABOUT = 100


def _at_once(*works: Callable[[], None]) -> None:
    """Run each function in a forked process, all at once."""
    victims = [VictimProcess(work) for work in works]
    if failures := [failure for victim in victims for failure in victim.failures()]:
        raise RuntimeError(f"processes of a workload failed: {failures}")


@contextmanager
def _writer(log: Path, seed: str, process_number: int) -> Iterator[tuple[LogActor, random.Random]]:
    """Open an actor, with the random numbers that decide its steps."""
    with closing(
        LogActor(log, ProcessContext(Recorder(), process_number, random.Random(f"{seed}/{process_number}")))
    ) as actor:
        yield actor, random.Random(f"{seed}/{process_number}/work")


def _together(count: int, work: Callable[[LogActor, random.Random], None]) -> Workload:
    """Return a workload of `count` processes that do the same."""

    def run(log: Path, seed: str, process_number: int) -> None:
        with _writer(log, seed, process_number) as (actor, chance):
            work(actor, chance)

    return lambda log, seed: _at_once(*(partial(run, log, seed, process_number) for process_number in range(count)))


def _some(actor: LogActor, mode: Mode = Mode.SYNC, count: int = 0) -> None:
    """Append a record, or `count` records in one call."""
    if count:
        actor.append_many(count, mode, size=actor.any_size())
    else:
        actor.append(mode, size=actor.any_size())


def _single(log: Path, seed: str) -> None:
    """Append one record at a time, with two writers in turn."""
    chance = random.Random(seed)
    count = chance.randint(8, 12)
    first = chance.randint(1, count - 1)
    for process_number, own in enumerate((first, count - first)):
        with _writer(log, seed, process_number) as (actor, _):
            for _ in range(own):
                _some(actor)


def _groups(actor: LogActor, chance: random.Random) -> None:
    """Append records one by one, and several in one call."""
    for _ in range(chance.randint(2, 3)):
        _some(actor, count=0 if chance.random() < 0.3 else chance.randint(2, 4))


def _modes(actor: LogActor, chance: random.Random) -> None:
    """Append in random modes, with some syncs."""
    for _ in range(chance.randint(3, 5)):
        what = chance.randrange(4)
        _some(actor, chance.choice([*Mode]), chance.randint(2, 3) if what == 0 else 0)
        if what == 1:
            actor.sync()


def _cutover(actor: LogActor, chance: random.Random) -> None:
    """Append with cutovers in between."""
    for _ in range(2):
        _some(actor)
        if chance.random() < 0.7:
            actor.cutover()
        if chance.random() < 0.5:
            _some(actor, count=2)


def _batches(log: Path, seed: str) -> None:
    """Append a producer's batches while another process appends records."""

    def source() -> None:
        with _writer(log, seed, 1) as (actor, chance):
            for _ in range(chance.randint(2, 4)):
                actor.produce(chance.randint(1, 4))

    def other() -> None:
        with _writer(log, seed, 0) as (actor, chance):
            for _ in range(chance.randint(1, 3)):
                _some(actor)

    _at_once(source, other)


def _ingest(log: Path, seed: str) -> None:
    """Ingest a producer's batches while another process appends; or kill the producer, and let the other one
    continue."""
    chance = random.Random(seed)
    dies = chance.random() < 0.8  # such runs have fewer states

    def source() -> None:
        with _writer(log, seed, 1) as (actor, _):
            for _ in range(1 if dies or chance.random() < 0.6 else 2):
                actor.produce(chance.randint(2 if dies else 1, 3), How.FILES)

    def other() -> None:
        with _writer(log, seed, 0) as (actor, _):
            for _ in range(1 if dies else chance.randint(1, 3)):
                _some(actor)
                if chance.random() < 0.2:
                    actor.cutover()

    if not dies:
        _at_once(source, other)
        return
    sync = chance.choice((_SYNC_OF_HEADER, _SYNC_OF_CLOSE, _SYNC_OF_CLOSE, _SYNC_OF_SECOND_CLOSE))

    def dying() -> None:
        arm(Injection(Action.KILL_BEFORE, sync, (Kind.DATA_SYNC,), names_end=".dat"), str(log))
        source()

    run_and_kill(dying)
    other()


def _killed(log: Path, seed: str) -> None:
    """Kill a process at a call that changes something, and let another one continue."""
    first = random.Random(f"{seed}/killed").randrange(_CALLS_ABOUT)

    def dying() -> None:
        arm(Injection(Action.KILL_BEFORE, first, CHANGES), str(log))
        with _writer(log, seed, 1) as (actor, chance):
            for work in chance.choices((_groups, _modes, _cutover), k=3):
                work(actor, chance)
                actor.produce(chance.randint(1, 3), chance.choice((How.BATCH, How.FILES)))

    run_and_kill(dying)
    with _writer(log, seed, AFTER_DEATH) as (actor, chance):
        _some(actor)
        if chance.random() < 0.5:
            actor.cutover()
        _modes(actor, chance)


def _archives(log: Path, seed: str) -> None:
    """Archive closed files; few records, because the point is how an archive replaces its file."""
    with _writer(log, seed, 0) as (actor, chance):
        for _ in range(chance.randint(1, 2)):
            _some(actor, count=chance.randint(1, 3))
            actor.cutover()
            binlog.archive(log, keep_last=chance.randrange(2))
        _some(actor)
        binlog.archive(log)


def _recovery(log: Path, seed: str) -> None:
    """Open the log after a power cut, and continue.  Records that a reader returns count as acknowledged."""
    with _writer(log, seed, AFTER_POWER_CUT) as (actor, chance):
        for entry in read(log):
            identity = identity_of(entry.data)
            if identity is not None:
                actor.mark(Mark(MarkKind.SHOWN, *identity, 1, ref=entry.ref))
        _some(actor)
        if chance.random() < 0.3:
            actor.cutover()
        if chance.random() < 0.5:
            _some(actor, count=2)


def _jpos(log: Path, seed: str) -> None:
    """Append to a file that jPOS made, with one of our writers and one that follows its rules; ours cuts it over."""

    def ours() -> None:
        with _writer(log, seed, 0) as (actor, chance):
            for _ in range(chance.randint(4, 7)):
                _some(actor)
            if chance.random() < 0.5:
                _some(actor, count=2)
            if chance.random() < 0.4:
                actor.cutover()
                _some(actor)

    def theirs() -> None:
        peer = Peer(log, 1)
        for _ in range(random.Random(f"{seed}/theirs").randint(3, 5)):
            peer.append()

    _at_once(ours, theirs)


def _prepare_jpos(log: Path, seed: str) -> list[Values]:
    """Make a file as jPOS does, with a few records."""
    log.mkdir()
    return peer_file(log, 2, random.Random(f"{seed}/prepare").randint(0, 3))


WORKLOADS: Mapping[str, Workload] = {
    "single": _single,
    "groups": _together(3, _groups),
    "modes": _together(2, _modes),
    "cutover": _together(2, _cutover),
    "batches": _batches,
    "ingest": _ingest,
    "killed": _killed,
    "archives": _archives,
    "recovery": _recovery,
    "jpos": _jpos,
}
PREPARED: Mapping[str, Prepare] = {"jpos": _prepare_jpos}
