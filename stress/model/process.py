"""A process that appends: what it has open, and its calls, after binlog/log/session.py and writable_file.py.

Every `yield` is a place where it may die, or power may fail.  Whoever steps it gives it the lock of the open file.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING

from binlog.errors import CorruptError, InternalError, PoisonedError
from binlog.format.log_header import FIRST_OFFSET, LOG_HEADER, PUBLISHED, Flag, LogHeader, Status, new_log_header
from binlog.log import orphans
from binlog.log.recovery_table import Action
from binlog.storage.segment import NOTE_GATHERING, NOTE_IDLE, NOTE_SLOTTED, Outcome
from stress.model import recovery
from stress.model.commit import BELL, Request, Steps, commit_staged, is_plain, mark_poisoned
from stress.model.disk import FILE_BYTES, SimDescriptor, SimFile
from stress.model.segment import Entry, Ring, SimSegment

if TYPE_CHECKING:
    from stress.model.world import World

_STATUS = LOG_HEADER.offset("status")
_NEXT = LOG_HEADER.offset("next_number")
RING_COUNT_MAX = 4


class OpenFile:
    """A log file as one process has it open."""

    def __init__(self, world: World, file: SimFile, *, strict: bool) -> None:
        self.file = file
        self.number = file.number
        self.strict = strict
        self.confirmed: LogHeader | None = None  # of the last commit, once it is published and to be synced again
        self.vouched = world.has("fresh-vouches")
        self.epoch = self.counter = -1
        self._world = world
        self._descriptor = SimDescriptor(file)

    def header(self) -> LogHeader:
        return self.file.header()

    def write(self, data: bytes, offset: int) -> None:
        self.file.write(data, offset)

    def publish(self, header: LogHeader) -> None:
        """What a commit publishes, and a reader looks at at once."""
        self.write(header.published() + header.doorbell.to_bytes(4, "big"), PUBLISHED.start)
        self._world.audit.published(self.file)

    def sync(self) -> None:
        """Raises: PoisonedError."""
        if self._world.sync(self._descriptor):
            return
        if self._world.has("sync-retried") and self._world.sync(self._descriptor):
            return
        raise PoisonedError("sync")


class Process:
    """One process with one writer.

    sees_segment: whether it shares the others' shared memory; else it always appends directly.
    """

    def __init__(self, world: World, key: int, *, sees_segment: bool, strict: bool) -> None:
        self.key = key
        self.strict = strict
        self.reopen = True
        self.poisoned = False
        self.file: OpenFile | None = None
        self.segment: SimSegment | None = None
        self.ring: Ring | None = None
        self.ticket: Entry | None = None
        self._world = world
        self._sees_segment = sees_segment

    # ---- the calls; the lock is free when they begin ----

    def open(self) -> Steps:
        """Session.__init__."""
        yield from self._run(None)
        self.reopen = False

    def append(self, request: Request) -> Steps:
        """Session.append, where the lock is had at once."""
        yield from self._lead(request)

    def settle_ticket(self) -> Steps:
        """binlog_settle, for one whose record is staged."""
        yield from self._lead(None)

    def sync(self) -> Steps:
        """Session.drain with confirm."""
        yield from self._run(lambda file: commit_staged(self._world, file, self.segment, confirm=True))

    def cutover(self) -> Steps:
        """Session.cutover."""
        yield from self._run(lambda file: self._cut_over(file, file.header()))

    def _lead(self, own: Request | None) -> Steps:
        file = self.file
        if file is not None and is_plain(self._world, self.segment, file):
            yield from commit_staged(self._world, file, self.segment, own=own, ring=self.ring)
        else:
            yield from self._run(lambda file: self._append_settled(file, own))

    def _append_settled(self, file: OpenFile, own: Request | None) -> Steps:
        if not is_plain(self._world, self.segment, file):
            raise InternalError("the file cannot be committed to right after it was settled")
        yield from commit_staged(self._world, file, self.segment, own=own, ring=self.ring)

    def _run(self, action: Callable[[OpenFile], Steps] | None) -> Steps:
        """Session._run."""
        while True:
            if self.file is None:
                yield from self._find_open_file()
            file = self.file
            assert file is not None
            if self._world.has("note-first"):
                yield from self._settle_segment(file, file.header())
            header = yield from self._settle(file)
            try:
                if header.next_number and not header.closed:
                    yield from self._cut_over(file, header)
                elif not header.closed:
                    yield from self._settle_segment(file, header)
                    if action is not None:
                        yield from action(file)
                    return
                else:
                    yield from self._keep_closed(file, header)
            except PoisonedError:
                yield
                if not self._world.has("poison-untold"):
                    self._mark_poisoned(file)
                raise
            yield
            self.file = self._open(file.header().next_number)

    # ---- its steps ----

    @staticmethod
    def _mark_poisoned(file: OpenFile) -> None:
        """WritableFile.mark_poisoned."""
        header = file.header()
        if not header.flags & Flag.POISON:
            mark_poisoned(file, header)

    def _open(self, number: int) -> OpenFile:
        if number not in self._world.names:
            raise CorruptError("model", number, "missing-next", "the next file is not there")
        return OpenFile(self._world, self._world.names[number], strict=self.strict)

    def _find_open_file(self) -> Steps:
        """Session._find_open_file and _settle."""
        world = self._world
        if not world.has("name-unsynced"):
            world.sync_names()
        yield
        newest = max(world.names)
        if newest > 1:
            file = self._open(newest - 1)
            header = recovery.read_settled(world, file.file)
            if header.closed and header.next_number == newest:
                yield from self._keep_closed(file, header)
            else:
                header = yield from self._settle(file)
                if not header.closed:
                    yield from self._cut_over(file, header)
                elif header.next_number != newest:
                    raise CorruptError("model", newest, "missing-next", "the newest file is not the next one")
        self.file = self._open(newest)

    def _keep_closed(self, file: OpenFile, header: LogHeader) -> Steps:
        """writable_file.write_close."""
        if self._world.has("move-unsynced"):
            return
        if not self._world.has("close-believed"):
            file.write(header.next_number.to_bytes(4, "big"), _NEXT)
            file.write(Status.CLOSED.to_bytes(2, "big"), _STATUS)
            yield
        file.sync()

    def _settle(self, file: OpenFile) -> Generator[None, None, LogHeader]:
        """WritableFile.settle."""
        header = file.header()
        verdict = recovery.judge(self._world, file.file, header, vouched=file.vouched)
        same_boot = header.boot_id == self._world.boot_id
        if verdict.action is Action.SEAL and same_boot and not self.reopen:
            raise PoisonedError("refused until opened again")
        tail = header.tail
        if verdict.action is Action.SEAL and file.file.errors:
            self._world.audit.failed()
        header = yield from recovery.carry_out(self._world, file, header, verdict, vouched=file.vouched)
        if header.tail < tail:
            self._world.audit.dropped(file.number, header.tail)
        file.vouched = True
        file.file.settled_boot = self._world.boot_id
        file.epoch, file.counter = header.epoch, header.confirmed_counter
        return header

    def _settle_segment(self, file: OpenFile, header: LogHeader) -> Steps:
        """Session._settle_segment and orphans.settle_orphans."""
        world = self._world
        if not self._sees_segment:
            return
        joined = self.segment is None
        if joined:
            self.segment = world.segment
        segment = self.segment
        assert segment is not None
        if segment.note.state != NOTE_IDLE:
            outcome = self._outcome(segment)
            if world.has("note-ignored"):
                segment.note.state = NOTE_IDLE
            elif outcome is Outcome.STAGED_AGAIN or (world.has("staged-twice") and outcome is Outcome.IN_FILE):
                yield from segment.requeue()
            else:
                yield from segment.settle(outcome, has=world.has)
        if not any(ring.owner not in (None, self.key) for ring in segment.rings) and not orphans._same_history(
            segment.snapshot(), header
        ):
            segment.drop()
        if joined:
            yield from commit_staged(world, file, segment)
            self.ring = segment.claim(self.key, RING_COUNT_MAX)

    def _outcome(self, segment: SimSegment) -> Outcome:
        """orphans._outcome_in."""
        note = segment.snapshot()
        if note.state == NOTE_GATHERING:
            return Outcome.STAGED_AGAIN
        file = self._world.names[note.number]
        header = file.header()
        slot = header.slot(note.counter)
        if self._world.has("nonce-ignored") and slot is not None:
            note = replace(note, nonce=slot.nonce)
        outcome = orphans.outcome(note, header, recovery.evidence(self._world, file))
        if self._world.has("overtaken-believed") and slot is None and note.counter <= header.confirmed_counter:
            return Outcome.IN_FILE if note.counter and note.state == NOTE_SLOTTED else outcome
        return outcome

    def _cut_over(self, file: OpenFile, header: LogHeader) -> Steps:
        """Cutover.run, with confirm before and close_at after; a file is complete and synced before it has a name."""
        world = self._world
        if header.confirmed_end < header.tail:
            if not is_plain(world, None, file):
                raise InternalError("the file cannot be confirmed right after it was settled")
            yield from commit_staged(world, file, None, confirm=True)
            header = file.header()
        number = file.number + 1
        flags = Flag.MIXED if header.mixed else Flag(0)
        fresh = new_log_header(
            number=number, uuid=header.uuid, first_sequence=0, created_ns=0,
            boot_id=world.boot_id, epoch=header.epoch, flags=flags,
        )  # fmt: skip
        if number not in world.names:
            yield
            world.name_file(number, fresh.pack())
            yield
            if not world.has("name-unsynced"):
                world.sync_names()
        else:
            world.sync_names()
            there = self._open(number)
            found = there.header()
            if found.closed:
                raise CorruptError("model", number, "next-file", "it cannot be the next")
            if found.tail == FIRST_OFFSET and found.pending is None:
                yield
                there.write(fresh.pack(), 0)
                yield
                there.sync()
        yield
        file.write(number.to_bytes(4, "big"), _NEXT)
        yield
        file.write(Status.CLOSED.to_bytes(2, "big"), _STATUS)
        yield
        file.sync()
        yield
        file.write((header.doorbell + 1).to_bytes(4, "big"), BELL)
        yield
        file.write(bytes(FILE_BYTES - header.tail), header.tail)
