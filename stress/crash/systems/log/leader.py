"""A leader that dies with other writers' records in its group.

The harness holds the log file's lock until the victim waits for it as the deputy, and the others have staged and sleep.
So the victim leads them all as soon as the lock is released.
"""

from __future__ import annotations

import fcntl
import os
import random
import struct
import time
from collections.abc import Callable
from pathlib import Path

from binlog import Mode
from stress.crash.marks import Ledger
from stress.crash.preloaded.injector import NOTHING, Injection, Slots, arm
from stress.crash.system import ProcessContext, Step
from stress.crash.systems.log.actor import LogActor, many
from stress.crash.workers.victim_process import HANG_SECONDS, VictimProcess

_WAITERS = 3
_VICTIM = 2  # its number; those of the others follow
_LOCK = struct.Struct("@hhqqi4x")  # struct flock of fcntl(2) on a 64-bit machine: type, whence, start, length, pid


def one_leader(log: Path, ledger: Ledger, under: str, injection: Injection) -> tuple[bool, list[str]]:
    """Let a process lead three others and inject a fault into it; return whether it died, and the others' failures."""
    slots = Slots(_WAITERS + 1)
    ready, first, others = os.pipe(), os.pipe(), os.pipe()

    def start(number: int, go: tuple[int, int], injection: Injection, work: Step) -> VictimProcess:
        def run() -> None:
            os.close(first[1])
            os.close(others[1])
            actor = LogActor(log, ProcessContext(ledger, _VICTIM + number, random.Random(number)))
            if number == _WAITERS:
                actor.append(Mode.STAGE)  # no call waits for this record
            arm(injection, under, slots[number])
            os.write(ready[1], b".")
            os.read(go[0], 1)
            work(actor)
            actor.close()

        return VictimProcess(run)

    works = (many(2), LogActor.append_one, LogActor.append_one)
    waiters = [start(number, others, NOTHING, work) for number, work in enumerate(works, 1)]
    victim = start(0, first, injection, LogActor.append_one)
    victims = [victim, *waiters]
    for _ in victims:
        os.read(ready[0], 1)
    fd = os.open(log / "00000001.dat", os.O_RDWR)
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, _LOCK.pack(fcntl.F_WRLCK, 0, 0, 0, 0))
        os.write(first[1], b".")
        _until(lambda: victim.poll() or bool(slots[0].blocked))
        os.write(others[1], b"." * _WAITERS)
        _until(lambda: all(victim.poll() or slots[number].blocked for number, victim in enumerate(victims)))
    finally:
        os.close(fd)  # this releases the lock
        for end in (*ready, *first, *others):
            os.close(end)
    failures = [failure for victim in victims for failure in victim.failures()]
    return victim.killed, failures


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the processes neither waited nor ended")
        os.sched_yield()
