"""One run: processes, another program, deaths, power cuts and failing writes, in an order that a seed decides.

The process that holds the lock of the open file is stepped from one store or system call to the next.  In between,
others stage, wait and give up, the kernel writes back some pages, and any process may end.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random

from binlog.errors import CorruptError, InternalError, PoisonedError
from binlog.format.log_header import LOG_HEADER, Flag, new_log_header
from binlog.format.names import log_file_name
from binlog.storage import boot
from binlog.storage.mode import Mode
from stress.model.audit import Audit, Promise, ViolationError
from stress.model.commit import Request
from stress.model.disk import FILE_BYTES, SimDescriptor, SimDirectory, SimFile
from stress.model.process import Process
from stress.model.seeded_bugs import SEEDED_BUGS
from stress.model.staging_area import Entry, SimStagingArea, State

_TAIL = LOG_HEADER.offset("tail")
_UUID = bytes(range(16))
_JPOS, _SOURCE = 0, -1000
_NUMBER_MAX = 5
_PROCESSES_MAX = 3


@dataclass(frozen=True, slots=True)
class RunConditions:
    """The conditions of one run."""

    jpos: bool
    write_errors: bool
    evictions: bool
    torn_lines: bool
    power_cuts: bool
    strict: bool
    alone: float
    busy: float
    deaths: float

    @classmethod
    def of(cls, random: Random) -> RunConditions:
        jpos, errors = random.random() < 0.45, random.random() < 0.4
        return cls(
            jpos=jpos,
            write_errors=errors,
            evictions=errors and not jpos and random.random() < 0.4,
            torn_lines=random.random() < 0.2,
            power_cuts=random.random() < 0.65,
            strict=random.random() < 0.35,
            alone=random.choice((0.0, 0.3, 0.6)),
            busy=random.choice((0.05, 0.2, 0.4)),
            deaths=random.choice((0.0, 0.03, 0.1)),
        )


class DiedError(BaseException):
    """The process that holds the lock is dead: nothing after this point takes place."""


@contextmanager
def _boots_of(world: World) -> Iterator[None]:
    """Make the product take the world's boots for the machine's."""
    real = boot._read
    boot._read = world.read_boot_id
    boot.whole_boot_id.cache_clear()
    try:
        yield
    finally:
        boot._read = real
        boot.whole_boot_id.cache_clear()


class World:
    """The state that all processes share, and the seed's choices."""

    def __init__(self, seed: int, seeded: frozenset[str] = frozenset(), *, trace: bool = False) -> None:
        self.random = Random(seed)
        self._seeded = seeded
        self.steps = 0
        self.states: set[int] = set()
        self.boot_id = bytes(boot.BOOT_BYTES)
        self.directory = SimDirectory(self)
        self.area = SimStagingArea(self.step, self.has)
        self.audit = Audit(self)
        self._conditions = RunConditions.of(self.random)
        self._processes: list[Process] = []
        self._process_count = 0
        self._ticks = 0
        self._trace = trace
        self._holder: Process | None = None
        self._died = False
        self._turn_count = 0
        self._turn_records: list[int] = []
        self._boot()
        header = new_log_header(number=1, uuid=_UUID, first_sequence=0, created_ns=0, boot_id=self.boot_id)
        self.name_file(1, header.pack())
        self.directory.keep_names()

    # ---- called by the processes ----

    def has(self, name: str) -> bool:
        """Whether this world has a seeded bug."""
        assert name in SEEDED_BUGS, name
        return name in self._seeded

    def step(self) -> None:
        """Let anything happen between two steps of the process that holds the lock.  Raises: DiedError."""
        if not self._died:
            self.steps += 1
            self._died = self._meanwhile(self._holder)
        if self._died:
            raise DiedError

    def read_boot_id(self) -> str:
        """Return the boot id, as binlog.storage.boot reads it."""
        return str(uuid.UUID(bytes=self.boot_id.ljust(16, b"\0")))

    def tick(self) -> int:
        """Return the time of a clock that never goes back, or a number that is never reused."""
        self._ticks += 1
        return self._ticks

    def sync(self, descriptor: SimDescriptor) -> bool:
        failing = frozenset[int]()
        dirty = sorted(descriptor.file.dirty)
        if self._conditions.write_errors and dirty and self.random.random() < 0.12:
            failing = frozenset(self.random.sample(dirty, self.random.randint(1, len(dirty))))
            self.audit.failed()
            self._say(f"units {sorted(failing)} of file {descriptor.file.number} fail")
        return descriptor.flush(failing)

    def name_file(self, number: int, header: bytes) -> None:
        """Name a file that is complete and synced."""
        file = SimFile(number, torn_lines=self._conditions.torn_lines)
        file.cache[: len(header)] = header
        file.disk[:] = file.cache
        self.directory.change({log_file_name(number): file})

    # ---- a run ----

    def run(self, step_count: int) -> None:
        """Raises: ViolationError."""
        try:
            with _boots_of(self):
                while self.steps < step_count:
                    self._act()
                self._end()
        except (CorruptError, InternalError) as error:
            raise ViolationError(f"{type(error).__name__}: {error}") from error

    def _act(self) -> None:
        random = self.random
        choice = random.random()
        if self._conditions.jpos and choice < 0.2:
            self._step_jpos()  # it may be the first after a power cut
            return
        choice = random.random()
        if len(self._processes) < _PROCESSES_MAX and (not self._processes or choice < 0.15):
            self._hold(self._start(), "opens")
            return
        if self._conditions.evictions and choice > 0.9:
            # Not within a call: a page that was written a moment ago is not read from the disk again.
            file = random.choice(list(self.directory.logs.values()))
            file.evict()
            self.audit.forgot(file.number)
        process = random.choice(self._processes)
        if process.ticket is not None and process.ticket.state not in (State.STAGED, State.TAKEN):
            process.ticket = None
        if process.ticket is not None:
            self._hold(process, "resolves")
        elif choice < 0.27 and max(self.directory.logs) < _NUMBER_MAX:
            self._hold(process, "cuts over")
        elif choice < 0.35:
            self._hold(process, "syncs")
        elif choice < 0.4:
            self._end_process(process, "leaves")
        elif choice < 0.48:
            self._hold(process, "appends a batch")
        else:
            self._hold(process, "appends")

    def _start(self) -> Process:
        self._process_count += 1
        alone = self.random.random() < self._conditions.alone
        process = Process(self, self._process_count, sees_area=not alone, strict=self._conditions.strict)
        self._processes.append(process)
        return process

    def _hold(self, process: Process, what: str) -> None:
        """Give the process the lock for one call."""
        request = self._request(process, what) if what in ("appends", "appends a batch") else None
        calls = {"opens": process.open, "resolves": process.await_outcome, "cuts over": process.cutover}
        calls |= {"syncs": process.sync}
        self._say(f"process {process.key} {what} {request.ids if request else ''}")
        if request is None:
            call: Callable[[], None] = calls[what]
        elif what == "appends":
            call = partial(process.append, request)
        else:
            call = partial(process.append_batch, request, self._turn_count)
        self._holder, failures = process, self.audit.failures
        if self._ended(call) and request is not None and request.place is not None:
            unsynced = Promise.BOOT if self.audit.failures == failures else Promise.NONE
            promise = Promise.DURABLE if request.mode is Mode.SYNC else unsynced
            self.audit.promise(request.ids, promise, request.place)
            if what == "appends a batch":
                self._turn_records = []
        elif process not in self._processes:
            return
        # If the cache drops pages, the header may be an older one, whose pending commit no writer has adopted yet.
        if what == "opens" and not self._conditions.evictions:
            self.audit.everything()

    def _ended(self, call: Callable[[], None]) -> bool:
        """Return whether the call finished, which a death or an error prevents."""
        self._died = False
        try:
            call()
        except DiedError:
            return False
        except PoisonedError:
            assert self._holder is not None
            self._end_process(self._holder, "meets a failure and leaves")
            return False
        finally:
            self._holder = None
        return True

    def _meanwhile(self, holder: Process | None) -> bool:
        """Let others act between two steps of the process that holds the lock; return whether it died."""
        random, conditions = self.random, self._conditions
        choice = random.random()
        if choice < conditions.deaths:
            if holder is not None:
                self._end_process(holder, "is killed")
            return True
        if choice < conditions.deaths + 0.015 and conditions.power_cuts:
            self._lose_power()
            return True
        if random.random() < conditions.busy:
            self._others_act(holder)
        if random.random() < 0.1:
            self._kernel_acts()
        return False

    def _others_act(self, holder: Process | None) -> None:
        others = [other for other in self._processes if other is not holder and other.ring is not None]
        if not others:
            return
        other = self.random.choice(others)
        if other.ticket is None:
            self._stage(other)
        elif self.random.random() < 0.1:
            self._give_up(other)
        elif self.random.random() < 0.05:
            self._end_process(other, "is killed")

    def _kernel_acts(self) -> None:
        random = self.random
        file = random.choice(list(self.directory.files.values()))
        if file.dirty and random.random() < 0.8:
            fails = self._conditions.write_errors and random.random() < 0.15
            if fails:
                self.audit.failed()
                self._say(f"a unit of file {file.number} fails in the background")
            file.write_back(random.choice(sorted(file.dirty)), fails=fails)
        if self._conditions.write_errors and file.errors and random.random() < 0.3:
            SimDescriptor(self, file, "").flush()  # a backup tool receives the error, and no other process

    # ---- records ----

    def _request(self, process: Process, what: str) -> Request:
        if what == "appends a batch":
            # Until a process has acknowledged it, the same batch is retried, by any process.
            if not self._turn_records:
                self._turn_count += 1
                self._turn_records = self._new_records(_SOURCE, self.random.choice((1, 2)))
            ids, mode = self._turn_records, Mode.SYNC
        else:
            mode = self.random.choices((Mode.SYNC, Mode.FLUSH), (3, 2))[0]
            ids = self._new_records(process.key, self.random.choice((1, 1, 2)))
        return Request(ids, b"".join(self.audit.known[key].framed for key in ids), mode)

    def _new_records(self, writer: int, count: int) -> list[int]:
        fillers = (0, 0, 8, 16, 100, 260)
        return [self.audit.new(writer, self.random.choice(fillers)) for _ in range(count)]

    def _stage(self, process: Process) -> None:
        assert process.ring is not None
        mode = self.random.choices((Mode.SYNC, Mode.FLUSH, Mode.STAGE), (3, 1, 2))[0]
        ids = self._new_records(process.key, 1)
        entry = Entry(ids, self.audit.known[ids[0]].framed, mode)
        entry.on_outcome = partial(self._on_outcome, entry.mode)
        if mode is Mode.STAGE:
            self.audit.staged(ids)
        else:
            process.ticket = entry
        process.ring.entries.append(entry)
        self._say(f"process {process.key} stages {ids} {mode.name}")

    def _on_outcome(self, mode: Mode, entry: Entry) -> None:
        """Report the outcome of an entry, as its owner sees it."""
        place = (entry.number, entry.offset)
        if entry.state is State.DONE:
            self.audit.promise(entry.ids, Promise.DURABLE if mode is Mode.SYNC else Promise.BOOT, place)
        else:
            self.audit.promise(entry.ids, Promise.NONE)

    def _give_up(self, process: Process) -> None:
        """binlog_abandon."""
        entry = process.ticket
        assert entry is not None
        if entry.state is State.STAGED:
            entry.state = State.WITHDRAWN
            self.audit.promise(entry.ids, Promise.NEVER)
        entry.on_outcome = None
        process.ticket = None

    # ---- the other program ----

    def _step_jpos(self) -> None:
        files = [file for _, file in sorted(self.directory.logs.items())]
        reached = 1 + sum(file.header().closed for file in files)  # it moves from a closed file to the next
        file = files[min(reached, len(files)) - 1]
        if self.random.random() < 0.15:
            file = self.random.choice(files[:reached])  # it may still have a closed one open
        header = file.header()
        # After a power cut only the strict order, and a tail as new as the block next to it, keep it from overwriting
        # our last records.
        strict = header.flags & (Flag.FOREIGN_WRITERS | Flag.STRICT) and not self._conditions.torn_lines
        if not (file.recovered_boot == self.boot_id or strict) or not header.live_good:
            return
        self._ended(partial(self._jpos_appends, file))

    def _jpos_appends(self, file: SimFile) -> None:
        descriptor = SimDescriptor(self, file, log_file_name(file.number))
        (key,) = self._new_records(_JPOS, 1)
        framed = self.audit.known[key].framed
        tail = file.header().tail
        if tail + len(framed) > FILE_BYTES:
            return
        self._say(f"another program appends {key} at {file.number}:{tail}")
        descriptor.write(framed, tail)
        self.step()
        self.audit.foreign(file.number, tail, tail + len(framed))
        file.write((tail + len(framed)).to_bytes(8, "big"), _TAIL)
        self.step()
        if self.sync(descriptor):
            self.audit.foreign_synced()
            self.audit.promise([key], Promise.ASIDE)

    # ---- ends ----

    def _end_process(self, process: Process, how: str) -> None:
        self._say(f"process {process.key} {how}")
        self._note_state()
        self._processes.remove(process)
        if process.ring is not None:
            process.ring.owner = None
            for entry in process.ring.entries:
                if entry.mode is not Mode.STAGE:
                    entry.on_outcome = None

    def _lose_power(self) -> None:
        self.directory.lose_power(self.random)
        self._note_state()
        self._processes.clear()
        self._boot()
        self.audit.lost_power(torn_lines=self._conditions.torn_lines)
        self._say("power fails")
        self.audit.everything()

    def _boot(self) -> None:
        self.area = SimStagingArea(self.step, self.has)
        boot.whole_boot_id.cache_clear()
        self.boot_id = self.tick().to_bytes(8, "big").ljust(boot.BOOT_BYTES, b"\0")

    def _end(self) -> None:
        """Run a second generation: one more process opens, appends and reads the log; twice."""
        self._conditions = RunConditions(**dict.fromkeys(RunConditions.__slots__, False))
        for _ in range(2):
            for process in list(self._processes):
                self._end_process(process, "leaves")
            for what in ("syncs", "appends", "syncs"):
                self._hold(self._some_process(), what)
            self.audit.everything()
            self.audit.nothing_staged()
            self._lose_power()
        self._hold(self._start(), "opens")

    def _some_process(self) -> Process:
        """Return a process that has the log open.  An error not reported yet may end the first one that tries."""
        for _ in range(3):
            if not self._processes:
                self._hold(self._start(), "opens")
        if not self._processes:
            raise ViolationError("the log cannot be opened")
        return self._processes[-1]

    def _note_state(self) -> None:
        notes = [(ring.resolved, tuple(entry.state for entry in ring.entries)) for ring in self.area.rings]
        files = [bytes(file.cache) for _, file in sorted(self.directory.logs.items())]
        self.states.add(hash((*files, *notes, self.area.note.state)))

    def _say(self, text: str) -> None:
        if self._trace:
            print(f"{self.steps:5} {text}")
