"""Carrying out a verdict, step by step, after binlog/log/recovery.py; the recovery table is the product's own."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import TYPE_CHECKING

from binlog.errors import CorruptError
from binlog.format.crc import crc32c
from binlog.format.log_header import HEADER_BYTES, RECOVERED, CommitSlot, Flag, LogHeader
from binlog.log.recovery_table import Action, Verdict, decide, recovered
from stress.model.commit import SLOTS
from stress.model.disk import SimEvidence, SimFile

if TYPE_CHECKING:
    from stress.model.process import OpenFile
    from stress.model.world import World

Header = Generator[None, None, LogHeader]


def evidence(world: World, file: SimFile) -> SimEvidence:
    """What the file proves; with "no-group-crc" planted, whatever is asked."""
    return SimEvidence(file, blind=world.has("no-group-crc"))


def judge(world: World, file: SimFile, header: LogHeader, *, vouched: bool) -> Verdict:
    """The verdict on a file, with what is planted in it."""
    same_boot = header.boot_id == world.boot_id or world.has("boot-ignored")
    pending = header.pending if header.live_good else None
    if pending is not None and world.has("pending-dropped") and not same_boot:
        header = header.without_slot(pending.counter)
    if pending is not None and world.has("slot-over-foreign") and header.tail > header.own_tail:
        header = replace(header, tail=header.own_tail)
    return decide(header, evidence(world, file), same_boot=same_boot, vouched=vouched)


def read_settled(world: World, file: SimFile) -> LogHeader:
    """settled_header: the header as a reader takes it.  Raises: CorruptError."""
    header = file.header()
    if header.boot_id == world.boot_id:
        return header
    verdict = judge(world, file, header, vouched=False)
    if verdict.action is Action.REFUSE:
        raise CorruptError(f"file {file.number}", verdict.tail, f"recovery-{verdict.row}", verdict.text)
    return recovered(header, verdict)


def carry_out(world: World, file: OpenFile, header: LogHeader, verdict: Verdict, *, vouched: bool) -> Header:
    """Recovery.carry_out.  Raises: CorruptError; PoisonedError."""
    recovery = _Recovery(world, file)
    match verdict.action:
        case Action.REFUSE:
            raise CorruptError(f"file {file.number}", verdict.tail, f"recovery-{verdict.row}", verdict.text)
        case Action.KEEP:
            settled = header.boot_id == world.boot_id and header.slot(header.confirmed_counter + 1) is None
            if header.closed or settled:
                return header
            return (yield from recovery.write(recovery.of_this_boot(header)))
        case Action.CONFIRM:
            return (yield from recovery.confirmed(header, verdict.tail, header.own_tail, slot_first=True))
        case Action.ADOPT:
            believed = vouched or world.has("foreign-believed")
            yield from recovery.rewrite(header.confirmed_end, header.own_tail if believed else verdict.tail)
            header = header.without_slot(header.confirmed_counter + 1)
            header = replace(header, confirmed_end=verdict.tail, flags=header.flags | Flag.MIXED | Flag.STRICT)
            unsynced = world.has("foreign-unsynced")
            return (
                yield from recovery.confirmed(header, verdict.tail, header.own_tail, slot_first=True, unsynced=unsynced)
            )
        case Action.ROLL_FORWARD | Action.RESTORE:
            assert verdict.slot is not None
            header = yield from recovery.from_slot(header, verdict.slot)
            return (yield from recovery.confirmed(header, verdict.tail, verdict.slot.end, slot_first=True))
        case Action.SEAL:
            return (yield from recovery.sealed(header, verdict))


class _Recovery:
    """binlog.log.recovery.Recovery."""

    def __init__(self, world: World, file: OpenFile) -> None:
        self._world = world
        self._file = file

    def of_this_boot(self, header: LogHeader) -> LogHeader:
        """_of_this_boot."""
        if header.boot_id == self._world.boot_id:
            return header
        flags = header.flags & ~Flag.POISON
        return replace(header, epoch=header.epoch + 1, boot_id=self._world.boot_id, flags=flags, poison_errno=0)

    def from_slot(self, header: LogHeader, slot: CommitSlot) -> Header:
        """Recovery._from_slot."""
        yield from self.rewrite(slot.start, slot.end)
        believed = header.live_good
        return replace(
            header.with_slot(slot),
            tail=slot.end,
            own_tail=slot.end,
            record_count=slot.record_count,
            confirmed_end=slot.end,
            confirmed_counter=slot.counter,
            running_crc=0,
            epoch=header.epoch if believed else slot.epoch,
            flags=header.flags if believed else 0,
            boot_id=header.boot_id if believed else bytes(16),
        )

    def confirmed(
        self, header: LogHeader, tail: int, counted: int, *, slot_first: bool = False, unsynced: bool = False
    ) -> Header:
        """Recovery._confirmed."""
        header = yield from self._up_to(header, tail, counted)
        slot = header.slot(header.confirmed_counter)
        if slot_first and slot is not None and not self._world.has("slot-late"):
            yield
            self._file.write(slot.pack(uuid=header.uuid, number=header.number), SLOTS[slot.counter & 1])
        yield
        if not unsynced:
            self._file.sync()
        header = yield from self.write(self.of_this_boot(header))
        yield
        self._file.sync()
        self._world.audit.synced(self._file.file)
        return header

    def _up_to(self, header: LogHeader, tail: int, counted: int) -> Header:
        """Recovery._up_to."""
        start = header.confirmed_end
        yield from self.rewrite(start, tail)
        count = header.record_count
        if counted != tail:
            count = self._count(header, counted, tail)
        header = replace(header, tail=tail, own_tail=tail, record_count=count, confirmed_end=tail, running_crc=0)
        last = header.slot(header.confirmed_counter)
        if last is not None and last.end == tail:
            return header
        slot = CommitSlot(
            counter=header.confirmed_counter + 1, start=start, end=tail, record_count=count,
            time_ns=self._world.tick(), group_crc=crc32c(self._file.file.read(start, tail)), epoch=header.epoch,
            nonce=self._world.tick(),
        )  # fmt: skip
        return replace(header.with_slot(slot), confirmed_counter=slot.counter)

    def sealed(self, header: LogHeader, verdict: Verdict) -> Header:
        """Recovery._sealed."""
        if verdict.slot is not None:
            header = yield from self.from_slot(header, verdict.slot)
        if verdict.end > verdict.tail:
            yield
            aside = self._file.file.read(verdict.tail, verdict.end)
            self._world.aside[self._file.number, verdict.tail, verdict.end] = aside
        header = header.without_slot(header.confirmed_counter + 1)
        flags = header.flags & ~Flag.POISON
        header = replace(header, epoch=header.epoch + 1, flags=flags, poison_errno=0)
        if header.closed:
            header = yield from self.write(self.of_this_boot(replace(header, tail=verdict.tail)))
            yield
            self._file.sync()
            return header
        header = replace(header, next_number=0 if self._world.has("sealed-reused") else header.number + 1)
        return (yield from self.confirmed(header, verdict.tail, header.own_tail))

    def _count(self, header: LogHeader, counted: int, tail: int) -> int:
        """Recovery._count.  Raises: CorruptError."""
        start, count = HEADER_BYTES, 0
        slots = (slot for slot in header.slots() if slot.counter <= header.confirmed_counter)
        for at, known in [(counted, header.record_count), *((slot.end, slot.record_count) for slot in slots)]:
            if start <= at <= tail:
                start, count = at, known
        while start < tail:
            start += 4 + int.from_bytes(self._file.file.read(start, start + 4), "big")
            count += 1
            if start > tail:
                raise CorruptError(f"file {self._file.number}", start, "length", "a length leads past the tail")
        return count

    def write(self, header: LogHeader) -> Header:
        """Recovery._write."""
        yield
        if header.slot(header.confirmed_counter + 1) is not None and not self._world.has("pending-left"):
            header = header.without_slot(header.confirmed_counter + 1)
        header = replace(header, doorbell=header.doorbell + 1, live_good=True)
        self._file.write(header.recovered(), RECOVERED.start)
        self._world.audit.published(self._file.file)
        return header

    def rewrite(self, start: int, end: int) -> Generator[None, None, None]:
        """Recovery._rewrite."""
        if start < end:
            yield
            if not self._world.has("fresh-vouches"):
                self._file.write(self._file.file.read(start, end), start)
