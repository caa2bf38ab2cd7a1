"""Keeps N workers running: starts them, replaces each one that ends, and stops all of them at SIGTERM or Ctrl-C.

    python examples/supervisor.py 4 -- python examples/http_worker.py orders billing http://localhost:8080/charge

The workers need no supervisor to be correct: if one dies, another one of the group has its message at once.  This one
only keeps their number up.  A worker that ended within a second is replaced after a pause that doubles each time, so
that a program with a mistake in it does not keep the machine busy.

Facts relied on: a blocked signal stays pending, also SIGCHLD, until sigtimedwait(2) takes it; several pending signals
of one kind are one.  posix_spawn(3) starts the workers with no signal blocked.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from dataclasses import dataclass

_STOPPING = (signal.SIGTERM, signal.SIGINT)
_WATCHED = (signal.SIGCHLD, *_STOPPING)
_SHORT_SECONDS = 1.0
_PAUSE_SECONDS_MAX = 30.0


@dataclass
class Place:
    """The place of one worker.  pid: of the worker, None if none runs.  due: when to start the next one."""

    pid: int | None = None
    started: float = 0.0
    due: float = 0.0
    pause: float = _SHORT_SECONDS

    def start(self, command: list[str]) -> None:
        """Start a worker in this place."""
        self.started = time.monotonic()
        self.pid = os.posix_spawnp(command[0], command, os.environ, setsigmask=[])

    def ended(self, status: int) -> None:
        """Take note that the worker has ended, and choose the time at which the next one starts."""
        now = time.monotonic()
        is_short = now - self.started < _SHORT_SECONDS
        self.due = now + self.pause if is_short else now
        self.pause = min(2 * self.pause, _PAUSE_SECONDS_MAX) if is_short else _SHORT_SECONDS
        code = os.waitstatus_to_exitcode(status)
        print(f"supervisor: worker {self.pid} ended with {code}", file=sys.stderr, flush=True)
        self.pid = None


def supervise(count: int, command: list[str]) -> None:
    """Keep the workers running until a signal stops them, and wait until all have ended."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    places = [Place() for _ in range(count)]
    is_stopping = False
    while not is_stopping or any(place.pid for place in places):
        waiting = [place for place in places if place.pid is None and not is_stopping]
        for place in waiting:
            if place.due <= time.monotonic():
                place.start(command)
        pauses = [place.due - time.monotonic() for place in waiting if place.pid is None]
        arrived = signal.sigtimedwait(_WATCHED, max(min(pauses, default=_PAUSE_SECONDS_MAX), 0))
        if arrived is not None and arrived.si_signo in _STOPPING:
            is_stopping = True
            for place in places:
                if place.pid is not None:
                    os.kill(place.pid, signal.SIGTERM)
        _reap(places)


def _reap(places: list[Place]) -> None:
    """Take note of all workers that have ended."""
    for place in places:
        if place.pid is not None:
            pid, status = os.waitpid(place.pid, os.WNOHANG)
            if pid:
                place.ended(status)


def main() -> None:
    """Run the supervisor."""
    arguments = argparse.ArgumentParser(description="Keep N workers running.")
    arguments.add_argument("count", type=int, help="how many workers")
    arguments.add_argument("command", nargs="+", help="the command of a worker, after --")
    given = arguments.parse_args()
    supervise(given.count, given.command)


if __name__ == "__main__":
    main()
