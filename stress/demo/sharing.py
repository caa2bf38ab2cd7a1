"""The scene in which four workers share messages: one worker is killed, and one message kills its workers.

Like the director, it believes only the processes' messages.  At the end it reads the log and the results again.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter

import binlog
from stress.demo.children import ROOT, Child, Children
from stress.demo.director import DemoError, Place
from stress.demo.display import Display
from stress.demo.worker import DELIVERIES_MAX, GROUP, HANGS, KILLS, open_group, result_of

WORKERS = 4
MESSAGES = 2_000

_HANGS_AT, _KILLS_AT = MESSAGES // 3, 2 * MESSAGES // 3
_NS_A_MS = 10**6


def append_messages(place: Place) -> None:
    """Append the messages of the scene to a log of their own."""
    bodies = [b"message %d" % number for number in range(MESSAGES)]
    bodies[_HANGS_AT], bodies[_KILLS_AT] = HANGS, KILLS
    with binlog.Writer(place.messages) as writer:
        writer.append_many(bodies)


class Sharing:
    """The workers, and their messages."""

    def __init__(self, place: Place, children: Children, display: Display) -> None:
        self._place = place
        self._children = children
        self._display = display
        self._workers: dict[Child, int] = {}
        self._poisoned: dict[Child, int] = {}  # the delivery that each of them got
        self._killed: Child | None = None
        self._killed_ns = 0
        self._deaths = 0
        self._is_done = False
        self.stored: Counter[int] = Counter()

    def run(self) -> None:
        """Let the workers handle all messages.  Raises: DemoError."""
        self._place.results.mkdir()
        for number in range(1, WORKERS + 1):
            self._start(number)
        for child, words in self._children.messages():
            match words:
                case ["started", sequence, delivery, time_ns]:
                    self._started(child, int(sequence), int(delivery), int(time_ns))
                case ["stored", sequence]:
                    self.stored[int(sequence)] += 1
                    self._display.bar("stored", self.stored.total(), MESSAGES - 1)
                case None:
                    self._ended(child)
                case _:
                    raise DemoError(f"worker {self._workers[child]} sent {words}")
            if not self._is_done and self.stored.total() == MESSAGES - 1 and self._deaths == DELIVERIES_MAX:
                self._is_done = True
                for worker in self._workers:
                    worker.signal(signal.SIGTERM)

    def _start(self, number: int) -> None:
        child = self._children.start("worker", log=self._place.messages, results=self._place.results)
        self._workers[child] = number

    def _started(self, child: Child, sequence: int, delivery: int, time_ns: int) -> None:
        if sequence == _KILLS_AT:
            self._poisoned[child] = delivery
        if sequence != _HANGS_AT:
            return
        number = self._workers[child]
        if delivery == 1:
            self._killed = child
            self._killed_ns = time.monotonic_ns()
            child.signal(signal.SIGKILL)
            text = f"kill -9 of worker {number} (process {child.process.pid}), which has message {sequence} in hand"
        else:
            wait_ms = (time_ns - self._killed_ns) / _NS_A_MS
            text = f"worker {number} has message {sequence}, {wait_ms:.1f} ms after the kill: delivery {delivery}"
        self._display.say(text)

    def _ended(self, child: Child) -> None:
        number, code = self._workers.pop(child), child.process.returncode
        if (delivery := self._poisoned.get(child)) is not None:
            self._deaths += 1
            self._display.say(
                f"message {_KILLS_AT} has killed worker {number}: delivery {delivery} of {DELIVERIES_MAX}"
            )
        elif child is not self._killed:
            # The last one may have been too young for its handler of SIGTERM.
            if not self._is_done or code not in (0, -signal.SIGTERM):
                raise DemoError(f"worker {number} exited with code {code}")
            return
        if code != -signal.SIGKILL:
            raise DemoError(f"worker {number} exited with code {code}, and was to be killed")
        self._start(number)


def judge(place: Place, stored: Counter[int]) -> list[str]:
    """Read the log, the results and the group again, and describe each broken promise; empty if there is none."""
    with binlog.Reader(place.messages) as reader:
        bodies = [entry.data for entry in reader]
    # A message's id ends with its number in the log.
    results = {int(path.name.rpartition("-")[2]): path.read_text() for path in place.results.iterdir()}
    expected = {number: result_of(body) for number, body in enumerate(bodies) if body != KILLS}
    # No worker is alive: this makes the dead letter, unless a worker has made it.
    with open_group(place.messages) as group:
        left = group.get(timeout=0)
        stat = group.stat()
    deliveries = len(bodies) + 1 + (DELIVERIES_MAX - 1)
    problems = [
        f"message {number}: the result is missing or wrong"
        for number, result in expected.items()
        if results.get(number) != result
    ]
    problems += [
        f"message {number}: a result that no worker was to store" for number in results.keys() - expected.keys()
    ]
    problems += [f"message {number}: stored {count} times" for number, count in stored.items() if count != 1]
    if left is not None or stat.lag or stat.dead_letters != 1:
        problems.append(f"the group is not done: {stat.lag} messages left, {stat.dead_letters} dead letters")
    if stat.counters.started != deliveries:
        problems.append(f"{stat.counters.started} deliveries instead of {deliveries}")
    return problems + [str(problem) for problem in binlog.check(place.messages)]


def list_dead_letters(place: Place) -> str:
    """Return the output of the command that lists the dead letters."""
    command = [sys.executable, "-m", "binlog", "group", "dead", "ls", str(place.messages), GROUP]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.rstrip()
