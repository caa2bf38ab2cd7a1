"""What is recorded of logs: small runs that mark what they tried, and what they were told.

Each is a function of a log's path and a seed; its processes have the lives that it gives them.
"""

from __future__ import annotations

import os
import random
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

import binlog
from binlog import Mode
from stress.crash.marks import Recorder, Values
from stress.crash.mortal import forked
from stress.crash.records import identity_of
from stress.crash.striker import Action, Kind, Strike, arm
from stress.crash.system import AFTER_POWER_CUT, Prepare, Who, Workload
from stress.crash.systems.jpos import Peer, peer_file
from stress.crash.systems.log_actor import How, LogActor, Mark, MarkKind, read

# The syncs of log files by a process that makes a log and appends a turn as drafts.
_SYNC_OF_HEADER, _SYNC_OF_CLOSE, _SYNC_OF_SECOND_CLOSE = range(3)


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


def _actor(log: Path, seed: str, life: int) -> LogActor:
    return LogActor(log, Who(Recorder(), life, random.Random(f"{seed}/{life}")))


def _some(actor: LogActor, mode: Mode = Mode.SYNC, count: int = 0) -> None:
    """Append a record, or so many in one call."""
    if count:
        actor.append_many(count, mode, size=actor.any_size())
    else:
        actor.append(mode, size=actor.any_size())


def _single(log: Path, seed: str) -> None:
    """One record at a time, by one writer after another."""
    chance = random.Random(seed)
    count = chance.randint(8, 12)
    first = chance.randint(1, count - 1)
    for life, own in enumerate((first, count - first)):
        actor = _actor(log, seed, life)
        for _ in range(own):
            _some(actor)
        actor.close()


def _groups(log: Path, seed: str) -> None:
    """Three processes, each with records one by one and several in one call."""

    def work(life: int) -> None:
        chance = random.Random(f"{seed}/{life}/work")
        actor = _actor(log, seed, life)
        for _ in range(chance.randint(2, 3)):
            _some(actor, count=0 if chance.random() < 0.3 else chance.randint(2, 4))
        actor.close()

    _at_once(*(lambda life=life: work(life) for life in range(3)))


def _modes(log: Path, seed: str) -> None:
    """Two processes that append in one mode and another, with a sync now and then."""

    def work(life: int) -> None:
        chance = random.Random(f"{seed}/{life}/work")
        actor = _actor(log, seed, life)
        for _ in range(chance.randint(3, 5)):
            match chance.randrange(4):
                case 0:
                    _some(actor, chance.choice([*Mode]), chance.randint(2, 3))
                case 1:
                    _some(actor, chance.choice([*Mode]))
                    actor.sync()
                case _:
                    _some(actor, chance.choice([*Mode]))
        actor.close()

    _at_once(*(lambda life=life: work(life) for life in range(2)))


def _cutover(log: Path, seed: str) -> None:
    """Two processes that append, and cut over in between."""

    def work(life: int) -> None:
        chance = random.Random(f"{seed}/{life}/work")
        actor = _actor(log, seed, life)
        for _ in range(2):
            _some(actor)
            if chance.random() < 0.7:
                actor.cutover()
            if chance.random() < 0.5:
                _some(actor, count=2)
        actor.close()

    _at_once(*(lambda life=life: work(life) for life in range(2)))


def _turns(log: Path, seed: str) -> None:
    """A source's turns, beside records of another process."""

    def source() -> None:
        chance = random.Random(f"{seed}/source")
        actor = _actor(log, seed, 1)
        for _ in range(chance.randint(2, 4)):
            actor.turn(chance.randint(1, 4))
        actor.close()

    def other() -> None:
        actor = _actor(log, seed, 0)
        for _ in range(random.Random(f"{seed}/other").randint(1, 3)):
            _some(actor)
        actor.close()

    _at_once(source, other)


def _drafts(log: Path, seed: str) -> None:
    """A source's turns that become files of the log, beside another process; or the source dies, and it goes on."""
    chance = random.Random(seed)
    dies = chance.random() < 0.8  # such runs have fewer states

    def source() -> None:
        actor = _actor(log, seed, 1)
        for _ in range(1 if dies or chance.random() < 0.6 else 2):
            actor.turn(chance.randint(2 if dies else 1, 3), How.DRAFTS)
        actor.close()

    def other() -> None:
        actor = _actor(log, seed, 0)
        for _ in range(1 if dies else chance.randint(1, 3)):
            _some(actor)
            if chance.random() < 0.2:
                actor.cutover()
        actor.close()

    if not dies:
        _at_once(source, other)
        return
    sync = chance.choice((_SYNC_OF_HEADER, _SYNC_OF_CLOSE, _SYNC_OF_CLOSE, _SYNC_OF_SECOND_CLOSE))

    def dying() -> None:
        arm(Strike(Action.KILL_BEFORE, sync, (Kind.DATA_SYNC,), names_end=".dat"), str(log))
        source()

    forked(dying)
    other()


def _archives(log: Path, seed: str) -> None:
    """A writer whose closed files become archives; few records, for what is looked at is how one takes the place."""
    chance = random.Random(seed)
    actor = _actor(log, seed, 0)
    for _ in range(chance.randint(1, 2)):
        _some(actor, count=chance.randint(1, 3))
        actor.cutover()
        binlog.archive(log, keep_last=chance.randrange(2))
    _some(actor)
    binlog.archive(log)
    actor.close()


def _recovery(log: Path, seed: str) -> None:
    """A writer opens what a power cut left, and goes on.  What a reader then shows counts as acknowledged."""
    chance = random.Random(f"{seed}/recovery")
    actor = _actor(log, seed, AFTER_POWER_CUT)
    for entry in read(log):
        identity = identity_of(entry.data)
        if identity is not None:
            actor.mark(Mark(MarkKind.SHOWN, *identity, 1, ref=entry.ref))
    _some(actor)
    if chance.random() < 0.3:
        actor.cutover()
    if chance.random() < 0.5:
        _some(actor, count=2)
    actor.close()


def _jpos(log: Path, seed: str) -> None:
    """A file that jPOS made: one of ours and one that follows its rules append to it, and ours cuts it over."""

    def ours() -> None:
        chance = random.Random(f"{seed}/ours")
        actor = _actor(log, seed, 0)
        for _ in range(chance.randint(4, 7)):
            _some(actor)
        if chance.random() < 0.5:
            _some(actor, count=2)
        if chance.random() < 0.4:
            actor.cutover()
            _some(actor)
        actor.close()

    def theirs() -> None:
        peer = Peer(log, 1)
        for _ in range(random.Random(f"{seed}/theirs").randint(3, 5)):
            peer.append()

    _at_once(ours, theirs)


def _prepare_jpos(log: Path, seed: str) -> list[Values]:
    """The file that jPOS made, with a few records."""
    log.mkdir()
    return peer_file(log, 2, random.Random(f"{seed}/prepare").randint(0, 3))


WORKLOADS: Mapping[str, Workload] = {
    "single": _single,
    "groups": _groups,
    "modes": _modes,
    "cutover": _cutover,
    "turns": _turns,
    "drafts": _drafts,
    "archives": _archives,
    "recovery": _recovery,
    "jpos": _jpos,
}
PREPARED: Mapping[str, Prepare] = {"jpos": _prepare_jpos}
