"""Workers of a consumer group in processes of their own, which report on a pipe what they do.

`Worker` is one process that consumes.  `WorkerPool` has any number of them, forked by one process, and reads their
reports in the order in which they were written.  See also commanded_workers.py.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from binlog.consumers import GroupControl, GroupStat, stat_group
from tests.support.checkout import ROOT
from tests.support.waiting import until

IDLE_AT = 2048  # see docs/format.md, "The bytes of a consumer group"
LISTENER_AT = 3072
_SECONDS = 60


def idle_count(log: Path, name: str) -> int:
    """Return how many seats of a group have the mark of an idle member."""
    try:
        return sum((log / "groups" / name / "wakeups").read_bytes()[IDLE_AT : IDLE_AT + 256])
    except FileNotFoundError:
        return 0  # no member has joined


def idle_seats(log: Path, name: str) -> list[int]:
    """Return the seats of living members that have the mark of an idle one."""
    marks = (log / "groups" / name / "wakeups").read_bytes()[IDLE_AT:]
    return [member.seat for member in stat_group(log, name).members if marks[member.seat]]


def until_idle(log: Path, name: str, count: int) -> None:
    """Wait until this many living members are idle, and one of them is the listener."""

    def are_idle() -> bool:
        if idle_count(log, name) < count:
            return False
        idle = idle_seats(log, name)
        return len(idle) >= count and listener(log, name) in idle

    until(are_idle)


def listener(log: Path, name: str) -> int:
    """Return the seat of the last listener of a group."""
    data = (log / "groups" / name / "wakeups").read_bytes()
    return int.from_bytes(data[LISTENER_AT : LISTENER_AT + 2])


def pid_of(stat: GroupStat, seat: int) -> int:
    """Return the process that has a seat."""
    (hint,) = (member.hint for member in stat.members if member.seat == seat)
    return int(hint.split()[1])


def stop_process(pid: int) -> None:
    """Stop a process, and wait until it is stopped."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: _state(pid) in "TZX")


def _state(pid: int) -> str:
    """Return the letter of the state of a process, see proc(5)."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


_PROGRAM = """
import sys, time
from binlog import ConsumerGroup, Retry

path, name, hangs_at = sys.argv[1:4]
group = ConsumerGroup(path, name, retry=Retry(deliveries_max=3, first=0.01))
print("joined", flush=True)
for item in group.consume(timeout=None):
    with item:
        print("got", item.sequence, item.delivery, time.monotonic_ns(), flush=True)
        if item.data == hangs_at.encode():
            time.sleep(600)
    print("acked", item.sequence, flush=True)
"""


class Worker:
    """A process that consumes messages until it is killed.

    hangs_at: the message that it does not finish.  prefix: a command that runs the program.
    """

    def __init__(self, path: Path, name: str, *, hangs_at: str = "", prefix: Sequence[str] = ()) -> None:
        command = [*prefix, sys.executable, "-c", _PROGRAM, str(path), name, hangs_at]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self.line() == ["joined"]

    def line(self) -> list[str]:
        """Return the words of the next line, none at the end; blocks."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().split()

    def until(self, *words: str) -> list[str]:
        """Read lines until one begins with these words, and return it."""
        while (found := self.line())[: len(words)] != list(words):
            assert found, f"the worker ended before {words}"
        return found

    def lines(self) -> list[list[str]]:
        """Return all lines to the end; the worker must have been killed."""
        assert self._process.stdout is not None
        return [line.split() for line in self._process.stdout]

    def kill(self) -> int:
        """Kill the process, and return the time of that (CLOCK_MONOTONIC)."""
        now = time.monotonic_ns()
        os.kill(self._process.pid, signal.SIGKILL)
        return now

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


_POOL = """
import json, os, random, resource, signal, sys, time, traceback
from binlog import ConsumerGroup, LeaseLostError, Retry

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
path, name, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
retry = Retry(**options.pop("retry", {"deliveries_max": 3, "first": 0.01}))
settings = options.pop("group", {})

class Ending:
    # Not between an acknowledgement and its report.
    is_busy = is_due = False

    def __call__(self, *_):
        if self.is_busy:
            self.is_due = True
        else:
            sys.exit(0)

def work(label):
    chance = random.Random()
    hangs_at, dies_at = options.get("hangs_at"), options.get("dies_at")

    def say(*words):
        os.write(1, (" ".join(map(str, (label, *words))) + chr(10)).encode())

    def handle(item):
        say("got", item.sequence, item.delivery, time.monotonic_ns())
        if dies_at is not None and item.data == dies_at.encode():
            os.kill(os.getpid(), signal.SIGSEGV)
        if hangs_at is not None and item.data == hangs_at.encode() and item.delivery == 1:
            ending.is_busy = False  # from here on, SIGTERM ends the process
            time.sleep(0 if ending.is_due else 600)
            sys.exit(0)
        while "waits_for" in options and not os.path.exists(options["waits_for"]):
            time.sleep(0.002)
        if "fails_without" in options and not os.path.exists(options["fails_without"]):
            raise RuntimeError("the outage")
        if chance.random() < options.get("fails", 0):
            raise RuntimeError("a failure by chance")

    def each():
        for item in group.consume(prefetch=options.get("prefetch", 1)):
            ending.is_busy = True
            try:
                with item:
                    handle(item)
                say("acked", item.sequence)
            except RuntimeError:
                say("failed", item.sequence)
            ending.is_busy = False
            if ending.is_due:
                sys.exit(0)

    def together():
        for batch in group.batches(options["batch"]):
            with batch:
                for item in batch:
                    handle(item)
            say("acked", *(item.sequence for item in batch))

    ending = Ending()
    signal.signal(signal.SIGTERM, ending)
    group = ConsumerGroup(path, name, retry=retry, **settings)
    say("joined", os.getpid())
    try:
        together() if "batch" in options else each()
    finally:
        group.close()
        say("left")

workers = []  # not waited for, so that no other process gets the id of a dead one
for line in sys.stdin:
    if line.strip() == "end":
        for pid in workers:
            os.kill(pid, signal.SIGTERM)
    elif (pid := os.fork()):
        workers.append(pid)
    else:
        os.close(0)
        try:
            work(line.strip())
        except SystemExit:
            pass
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
"""


