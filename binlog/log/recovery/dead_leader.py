"""Resolving the group of a dead leader: its note, and the records staged in shared memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from binlog.errors import NotFoundError
from binlog.format.log_header import Flag, LogHeader
from binlog.log.files.header import validated_header
from binlog.log.recovery.evidence import FileEvidence
from binlog.log.recovery.file_operations import Directory
from binlog.log.recovery.recovery_table import Evidence
from binlog.storage.staging_area import NOTE_GATHERING, NOTE_IDLE, NOTE_SLOTTED, Note, Outcome, StagingArea


class Staged(Protocol):
    """The part of a staging area that is used here; stress/model has another implementation."""

    @property
    def is_only_user(self) -> bool: ...
    def note(self) -> Note: ...
    def resolve(self, outcome: Outcome) -> None: ...
    def drop(self) -> None: ...


def resolve_dead_leader(directory: Directory, area: Staged, header: LogHeader, sync: Callable[[], None]) -> None:
    """Give every record of a dead leader's group its outcome.

    header: of the open file, whose lock is held and which was recovered, so that no commit is pending.
    sync: syncs that file.  Raises: PoisonedError.
    """
    note = area.note()
    if note.state != NOTE_IDLE:
        found = _outcome_in(directory, note)
        if found is Outcome.IN_FILE and header.flags & (Flag.FOREIGN_WRITERS | Flag.STRICT):
            sync()  # the leader may have died before the second sync of the strict order
        area.resolve(found)
    if area.is_only_user and not _same_history(note, header):
        area.drop()


def resolve_group_of_other_log(area: StagingArea) -> None:
    """Resolve a dead leader's group in the staging area of a log that was moved away, whose file cannot be read."""
    note = area.note()
    if note.state != NOTE_IDLE:
        area.resolve(Outcome.STAGED_AGAIN if note.state == NOTE_GATHERING else Outcome.UNKNOWN)


def outcome(note: Note, header: LogHeader, evidence: Evidence) -> Outcome:
    """Return the outcome of the note's group, according to the file after its recovery."""
    if note.state == NOTE_GATHERING:
        return Outcome.STAGED_AGAIN
    if note.counter:
        return _outcome_of_commit(note, header, evidence)
    # The group has no slot.  Its bytes are in the file, before the tail, or they never will be.
    return Outcome.IN_FILE if _is_in_file(note, header, evidence) else Outcome.STAGED_AGAIN


def _is_in_file(note: Note, header: LogHeader, evidence: Evidence) -> bool:
    end = note.offset + note.bytes
    return header.tail >= end and evidence.crc_holds(note.offset, end, note.crc)


def _outcome_of_commit(note: Note, header: LogHeader, evidence: Evidence) -> Outcome:
    if header.confirmed_counter < note.counter:
        return Outcome.STAGED_AGAIN
    slot = header.slot(note.counter)
    if slot is not None:
        return Outcome.IN_FILE if slot.nonce == note.nonce else Outcome.STAGED_AGAIN
    # Two or more commits came later, by writers that do not see the note.  If its slot was in the file, the first of
    # them rolled it forward, unless another program overwrote its bytes before.  It is unknown whether the slot was in
    # the file if the leader died before it noted that.
    if not _is_in_file(note, header, evidence):
        return Outcome.STAGED_AGAIN
    return Outcome.IN_FILE if note.state == NOTE_SLOTTED else Outcome.UNKNOWN


def _outcome_in(directory: Directory, note: Note) -> Outcome:
    if note.state == NOTE_GATHERING:
        return Outcome.STAGED_AGAIN
    try:
        with directory.log_file(note.number) as file:
            header = validated_header(file.content, note.number, file.path)
            return outcome(note, header, FileEvidence(file.content, file.path))
    except NotFoundError:
        return Outcome.UNKNOWN  # the file was removed meanwhile


def _same_history(note: Note, header: LogHeader) -> bool:
    """Whether the log has every commit that the staging area saw; not if the directory was restored from a copy."""
    if (header.number, header.confirmed_counter) != (note.last_number, note.last_counter):
        return (header.number, header.confirmed_counter) > (note.last_number, note.last_counter)
    slot = header.slot(note.last_counter)
    return slot is None or slot.nonce == note.last_nonce
