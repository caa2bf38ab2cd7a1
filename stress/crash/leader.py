"""A leader that dies with other writers' records in its group.

The harness holds the log file's lock until the one that is to die waits for it as the deputy, and the others have
staged and sleep: so the one leads them all as soon as the lock is free.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path

from binlog import Mode, Writer
from stress.crash.judge import PREPARE_BYTES
from stress.crash.ledger import Ledger, Own
from stress.crash.mortal import HANG_SECONDS, Mortal
from stress.crash.striker import NOTHING, Slots, Strike, arm

_WAITERS = 3
_LOCK = struct.Struct("@hhqqi4x")  # struct flock of fcntl(2) on a 64-bit machine: type, whence, start, length, pid


def one_leader(log: Path, ledger: Ledger, slots: Slots, under: str, strike: Strike) -> tuple[bool, list[str]]:
    """Let one lead three others and strike it; whether it was killed, and what is wrong with how the others fared."""
    ready, first, others = os.pipe(), os.pipe(), os.pipe()
    mortals: list[Mortal] = []

    def start(own: Own, go: tuple[int, int], strike: Strike, work: Callable[[Writer], None]) -> None:
        def live() -> None:
            os.close(first[1])
            os.close(others[1])
            with Writer(log, prepare_bytes=PREPARE_BYTES) as writer:
                if own.writer == _WAITERS:
                    own.append(writer, Mode.STAGE)  # nobody waits for this one
                arm(strike, under, slots[own.writer])
                os.write(ready[1], b".")
                os.read(go[0], 1)
                work(writer)

        mortals.append(Mortal(live, own))

    _, many, *_ = waiting = ledger.writers[1 : _WAITERS + 1]
    start(many, others, NOTHING, lambda writer: many.append_many(writer, 2))
    for own in waiting:
        if own is not many:
            start(own, others, NOTHING, own.append)
    start(ledger.writers[0], first, strike, ledger.writers[0].append)
    waiters, victim = mortals[:_WAITERS], mortals[_WAITERS]
    for _ in mortals:
        os.read(ready[0], 1)
    fd = os.open(log / "00000001.dat", os.O_RDWR)
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, _LOCK.pack(fcntl.F_WRLCK, 0, 0, 0, 0))
        os.write(first[1], b".")
        _until(lambda: victim.poll() or bool(slots[0].blocked))
        os.write(others[1], b"." * _WAITERS)
        _until(lambda: all(mortal.poll() or slots[mortal.own.writer].blocked for mortal in mortals))
    finally:
        os.close(fd)  # and with it the lock
        for end in (*ready, *first, *others):
            os.close(end)
    failures = [mortal.failure() for mortal in (victim, *waiters)]
    return victim.killed, [failure for failure in failures if failure]


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the processes of a cycle neither waited nor ended")
        os.sched_yield()