class Said(NamedTuple):
    """A report of a worker: `got SEQUENCE DELIVERY TIME`, `acked SEQUENCE`, `failed SEQUENCE`, `joined PID`, `left`."""

    label: str
    words: list[str]


class WorkerPool:
    """Any number of workers of a group, each in a process, which report what they do in the order of events.

    said: all reports that were read.  prefix: a command that runs the program, in a container of its own.
    options: `hangs_at`, a message that a worker does not finish in its first delivery; `dies_at`, one that kills it;
    `fails`, the share of deliveries that fail; `fails_without`, `waits_for`: files without which each delivery fails,
    or waits; `prefetch`; `batch`, to consume batches of at most this many; `retry`, the arguments of Retry; `group`,
    other arguments of ConsumerGroup.
    """

    def __init__(self, log: Path, name: str, *, prefix: Sequence[str] = (), **options: object) -> None:
        self._log, self._name, self._is_contained = log, name, bool(prefix)
        command = [*prefix, sys.executable, "-c", _POOL, str(log), name, json.dumps(options)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._bytes = b""
        self._unread: list[Said] = []
        self.said: list[Said] = []
        self.pids: dict[str, int] = {}
        self._control: GroupControl | None = None

    def start(self, count: int) -> list[str]:
        """Start workers, wait until they have opened the group, and return their labels."""
        assert self._process.stdin is not None
        labels = [f"w{len(self.pids) + number}" for number in range(count)]
        self._process.stdin.write("".join(f"{label}\n" for label in labels).encode())
        self._process.stdin.flush()
        waiting, passed = set(labels), []
        while waiting:
            passed.append(said := self._read())
            if said.words[0] == "joined":
                self.pids[said.label] = int(said.words[1])
                waiting.discard(said.label)
        self._unread += passed
        return labels

    def _read(self) -> Said:
        """Return the next report from the pipe."""
        assert self._process.stdout is not None
        while b"\n" not in self._bytes:
            ready, _, _ = select.select([self._process.stdout], [], [], _SECONDS)
            assert ready, "no worker reports anything"
            data = os.read(self._process.stdout.fileno(), 1 << 16)
            assert data, "all workers have ended"
            self._bytes += data
        line, _, self._bytes = self._bytes.partition(b"\n")
        label, *words = line.decode().split()
        return Said(label, words)

    def next(self) -> Said:
        """Return the next report; blocks."""
        found = self._unread.pop(0) if self._unread else self._read()
        self.said.append(found)
        return found

    def until(self, *words: str) -> Said:
        """Read reports until one begins with these words, and return it."""
        while (found := self.next()).words[: len(words)] != list(words):
            pass
        return found

    def is_living(self, label: str) -> bool:
        """Whether a worker has not ended."""
        assert not self._is_contained, "the process has another id in its container"
        return _state(self.pids[label]) not in "ZX"

    @property
    def living(self) -> list[str]:
        """The labels of the workers that have not ended."""
        return [label for label in self.pids if self.is_living(label)]

    def kill(self, label: str) -> int:
        """Kill a worker, and return the time of that (CLOCK_MONOTONIC)."""
        assert not self._is_contained, "the process has another id in its container"
        now = time.monotonic_ns()
        os.kill(self.pids[label], signal.SIGKILL)
        return now

    def work_until(
        self, is_done: Callable[[], bool], workers: int, *, meanwhile: Callable[[], None] | None = None
    ) -> None:
        """Work with this many workers, and replace those that die, until a condition holds."""

        def step() -> bool:
            if is_done():
                return True
            if (missing := workers - len(self.living)) > 0:
                self.start(missing)
            if meanwhile is not None:
                meanwhile()
            return False

        until(step)

    def work_until_done(self, count: int, workers: int, *, meanwhile: Callable[[], None] | None = None) -> None:
        """Work until this many messages are done, then end all workers, and read what they reported."""
        self.work_until(lambda: bool(self.pids) and self._floor() >= count, workers, meanwhile=meanwhile)
        self.end()

    def _floor(self) -> int:
        """Return the first message that is not done; cheaper than `stat`, because it reads only new operations."""
        self._control = self._control or GroupControl(self._log, self._name)
        return self._control.state().floor

    def end(self) -> None:
        """End all workers as SIGTERM does, and read what they reported."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"end\n")
        self._process.stdin.flush()
        self._close()

    def _close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if self._process.stdin.closed:
            return
        if self._control is not None:
            self._control.close()
        self._process.stdin.close()
        with suppress(AssertionError):
            while True:
                self.next()
        self._process.stdout.close()
        self._process.wait()

    def reports(self, word: str) -> Iterator[Said]:
        """Iterate over the reports that begin with a word."""
        return (said for said in self.said if said.words[0] == word)

    def sequences(self, word: str) -> list[int]:
        """Return the sequences of the reports that begin with a word, in order."""
        return [int(each) for said in self.reports(word) for each in said.words[1 : 2 if word == "got" else None]]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_contained:
            self._process.kill()  # and its container with it
        elif self._process.returncode is None:
            for pid in self.pids.values():
                os.kill(pid, signal.SIGKILL)
        self._close()
