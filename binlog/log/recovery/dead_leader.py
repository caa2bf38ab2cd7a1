"""What a leader that died left in shared memory: its note, and what had been staged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from binlog.errors import NotFoundError
from binlog.format.log_header import Flag, LogHeader
from binlog.log.files.header import settled_header
from binlog.log.recovery.evidence import FileEvidence
from binlog.log.recovery.file_operations import Directory
from binlog.log.recovery.recovery_table import Evidence
from binlog.storage.staging_area import NOTE_GATHERING, NOTE_IDLE, NOTE_SLOTTED, Note, Outcome, StagingArea


class Staged(Protocol):
    """What is asked of a Staging area here; stress/model has another one."""

    @property
    def is_only_user(self) -> bool: ...
    def note(self) -> Note: ...
    def resolve(self, outcome: Outcome) -> None: ...
    def drop(self) -> None: ...


def settle_orphans(directory: Directory, area: Staged, header: LogHeader, sync: Callable[[], None]) -> None:
    """Tell, for every record of a dead leader's group, what became of it.

    header: of the open file, whose lock is held and which was settled: what was pending there is in it now, or is not.
    sync: syncs that file.  Raises: PoisonedError.
    """
    note = area.note()
    if note.state != NOTE_IDLE:
        found = _outcome_in(directory, note)
        if found is Outcome.IN_FILE and header.flags & (Flag.MIXED | Flag.STRICT):
            sync()  # the leader may have died before the second sync of the strict order
        area.resolve(found)
    if area.is_only_user and not _same_history(note, header):
        area.drop()


def settle_of_another_log(area: StagingArea) -> None:
    """As `settle_orphans`, for the staging area of a log that was moved away: nothing tells what is in its file."""
    note = area.note()
    if note.state != NOTE_IDLE:
        area.resolve(Outcome.STAGED_AGAIN if note.state == NOTE_GATHERING else Outcome.UNKNOWN)


def outcome(note: Note, header: LogHeader, evidence: Evidence) -> Outcome:
    """Whether the note's group is in the file, by what the file says once it was settled."""
    if note.state == NOTE_GATHERING:
        return Outcome.STAGED_AGAIN
    if note.counter:
        return _outcome_of_commit(note, header, evidence)
    # No slot tells of it.  Its bytes are there, below the tail, or they never will be.
    return Outcome.IN_FILE if _is_there(note, header, evidence) else Outcome.STAGED_AGAIN


def _is_there(note: Note, header: LogHeader, evidence: Evidence) -> bool:
    end = note.offset + note.bytes
    return header.tail >= end and evidence.crc_holds(note.offset, end, note.crc)


def _outcome_of_commit(note: Note, header: LogHeader, evidence: Evidence) -> Outcome:
    if header.confirmed_counter < note.counter:
        return Outcome.STAGED_AGAIN
    slot = header.slot(note.counter)
    if slot is not None:
        return Outcome.IN_FILE if slot.nonce == note.nonce else Outcome.STAGED_AGAIN
    # Overtaken by two commits or more, of writers that do not see the note.  A slot that was in the file was rolled
    # forward by the first of them, unless another program wrote over its bytes before; whether this one was in the file
    # is not known where its leader died before it could say so.
    if not _is_there(note, header, evidence):
        return Outcome.STAGED_AGAIN
    return Outcome.IN_FILE if note.state == NOTE_SLOTTED else Outcome.UNKNOWN


def _outcome_in(directory: Directory, note: Note) -> Outcome:
    if note.state == NOTE_GATHERING:
        return Outcome.STAGED_AGAIN
    try:
        with directory.log_file(note.number) as file:
            header = settled_header(file.content, note.number, file.path)
            return outcome(note, header, FileEvidence(file.content, file.path))
    except NotFoundError:
        return Outcome.UNKNOWN  # the file was removed since


def _same_history(note: Note, header: LogHeader) -> bool:
    """Whether the log has all that the staging area saw committed; not so where the directory was put back from a
    copy."""
    if (header.number, header.confirmed_counter) != (note.last_number, note.last_counter):
        return (header.number, header.confirmed_counter) > (note.last_number, note.last_counter)
    slot = header.slot(note.last_counter)
    return slot is None or slot.nonce == note.last_nonce
