"""What is recorded of journals: small runs that mark what they tried, and what they were promised."""

from __future__ import annotations

import os
import random
import signal
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

from binlog.journal.options import JournalOptions
from stress.crash.journal import programs
from stress.crash.journal.actor import Actor
from stress.crash.journal.openings import opened
from stress.crash.journal.options import NATIVE, OPTIONS, kept_as
from stress.crash.journal.programs import Step, Syncs
from stress.crash.marks import Recorder
from stress.crash.striker import Action, Kind, Strike, arm
from stress.crash.subject import Workload
from stress.crash.together import at_once

_AFTER_RECOVERY, _AFTER_DEATH = 20, 21
_CHANGES = (Kind.WRITE, Kind.LINK, Kind.UNLINK, Kind.DATA_SYNC, Kind.SYNC)
_CHANGES_ABOUT = 200


def _options(chance: random.Random) -> JournalOptions:
    return OPTIONS[chance.choice(NATIVE)]


def _lives(steps: Mapping[Step, int], count: int, syncs: Syncs, lives: int) -> Workload:
    """A journal that is opened so often, and each time so many steps are taken."""

    def workload(path: Path, seed: str) -> None:
        chance = random.Random(seed)
        options, recorder = _options(chance), Recorder()
        actor = Actor(recorder, 0)
        for _ in range(lives):
            with opened(path, options, recorder, actor) as journal:
                programs.run(actor, journal, chance, steps, count, syncs)

    return workload


def threads(path: Path, seed: str) -> None:
    """Three threads that append at once; the third compacts and reclaims too."""
    chance = random.Random(seed)
    options, recorder = _options(chance), Recorder()
    actors = [Actor(recorder, number) for number in range(3)]
    mixes: list[Mapping[Step, int]] = [programs.RECORDS, programs.TRANSACTIONS, programs.COMPACTION]
    with opened(path, options, recorder, *actors) as journal:

        def work(number: int) -> Callable[[], None]:
            own = random.Random(f"{seed}/{number}")
            return lambda: programs.run(actors[number], journal, own, mixes[number], 7)

        at_once(*map(work, range(3)))


def jbm(path: Path, seed: str) -> None:
    """JBoss Messaging's layout, whose checks do not tell a torn record from a whole one where it has old bytes.

    So no file is used again, and no record lies in more than two sectors.
    """
    chance = random.Random(seed)
    actor = Actor(Recorder(), 0)
    for _ in range(2):
        with opened(path, OPTIONS["jbm"], Recorder(), actor) as journal:
            programs.run(actor, journal, chance, programs.ONLY_ADDED, 9)


def killed(path: Path, seed: str) -> None:
    """A process is killed at a call that changes something, and another one loads what it left, and goes on."""
    chance = random.Random(seed)
    recorder = Recorder()
    child = os.fork()
    if child == 0:
        try:
            arm(Strike(Action.KILL_BEFORE, chance.randrange(_CHANGES_ABOUT), _CHANGES), str(path))
            actor = Actor(recorder, 0)
            with opened(path, _options(chance), recorder, actor) as journal:
                programs.run(actor, journal, chance, programs.ALL, 30)
            os.kill(os.getpid(), signal.SIGKILL)
        except BaseException:  # noqa: BLE001 - the child ends here, whatever it was
            traceback.print_exc()
        os._exit(1)
    if os.waitpid(child, 0)[1] != signal.SIGKILL:
        raise RuntimeError("a process that was to be killed failed")
    _go_on(path, seed, _AFTER_DEATH)


def recovery(path: Path, seed: str) -> None:
    """A journal is loaded that a power cut left, and gone on with."""
    _go_on(path, seed, _AFTER_RECOVERY)


def _go_on(path: Path, seed: str, writer: int) -> None:
    chance = random.Random(f"{seed}/{writer}")
    recorder = Recorder()
    actor = Actor(recorder, writer)
    with opened(path, kept_as(path), recorder, actor) as journal:
        programs.run(actor, journal, chance, programs.ALL, 6, programs.WAITING)


WORKLOADS: dict[str, Workload] = {
    "records": _lives(programs.RECORDS, 12, programs.MIXED, 2),
    "waiting": _lives(programs.ALL, 8, programs.WAITING, 2),
    "transactions": _lives(programs.TRANSACTIONS, 6, programs.MIXED, 3),
    "reuse": _lives(programs.REUSE, 25, programs.MIXED, 2),
    "compaction": _lives(programs.COMPACTION, 14, programs.MIXED, 2),
    "threads": threads,
    "jbm": jbm,
    "killed": killed,
    "recovery": recovery,
}
