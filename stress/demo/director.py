"""The director of the demo: starts the processes, kills and stops some of them, and cuts the log over.

It believes only their messages.  Those that a writer sent before it was killed are still in the pipe and are read, so
the director knows exactly which records were acknowledged.
"""

from __future__ import annotations

import random
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import binlog
from binlog import Ref
from stress.demo.children import Child, Children
from stress.demo.compare import Ledger
from stress.demo.display import Display
from stress.demo.events import Key, share

SAMPLES = 12

# Every writer sends two with each append.
_KILL_MESSAGES_MAX = 24


class DemoError(Exception):
    """A failure of the demo itself, not of the log."""


class Place:
    """The directory of one run, and the paths in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = directory / "log"
        self.work = directory / "work.jsonl"
        self.journal = directory / "followed.txt"
        self.ledger = directory / "ledger.txt"
        self.parquet = directory / "extract.parquet"
        self.spark_errors = directory / "spark.log"
        self.messages = directory / "messages"
        self.results = directory / "results"


@dataclass
class WriterState:
    """The director's knowledge of a writer.

    sequence: of its first event that is not known to be acknowledged.  last: the ref of the one before.
    """

    number: int
    sequence: int = 0
    last: Ref | None = None
    in_flight: Key | None = None


class Director:
    """The stage with writers and a follower, which fills the ledger."""

    def __init__(self, place: Place, children: Children, display: Display, ledger: Ledger) -> None:
        self._place = place
        self._children = children
        self._display = display
        self._ledger = ledger
        self._writers: dict[Child, WriterState] = {}
        self._follower: Child | None = None
        self._followed = (Ref(1, 0), 0)
        self._open_file = 1
        self._restarted = False
        self._done = False
        self._kept_count = 0
        self._victim: Child | None = None
        self._kill_in = 0
        self._killed = False
        self._kill_at = share(ledger.events, writer=ledger.writers - 1, writers=ledger.writers) // 3

    def run(self) -> None:
        """Append everything, with all incidents, until the follower has read it.  Raises: DemoError."""
        self._place.log.mkdir()
        for number in range(self._ledger.writers):
            self._start_writer(WriterState(number))
        self._start_follower()
        for child, words in self._children.messages():
            self._kill_when_due()
            if child in self._writers:
                self._hear_writer(child, self._writers[child], words)
            elif words is None:
                self._follower_ended(child)
            else:
                self._hear_follower(*words)

    def _start_writer(self, state: WriterState) -> None:
        child = self._children.start(
            "writer", log=self._place.log, work=self._place.work, writer=state.number, writers=self._ledger.writers
        )
        self._writers[child] = state

    def _hear_writer(self, child: Child, state: WriterState, words: list[str] | None) -> None:
        match words:
            case ["appending", sequence, digest]:
                state.in_flight = Key(state.number, int(sequence), digest)
                self._choose_victim(child, state)
            case ["acknowledged", sequence, digest, ref]:
                self._kept(state, Key(state.number, int(sequence), digest), Ref.parse(ref))
            case ["found", sequence, digest, ref]:
                self._ledger.found[Key(state.number, int(sequence), digest)] += 1
                self._display.say(
                    f"writer {state.number}: record {sequence} is in the log, at {ref}; continuing after it"
                )
            case ["absent", sequence]:
                self._display.say(f"writer {state.number}: record {sequence} is not in the log; continuing with it")
            case None:
                self._writer_ended(child, state)
            case _:
                raise DemoError(f"writer {state.number} sent {words}")

    def _choose_victim(self, child: Child, state: WriterState) -> None:
        """Choose the last writer, a third through its share, to be killed at an unpredictable moment."""
        last = self._ledger.writers - 1
        if self._victim is None and state.number == last and state.sequence >= self._kill_at:
            self._victim = child
            self._kill_in = random.randrange(_KILL_MESSAGES_MAX)

    def _kill_when_due(self) -> None:
        """Kill the victim after that many messages, in mid-append: while it waits for the lock, writes or syncs."""
        if self._victim is None or self._killed:
            return
        self._kill_in -= 1
        if self._kill_in < 0 and self._writers[self._victim].in_flight is not None:
            self._victim.signal(signal.SIGKILL)
            self._killed = True

    def _kept(self, state: WriterState, key: Key, ref: Ref) -> None:
        self._ledger.acknowledged[key] += 1
        state.sequence, state.last, state.in_flight = key.sequence + 1, ref, None
        self._kept_count = count = self._kept_count + 1
        self._display.bar("appended", count, self._ledger.events)
        if self._open_file == 1 and count >= self._ledger.events // 2:
            self._cut_over()
        elif not self._restarted and count >= 2 * self._ledger.events // 3:
            self._restart_follower()

    def _cut_over(self) -> None:
        with binlog.Writer(self._place.log) as writer:
            self._open_file = writer.cutover()
        self._display.say(f"half-way: cut over to file {self._open_file}")

    def _writer_ended(self, child: Child, state: WriterState) -> None:
        del self._writers[child]
        code = child.process.returncode
        if child is self._victim:
            self._take_over(child, state)
        elif code:
            raise DemoError(f"writer {state.number} exited with code {code}")
        self._stop_follower_at_tail()

    def _take_over(self, child: Child, state: WriterState) -> None:
        if child.process.returncode != -signal.SIGKILL:
            raise DemoError(f"writer {state.number} finished before it could be killed")
        self._ledger.in_flight = state.in_flight
        in_flight_text = "nothing" if state.in_flight is None else f"record {state.in_flight.sequence}"
        self._display.say(
            f"kill -9 of writer {state.number} (process {child.process.pid}): {state.sequence:,} records were "
            f"acknowledged, and {in_flight_text} was in flight"
        )
        after: dict[str, Any] = {} if state.last is None else {"after": state.last}
        successor = self._children.start(
            "takeover",
            log=self._place.log,
            work=self._place.work,
            writer=state.number,
            writers=self._ledger.writers,
            sequence=state.sequence,
            **after,
        )
        self._display.say(f"process {successor.process.pid} takes over its work, and searches the log")
        self._writers[successor] = WriterState(state.number, state.sequence, state.last)

    def _start_follower(self) -> None:
        every = max(1, self._ledger.events // SAMPLES)
        self._follower = self._children.start(
            "follower", log=self._place.log, journal=self._place.journal, sample_every=every
        )

    def _hear_follower(self, word: str, *words: str) -> None:
        if word == "sample":
            self._display.show("          " + " ".join(words))
            return
        ref, count = Ref.parse(words[0]), int(words[1])
        if word == "from" and self._restarted:
            self._display.say(f"the follower resumes at its stored ref, {ref}, after {count:,} records")
        self._followed = ref, count
        self._display.bar("followed", count, self._ledger.events)
        self._stop_follower_at_tail()

    def _restart_follower(self) -> None:
        assert self._follower is not None
        self._restarted = True
        self._display.say(f"the follower is stopped (process {self._follower.process.pid})")
        self._stop_follower()

    def _stop_follower_at_tail(self) -> None:
        if self._follower is not None and not self._writers and self._followed[0] == binlog.stat(self._place.log).tail:
            self._done = True
            self._stop_follower()

    def _stop_follower(self) -> None:
        assert self._follower is not None
        # It may be stopped anywhere: its journal makes that safe.
        self._follower.signal(signal.SIGTERM)
        self._follower = None

    def _follower_ended(self, child: Child) -> None:
        if child.process.returncode != -signal.SIGTERM:
            raise DemoError(f"the follower exited with code {child.process.returncode}")
        if not self._done:
            self._start_follower()
