"""Leading and committing, step by step, like native/log/group.c and native/log/commit.c.

At every `step`, write and sync, the process that runs this may die, or power may fail.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog.errors import PoisonedError
from binlog.format.checksums import crc32c
from binlog.format.log_header import LOG_HEADER, PUBLISHED, CommitSlot, Flag, LogHeader
from binlog.storage.mode import Mode
from binlog.storage.staging_area import NOTE_IDLE, NOTE_SLOTTED, Outcome
from stress.model.staging_area import Ring, SharedNote, SimStagingArea

if TYPE_CHECKING:
    from stress.model.process import OpenFile
    from stress.model.world import World

SLOTS = (LOG_HEADER.offset("slot_0"), LOG_HEADER.offset("slot_1"))
DOORBELL = LOG_HEADER.offset("doorbell")


@dataclass(slots=True)
class Request:
    """Records that a caller appends; `place` is set after that."""

    ids: list[int]
    payload: bytes
    mode: Mode
    place: tuple[int, int] | None = None


def is_plain(world: World, area: SimStagingArea | None, file: OpenFile) -> bool:
    """is_plain and live_is_plain: whether the file is as a commit leaves it."""
    if area is not None and (area.note.state != NOTE_IDLE or area.failed_number == file.number):
        return False
    header = file.header()
    return (
        not header.closed
        and not header.next_number
        and header.live_good
        and header.tail == header.published_tail
        and not header.flags & (Flag.POISON | Flag.INTENT)
        and header.epoch == file.epoch
        and header.confirmed_counter >= file.counter
        and header.boot_id == world.boot_id
        and header.slot(header.confirmed_counter + 1) is None
    )


def commit_staged(
    world: World,
    file: OpenFile,
    area: SimStagingArea | None,
    *,
    own: Request | None = None,
    ring: Ring | None = None,
    confirm: bool = False,
) -> None:
    """Commit the staged records, and the caller's after them; `ring` is the caller's.  Raises: PoisonedError."""
    header = file.header()
    data, ids, sync, note = b"", list[int](), confirm, None
    if area is not None:
        data, ids, staged_sync = area.gather(file.number, ring)
        sync |= staged_sync
        if data:
            area.place(header.tail, data)
            note = area.note
            world.step()
    place = header.tail + len(data)
    if own is not None:
        data, ids, sync = data + own.payload, ids + own.ids, sync or own.mode is Mode.SYNC
    try:
        commit_group(world, file, header, data, len(ids), sync=sync, note=note)
    except PoisonedError:
        if not world.has("poison-unwritten"):
            mark_poisoned(file, header if file.confirmed is None else file.confirmed)
        world.step()
        if area is not None:
            area.failed_number = file.number if not world.has("poison-unwritten") else 0
            area.set_outcomes(None, confirmed=file.confirmed is not None)
        raise
    if area is not None:
        world.step()
        area.set_outcomes(Outcome.IN_FILE)
    if own is not None:
        own.place = (file.number, place)


def commit_group(
    world: World,
    file: OpenFile,
    header: LogHeader,
    data: bytes,
    count: int,
    *,
    sync: bool,
    note: SharedNote | None = None,
    written: bool = False,
) -> None:
    """commit_group.  written: whether the data is in the file already."""
    file.confirmed = None
    sync &= bool(data) or header.confirmed_end < header.tail
    if not data and not sync:
        return
    if not written:
        file.write(data, header.tail)
    tail = header.tail + len(data)
    crc = crc32c(data, header.running_crc)
    header = header._replace(tail=tail, published_tail=tail, record_count=header.record_count + count, running_crc=crc)
    strict = file.strict or bool(header.flags & (Flag.FOREIGN_WRITERS | Flag.STRICT))
    if strict:
        header = header._replace(flags=header.flags | Flag.STRICT)
    if world.has("tail-before-data"):
        file.publish(header)
    if sync:
        header = _confirm(world, file, header, note)
    header = header._replace(doorbell=header.doorbell + 1)
    file.publish(header)
    if sync and strict and not world.has("not-strict"):
        file.confirmed = header
        file.sync()
        world.audit.synced(file.file)


def _confirm(world: World, file: OpenFile, header: LogHeader, note: SharedNote | None) -> LogHeader:
    """confirm."""
    slot = CommitSlot(
        counter=header.confirmed_counter + 1, start=header.confirmed_end, end=header.tail,
        record_count=header.record_count, time_ns=world.tick(), group_crc=header.running_crc, epoch=header.epoch,
        nonce=world.tick(),
    )  # fmt: skip
    if note is not None:
        world.step()
        note.nonce = slot.nonce
        world.step()
        note.counter = slot.counter
    place = 0 if world.has("one-slot") else slot.counter & 1
    file.write(slot.pack(uuid=header.uuid, number=header.number), SLOTS[place])
    if note is not None:
        world.step()
        note.state = NOTE_SLOTTED
    if not world.has("no-sync"):
        file.sync()
    file.counter = slot.counter
    return header._replace(confirmed_end=header.tail, confirmed_counter=slot.counter, running_crc=0)


def mark_poisoned(file: OpenFile, header: LogHeader) -> None:
    """commit_write_poison: over the header as it was published, which may have reverted since."""
    file.write(header._replace(flags=header.flags | Flag.POISON, poison_errno=5).published(), PUBLISHED.start)
