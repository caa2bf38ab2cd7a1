"""The rings and the leader's note, store by store, like native/log/staging_area.c.

At every `step` the process that runs this may die.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum

from binlog.format.checksums import crc32c
from binlog.storage.mode import Mode
from binlog.storage.native import lib
from binlog.storage.staging_area import NOTE_GATHERING, NOTE_IDLE, Note, Outcome

NOTE_PREPARED = int(lib.BINLOG_NOTE_PREPARED)


class State(IntEnum):
    """The state of an entry; enum entry_state."""

    STAGED = 1
    TAKEN = 2
    DONE = 3
    FAILED = 4
    UNKNOWN = 5
    WITHDRAWN = 6


@dataclass(slots=True, eq=False)
class Entry:
    """The records that one append staged."""

    ids: list[int]
    payload: bytes
    mode: Mode
    state: State = State.STAGED
    number: int = 0
    offset: int = 0
    on_outcome: Callable[[Entry], None] | None = None


@dataclass(slots=True, eq=False)
class Ring:
    """The ring of one writer; `resolved` counts the entries that have an outcome."""

    owner: int | None = None
    entries: list[Entry] = field(default_factory=list)
    resolved: int = 0


@dataclass(slots=True)
class SharedNote:
    """The note, and the group's ranges: ring, from, to, bytes taken."""

    state: int = NOTE_IDLE
    number: int = 0
    counter: int = 0
    nonce: int = 0
    offset: int = 0
    bytes: int = 0
    crc: int = 0
    ranges: list[tuple[Ring, int, int, int]] = field(default_factory=list)


class SimStagingArea:
    """The staging area, which survives every process, but not a power cut."""

    def __init__(self, step: Callable[[], None], has: Callable[[str], bool]) -> None:
        self._step = step
        self._has = has
        self.rings: list[Ring] = []
        self.note = SharedNote()
        self.last = (0, 0, 0)  # number, counter, nonce
        self.failed_number = 0

    def snapshot(self) -> Note:
        """binlog_area_note."""
        note = self.note
        number, counter, nonce = self.last
        return Note(
            note.state, note.number, note.counter, note.nonce, note.offset, note.bytes, note.crc, number, counter, nonce
        )

    def claim(self, owner: int, ring_count_max: int) -> Ring | None:
        """binlog_area_claim, after everything was drained."""
        for ring in self.rings:
            if ring.owner is None and ring.resolved == len(ring.entries):
                ring.owner, ring.entries, ring.resolved = owner, [], 0
                return ring
        if len(self.rings) >= ring_count_max:
            return None
        self.rings.append(Ring(owner))
        return self.rings[-1]

    def gather(self, number: int, first: Ring | None) -> tuple[bytes, list[int], bool]:
        """area_gather: take the staged entries, the caller's own ring first."""
        note = self.note
        note.number, note.counter, note.ranges = number, 0, []
        note.state = NOTE_GATHERING
        data, ids, sync = b"", list[int](), False
        for ring in sorted(self.rings, key=lambda ring: ring is not first):
            start, head, before = ring.resolved, len(ring.entries), len(data)
            for entry in ring.entries[start:head]:
                self._step()
                if entry.state is State.STAGED:
                    entry.state = State.TAKEN
                    data += entry.payload
                    ids += entry.ids
                    sync |= entry.mode is Mode.SYNC
            self._step()
            if head > start:
                note.ranges.append((ring, start, head, len(data) - before))
        return data, ids, sync

    def place(self, offset: int, data: bytes) -> None:
        """area_place."""
        note = self.note
        note.offset, note.crc, note.bytes = offset, crc32c(data), len(data)
        note.state = NOTE_PREPARED

    def set_outcomes(self, outcome: Outcome | None, *, confirmed: bool = False) -> None:
        """area_set_outcomes; outcome: None for a commit that failed, with `confirmed` if that was after its own
        sync."""
        note = self.note
        offset = note.offset
        for ring, start, end, taken in note.ranges:
            first, resolved = offset, end
            for index in range(start, end) if ring.resolved < end else ():
                entry = ring.entries[index]
                place = (note.number, offset)
                if entry.state is State.TAKEN:
                    entry.number, entry.offset = place
                    offset += len(entry.payload)
                    self._step()
                    if outcome is Outcome.UNKNOWN:
                        _report(entry, State.UNKNOWN)
                    elif outcome is Outcome.IN_FILE:
                        _report(entry, State.DONE)
                    elif entry.mode is not Mode.STAGE:
                        _report(entry, State.FAILED)
                    elif confirmed and not self._has("confirmed-restaged"):
                        _report(entry, State.DONE)
                    else:
                        entry.state = State.STAGED
                        resolved = min(resolved, index)
                elif entry.state is State.STAGED:
                    resolved = min(resolved, index)
                elif entry.state is State.DONE and (entry.number, entry.offset) == place:
                    # Already resolved, by a process that died here.
                    offset += 0 if self._has("half-resolved") else len(entry.payload)
            self._step()
            if ring.resolved < end:
                ring.resolved = resolved
            if not self._has("half-resolved"):
                offset = first + taken
        if outcome is Outcome.IN_FILE and note.counter:
            self.last = (note.number, note.counter, note.nonce)
        self._step()
        note.state = NOTE_IDLE

    def requeue(self) -> None:
        """area_requeue."""
        for ring in self.rings:
            for entry in ring.entries[ring.resolved :]:
                self._step()
                if entry.state is State.TAKEN:
                    entry.state = State.STAGED
        self._step()
        self.note.state = NOTE_IDLE

    def drop(self) -> None:
        """binlog_area_drop."""
        for ring in self.rings:
            ring.resolved = len(ring.entries)
        self.note.state = NOTE_IDLE


def _report(entry: Entry, state: State) -> None:
    entry.state = state
    if entry.on_outcome is not None:
        entry.on_outcome(entry)
