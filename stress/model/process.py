"""An appending process: its handles and calls, like binlog/log/append/session.py and writable_file.py.

At every write, sync and change of a name it may die, or power may fail, and at every `step` between them.  The caller
gives it the lock of the open file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from binlog.errors import CorruptError, InternalError, PoisonedError
from binlog.format.checksums import crc32c
from binlog.format.log_header import FIRST_OFFSET, LOG_HEADER, PUBLISHED, Flag, LogHeader, Status, new_log_header
from binlog.format.names import log_file_name
from binlog.log.append.producers import ProducerBatch, Producers
from binlog.log.files.header import validated_header
from binlog.log.recovery.dead_leader import resolve_dead_leader
from binlog.log.recovery.recovery_table import Action
from stress.model.commit import DOORBELL, SLOTS, Request, commit_group, commit_staged, is_plain, mark_poisoned
from stress.model.disk import FILE_BYTES, SimDescriptor, SimFile
from stress.model.recovery import JoinedStagingArea, SimRecovery, verdict_on
from stress.model.staging_area import Entry, Ring, SimStagingArea

if TYPE_CHECKING:
    from stress.model.world import World

_STATUS = LOG_HEADER.offset("status")
_NEXT = LOG_HEADER.offset("next_number")
SOURCE = "source"
RING_COUNT_MAX = 4


class OpenFile(SimDescriptor):
    """A log file as one process has it open.

    skips_sync, skips_slot: whether the next sync, or writes of a slot, are dropped, for bugs seeded in recovery.
    """

    def __init__(self, world: World, file: SimFile, *, strict: bool) -> None:
        super().__init__(world, file, log_file_name(file.number))
        self.number = file.number
        self.strict = strict
        self.confirmed: LogHeader | None = None  # of the last commit, after it is published and before its second sync
        self.opened_before_unconfirmed = world.has("fresh-vouches")
        self.epoch = self.counter = -1
        self.skips_sync = self.skips_slot = False

    def write(self, data: bytes, offset: int) -> None:
        if not (self.skips_slot and offset in SLOTS):
            super().write(data, offset)

    def sync(self) -> None:
        skips, self.skips_sync = self.skips_sync, False
        if not skips:
            super().sync()

    def header(self) -> LogHeader:
        return self.file.header()

    def publish(self, header: LogHeader) -> None:
        """Publish a header, as a commit does; readers see it at once."""
        self.write(header.published() + header.doorbell.to_bytes(4, "big"), PUBLISHED.start)
        self._world.audit.published(self.file)


_Action = Callable[[OpenFile], None]


class Process:
    """One process with one writer.

    sees_area: whether it shares the others' shared memory; otherwise it always appends directly.
    """

    def __init__(self, world: World, key: int, *, sees_area: bool, strict: bool) -> None:
        self.key = key
        self.strict = strict
        self.reopen = True
        self.file: OpenFile | None = None
        self.area: SimStagingArea | None = None
        self.ring: Ring | None = None
        self.ticket: Entry | None = None
        self._world = world
        self._sees_area = sees_area

    # ---- the calls; the lock is free when they begin ----

    def open(self) -> None:
        """Session.__init__."""
        self._run(None)
        self.reopen = False

    def append(self, request: Request) -> None:
        """Session.append, if the lock is free."""
        self._lead(request)

    def await_outcome(self) -> None:
        """binlog_await_outcome, for a process whose record is staged."""
        self._lead(None)

    def append_batch(self, request: Request, sequence: int) -> None:
        """Session.append_batches, as a producer batch."""
        self._run(lambda file: self._append_producer_batch(file, request, sequence))

    def sync(self) -> None:
        """Session.drain with confirm."""
        self._run(lambda file: commit_staged(self._world, file, self.area, confirm=True))

    def cutover(self) -> None:
        """Session.cutover."""
        self._run(lambda file: self._cut_over(file, file.header()))

    def _lead(self, own: Request | None) -> None:
        file = self.file
        if file is not None and is_plain(self._world, self.area, file):
            commit_staged(self._world, file, self.area, own=own, ring=self.ring)
        else:
            self._run(lambda file: self._append_recovered(file, own))

    def _append_recovered(self, file: OpenFile, own: Request | None) -> None:
        if not is_plain(self._world, self.area, file):
            raise InternalError("the file takes no commit right after its recovery")
        commit_staged(self._world, file, self.area, own=own, ring=self.ring)

    def _append_producer_batch(self, file: OpenFile, request: Request, sequence: int) -> None:
        """Session._is_in_log and WritableFile.append_together."""
        world, producers = self._world, self._producers(file)
        producers.resolve_intents(file.header(), file, file.path)
        last = producers.last(SOURCE)
        if last is not None and last.sequence >= sequence:
            request.place = last.ref
            return
        commit_staged(world, file, self.area, confirm=True)
        header = file.header()
        data, end = request.payload, header.tail + len(request.payload)
        file.write(data, header.tail)
        file.write(header._replace(flags=header.flags | Flag.INTENT).published(), PUBLISHED.start)
        file.sync()
        taken = ProducerBatch(SOURCE, sequence, len(request.ids), file.number, header.tail, end, crc32c(data))
        if not world.has("producer-late"):
            producers.begin(taken)
        commit_group(world, file, header, data, len(request.ids), sync=True, written=True)
        request.place = (file.number, header.tail)
        if world.has("producer-late"):
            producers.begin(taken)
        producers.finish(SOURCE)

    def _producers(self, file: OpenFile) -> Producers:
        return Producers(self._world.directory, file.access())

    def _run(self, action: _Action | None) -> None:
        """Session._run."""
        while True:
            if self.file is None:
                self._find_open_file()
            file = self.file
            assert file is not None
            if self._world.has("note-first"):
                self._resolve_area(file, file.header())
            self._check_failed(file)
            header = self._recover(file)
            try:
                if header.next_number and not header.closed:
                    self._cut_over(file, header)
                elif not header.closed:
                    self._resolve_area(file, header)
                    if action is not None:
                        action(file)
                    return
                else:
                    self._keep_closed(file, header)
            except PoisonedError:
                if not self._world.has("poison-unwritten"):
                    self._mark_poisoned(file)
                    if self.area is not None:
                        self.area.failed_number = file.number
                raise
            self._world.step()
            self.file = self._open(file.header().next_number)

    # ---- its steps ----

    def _check_failed(self, file: OpenFile) -> None:
        """Session._check_failed: the cache may have dropped the poison flag."""
        area = self._world.area if self.reopen and self._sees_area else self.area
        if area is None or area.failed_number != file.number:
            return
        if not self.reopen:
            raise PoisonedError("refused until opened again")
        if not file.header().closed:
            self._mark_poisoned(file)

    @staticmethod
    def _mark_poisoned(file: OpenFile) -> None:
        """WritableFile.mark_poisoned."""
        header = file.header()
        if not header.flags & Flag.POISON:
            mark_poisoned(file, header)

    def _open(self, number: int) -> OpenFile:
        logs = self._world.directory.logs
        if number not in logs:
            raise CorruptError("model", number, "missing-next", "the next file is missing")
        return OpenFile(self._world, logs[number], strict=self.strict)

    def _find_open_file(self) -> None:
        """Session._find_open_file and _recover."""
        world = self._world
        if not world.has("name-unsynced"):
            world.directory.sync()
        newest = max(world.directory.numbers())
        if newest > 1:
            file = self._open(newest - 1)
            header = validated_header(file, file.number, file.path)
            if header.closed and header.next_number == newest:
                self._keep_closed(file, header)
            else:
                header = self._recover(file)
                if not header.closed:
                    self._cut_over(file, header)
                elif header.next_number != newest:
                    raise CorruptError("model", newest, "missing-next", "the newest file is not the next one")
        self.file = self._open(newest)

    def _keep_closed(self, file: OpenFile, header: LogHeader) -> None:
        """writable_file.write_close."""
        if self._world.has("move-unsynced"):
            return
        if not self._world.has("close-trusted"):
            file.write(header.next_number.to_bytes(4, "big"), _NEXT)
            file.write(Status.CLOSED.to_bytes(2, "big"), _STATUS)
        file.sync()

    def _recover(self, file: OpenFile) -> LogHeader:
        """WritableFile.recover."""
        world, header = self._world, file.header()
        verdict = verdict_on(world, file, header)
        same_boot = header.boot_id == world.boot_id
        if verdict.action is Action.CLOSE and same_boot and not self.reopen:
            raise PoisonedError("refused until opened again")
        tail = header.tail
        if verdict.action is Action.CLOSE and file.file.errors:
            world.audit.failed()
        may_have_intents = not header.closed and (header.flags & Flag.INTENT or verdict.action is not Action.KEEP)
        recovery = SimRecovery(world, file)
        header = recovery.carry_out(header, verdict, opened_before_unconfirmed=file.opened_before_unconfirmed)
        if header.tail < tail:
            world.audit.dropped(file.number, header.tail)
        if may_have_intents:
            self._producers(file).resolve_intents(header, file, file.path)
            if header.flags & Flag.INTENT:
                header = recovery.write(header._replace(flags=header.flags & ~Flag.INTENT))
        file.opened_before_unconfirmed = True
        file.file.recovered_boot = world.boot_id
        file.epoch, file.counter = header.epoch, header.confirmed_counter
        return header

    def _resolve_area(self, file: OpenFile, header: LogHeader) -> None:
        """Session._enter_area."""
        world = self._world
        if not self._sees_area:
            return
        joined = self.area is None
        if joined:
            self.area = world.area
        area = self.area
        assert area is not None
        if self.reopen:
            area.failed_number = 0
        resolve_dead_leader(world.directory, JoinedStagingArea(world, area, self.key), header, file.sync)
        if joined:
            commit_staged(world, file, area)
            self.ring = area.claim(self.key, RING_COUNT_MAX)

    def _cut_over(self, file: OpenFile, header: LogHeader) -> None:
        """Cutover.run, with confirm before and close_at after; a file is complete and synced before it has a name."""
        world = self._world
        if header.confirmed_end < header.tail:
            if not is_plain(world, None, file):
                raise InternalError("the file cannot be confirmed right after its recovery")
            commit_staged(world, file, None, confirm=True)
            header = file.header()
        number = file.number + 1
        flags = Flag.FOREIGN_WRITERS if header.has_foreign_writers else 0
        fresh = new_log_header(
            number=number, uuid=header.uuid, first_sequence=0, created_ns=0,
            boot_id=world.boot_id, epoch=header.epoch, flags=flags,
        )  # fmt: skip
        if number not in world.directory.logs:
            world.step()
            world.name_file(number, fresh.pack())
            if not world.has("name-unsynced"):
                world.directory.sync()
        else:
            world.directory.sync()
            there = self._open(number)
            found = there.header()
            if found.closed:
                raise CorruptError("model", number, "next-file", "it cannot be the next")
            if found.tail == FIRST_OFFSET and found.pending is None:
                there.write(fresh.pack(), 0)
                there.sync()
        file.write(number.to_bytes(4, "big"), _NEXT)
        file.write(Status.CLOSED.to_bytes(2, "big"), _STATUS)
        file.sync()
        file.write((header.doorbell + 1).to_bytes(4, "big"), DOORBELL)
        file.write(bytes(FILE_BYTES - header.tail), header.tail)
