"""The product's recovery, over simulated files, with seeded bugs.

Recovery, the recovery table, and the resolution of a dead leader's group and of producer batches are `binlog.log`'s
own.  This module reports their work to the audit, and seeds bugs in their input or output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog.format.log_header import LogHeader
from binlog.log.recovery.evidence import FileEvidence
from binlog.log.recovery.recovery import Recovery
from binlog.log.recovery.recovery_table import Action, Verdict, decide
from binlog.storage.staging_area import NOTE_IDLE, NOTE_SLOTTED, Note, Outcome
from stress.model.commit import SLOTS
from stress.model.staging_area import SimStagingArea

if TYPE_CHECKING:
    from stress.model.process import OpenFile
    from stress.model.world import World


class _Evidence(FileEvidence):
    """With the bug "no-group-crc", evidence that proves anything."""

    def __init__(self, world: World, file: OpenFile) -> None:
        super().__init__(file, file.path)
        self._blind = world.has("no-group-crc")

    def crc_holds(self, start: int, end: int, crc: int) -> bool:
        return self._blind or super().crc_holds(start, end, crc)


def verdict_on(world: World, file: OpenFile, header: LogHeader) -> Verdict:
    """Return the verdict on a file, with the seeded bug."""
    same_boot = header.boot_id == world.boot_id or world.has("boot-ignored")
    pending = header.pending if header.live_good else None
    if pending is not None and world.has("pending-dropped") and not same_boot:
        header = header.without_slot(pending.counter)
    if pending is not None and world.has("slot-over-foreign") and header.tail > header.published_tail:
        header = header._replace(tail=header.published_tail)
    return decide(
        header, _Evidence(world, file), same_boot=same_boot, opened_before_unconfirmed=file.opened_before_unconfirmed
    )


class SimRecovery(Recovery):
    """Recovery that reports to the audit: the bytes that readers may see, and the durable ones."""

    def __init__(self, world: World, file: OpenFile) -> None:
        super().__init__(world.directory, file.number, file)
        self._world = world
        self._open = file

    def carry_out(self, header: LogHeader, verdict: Verdict, *, opened_before_unconfirmed: bool = False) -> LogHeader:
        self._open.skips_sync = verdict.action is Action.ADOPT and self._world.has("foreign-unsynced")
        self._open.skips_slot = self._world.has("slot-late")
        try:
            return super().carry_out(
                header,
                verdict,
                opened_before_unconfirmed=opened_before_unconfirmed or self._world.has("foreign-trusted"),
            )
        finally:
            self._open.skips_sync = self._open.skips_slot = False

    def write(self, header: LogHeader) -> LogHeader:
        slot = header.slot(header.confirmed_counter + 1)
        written = super().write(header)
        if slot is not None and self._world.has("pending-left"):
            self._open.file.write(slot.pack(uuid=header.uuid, number=header.number), SLOTS[slot.counter & 1])
        self._world.audit.published(self._open.file)
        return written

    def rewrite(self, start: int, end: int) -> None:
        if not self._world.has("fresh-vouches"):
            super().rewrite(start, end)

    def _free_end(self, start: int, end: int) -> int:
        return end if self._world.has("quarantine-trusted") else super()._free_end(start, end)

    def _confirmed(self, header: LogHeader, tail: int, counted: int, *, slot_first: bool = False) -> LogHeader:
        if not slot_first and self._world.has("dropped-reused"):
            header = header._replace(next_number=0)
        header = super()._confirmed(header, tail, counted, slot_first=slot_first)
        self._world.audit.synced(self._open.file)
        return header


class JoinedStagingArea:
    """The staging area as `resolve_dead_leader` uses it.  key: of the process."""

    def __init__(self, world: World, area: SimStagingArea, key: int) -> None:
        self._world = world
        self._area = area
        self._key = key

    @property
    def is_only_user(self) -> bool:
        return not any(ring.owner not in (None, self._key) for ring in self._area.rings)

    def note(self) -> Note:
        note = self._area.snapshot()
        if note.state != NOTE_IDLE and self._world.has("nonce-ignored"):
            slot = self._header(note).slot(note.counter)
            note = note if slot is None else note._replace(nonce=slot.nonce)
        return note

    def resolve(self, outcome: Outcome) -> None:
        note, has = self._area.snapshot(), self._world.has
        if has("note-ignored"):
            self._area.note.state = NOTE_IDLE
            return
        if has("overtaken-trusted") and note.counter and note.state == NOTE_SLOTTED:
            header = self._header(note)
            if header.slot(note.counter) is None and note.counter <= header.confirmed_counter:
                outcome = Outcome.IN_FILE
        if outcome is Outcome.STAGED_AGAIN or (outcome is Outcome.IN_FILE and has("staged-twice")):
            self._area.requeue()
        else:
            self._area.set_outcomes(outcome)

    def drop(self) -> None:
        self._area.drop()

    def _header(self, note: Note) -> LogHeader:
        return self._world.directory.logs[note.number].header()
