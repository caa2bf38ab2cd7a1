"""Members that die while another one sleeps, which must get the item that the dead one had, or returned.

An idle member helps itself only after hours here.  So if no process wakes it, it hangs, which is a violation.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

from binlog.consumers.members import member
from binlog.log.read import cursor
from stress.crash.marks import Ledger
from stress.crash.preloaded.injector import Injection, arm
from stress.crash.system import ProcessContext
from stress.crash.systems.group.actor import GROUP, GroupActor
from stress.crash.systems.group.marks import Identity, MarkKind, mark_of
from stress.crash.workers.victim_process import HANG_SECONDS, VictimProcess

_HOLDER, _SLEEPER, _REAPER, _LAST = 2, 3, 4, 5
_IDLE_SECONDS = 3600.0
_IN_HAND = Identity(_HOLDER, 1)
_IDLE_AT, _SEATS = 2048, 256
"""Where the file of wake-ups has a byte for each member that sleeps (docs/format.md)."""

_Work = Callable[[], None]


def one_returner(path: Path, ledger: Ledger, under: str, injection: Injection) -> tuple[bool, list[str]]:
    """Let a process return an item while another one sleeps, and inject a fault into the first.

    The process leaves the group only when the other one has ended, because leaving would wake the other one too.
    Returns whether it died, and the failures.
    """
    processes = _Processes(path, ledger)
    try:
        holder = processes.hold(lambda: arm(injection, under))
        sleeper = processes.sleep(_SLEEPER, _nothing)
        processes.until_asleep(1, holder, sleeper)
        processes.go_on()
        failures = sleeper.failures()
        processes.go_on()
        failures += holder.failures()
    finally:
        processes.close()
    return holder.killed, failures


def one_reaper(path: Path, ledger: Ledger, under: str, injection: Injection) -> tuple[bool, list[str]]:
    """Kill a process that has an item while two others sleep, and inject a fault into one of these.

    Returns whether it died, and the failures.
    """
    processes = _Processes(path, ledger)
    try:
        holder = processes.hold(_nothing)
        sleeper = processes.sleep(_SLEEPER, _nothing)
        reaper = processes.sleep(_REAPER, lambda: arm(injection, under))
        processes.until_asleep(2, holder, sleeper, reaper)
        os.kill(holder.pid, signal.SIGKILL)
        while not (sleeper.poll() or reaper.poll()):
            os.sched_yield()
        # One of the two has got the item, unless the reaper died before.  Then the other one must get it.
        if processes.may_be_acknowledged():
            processes.append_last()
        failures = [failure for victim in (holder, sleeper, reaper) for failure in victim.failures()]
    finally:
        processes.close()
    return reaper.killed, failures


def _nothing() -> None:
    pass


class _Processes:
    """The processes of one case."""

    def __init__(self, path: Path, ledger: Ledger) -> None:
        self._path, self._ledger = path, ledger
        self._holds, self._goes_on = os.pipe(), os.pipe()

    def hold(self, first: _Work) -> VictimProcess:
        """Start a process that has the only message, returns it after `go_on`, and leaves after the next `go_on`.

        first: called before it returns the message.
        """

        def run() -> None:
            actor = self._actor(_HOLDER)
            actor.finish_all()
            actor.append_and_get()
            os.write(self._holds[1], b".")
            os.read(self._goes_on[0], 1)
            first()
            actor.give_back()
            os.read(self._goes_on[0], 1)
            actor.close()

        victim = VictimProcess(run)
        os.close(self._holds[1])  # so that the next line ends if the process does
        os.read(self._holds[0], 1)
        return victim

    def sleep(self, number: int, first: _Work) -> VictimProcess:
        """Start a process that waits for a message, and acknowledges it.  first: called before that."""

        def run() -> None:
            member._WAIT_SECONDS_MAX = cursor._WAIT_SECONDS_MAX = _IDLE_SECONDS
            actor = self._actor(number)
            first()
            actor.wait_and_acknowledge()
            actor.close()

        return VictimProcess(run)

    def until_asleep(self, count: int, *victims: VictimProcess) -> None:
        """Wait until this many members sleep, or a process has ended."""
        wakeups = self._path / "groups" / GROUP / "wakeups"
        deadline = time.monotonic() + HANG_SECONDS
        while sum(wakeups.read_bytes()[_IDLE_AT : _IDLE_AT + _SEATS]) < count:
            if any(victim.poll() for victim in victims):
                return
            if time.monotonic() > deadline:
                raise TimeoutError("the processes neither slept nor ended")
            os.sched_yield()

    def go_on(self) -> None:
        """Let the process that has the message take its next step."""
        os.write(self._goes_on[1], b".")

    def may_be_acknowledged(self) -> bool:
        """Whether a process has tried to acknowledge the message."""
        marks = map(mark_of, self._ledger.marks())
        return any(mark.message == _IN_HAND and mark.kind is MarkKind.ACK_TRIED for mark in marks)

    def append_last(self) -> None:
        """Append one more message."""

        def run() -> None:
            actor = self._actor(_LAST)
            actor.append_durably()
            actor.close()

        failures = VictimProcess(run).failures()
        assert failures == [], failures

    def close(self) -> None:
        """Close the pipes."""
        for end in (self._holds[0], *self._goes_on):
            os.close(end)

    def _actor(self, number: int) -> GroupActor:
        return GroupActor(self._path, ProcessContext(self._ledger, number, random.Random(number)))
