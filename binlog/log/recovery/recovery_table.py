"""The recovery table: the verdict on a log file, from its header and the evidence of its bytes.

The table is one function for all cases: a killed leader, a dead process, a power loss.  A writer acts on its verdict
under the file's lock.  A reader of a file last written before another boot reads as far as the verdict allows.  The
rows are those of docs/durability.md; the first row that fits decides.

H is the header's tail, O the published tail, D the end of the last confirmed commit, C its counter, P a pending commit
(a valid slot with counter C + 1), R the running CRC of the bytes from D to O.
"""

from __future__ import annotations

import enum
from typing import NamedTuple, Protocol

from binlog.format.log_header import CommitSlot, Flag, LogHeader


class Evidence(Protocol):
    """The proofs in the file's bytes.  They cost reading, so a row asks only if its decision depends on them."""

    def crc_holds(self, start: int, end: int, crc: int) -> bool:
        """Whether the bytes from `start` to `end` exist and have this CRC-32C."""

    def chain_end(self, start: int, end: int) -> int:
        """Return the end of the longest run of whole records from `start` that does not pass `end`."""

    def blank(self, start: int, end: int) -> bool:
        """Whether all bytes from `start` to `end` are zero."""

    def proven_end(self, start: int, end: int) -> int:
        """Return the end of the bytes from `start`, up to `end`, that the index's CRCs prove; `start` if none."""


class Action(enum.Enum):
    """A writer's action on a file, under its lock."""

    KEEP = "nothing"
    CONFIRM = "write the unconfirmed bytes again, and commit them"
    ROLL_FORWARD = "write the pending commit again, sync, publish"
    ADOPT = "adopt another program's tail: sync, commit an empty group there"
    RESTORE = "take the tail from a commit slot"
    CLOSE = "quarantine the rest, close the file at the tail, continue in the next"
    REFUSE = "nothing, for acknowledged records would be lost"


class Verdict(NamedTuple):
    """The row that fits, its action, and the end of the file's records.

    slot: the commit to write again, if any.
    end: CLOSE quarantines the bytes from `tail` to here.
    text: a description of the damage, if any.
    """

    row: int
    action: Action
    tail: int
    slot: CommitSlot | None = None
    end: int = 0
    text: str = ""


def decide(header: LogHeader, evidence: Evidence, *, same_boot: bool, opened_before_unconfirmed: bool) -> Verdict:
    """Return the verdict on a file whose identity is valid.

    same_boot: the kernel that wrote the file last still runs, so its page cache may hold bytes that the disk does not.
    opened_before_unconfirmed: the caller had the file open before its unconfirmed bytes were written.
    """
    if not header.is_native:
        return Verdict(1, Action.KEEP, header.tail)
    pending = header.pending if header.live_good else None
    if header.live_good and header.flags & Flag.POISON and same_boot:
        end = max(header.tail, header.published_tail, pending.end if pending is not None else 0)
        return Verdict(5, Action.CLOSE, header.confirmed_end, end=end, text="a write or sync failed")
    if not header.live_good or header.tail < header.published_tail:
        return _from_slots(header, evidence)
    adoptable = pending is not None and _adoptable(header, pending, same_boot=same_boot)
    if header.closed and not adoptable:
        return _closed(header, evidence, same_boot=same_boot)
    if pending is not None and adoptable and evidence.crc_holds(pending.start, pending.end, pending.group_crc):
        return Verdict(8, Action.ROLL_FORWARD, pending.end, slot=pending)
    # Row 9: a pending commit that does not validate was never acknowledged.  The power failed before its sync, or its
    # writer died and another program began to write there.  The bytes that it was to confirm have their own CRC.
    if header.tail > header.published_tail:
        return _foreign_tail(header, evidence, same_boot=same_boot)
    return _published_tail(header, evidence, same_boot=same_boot, opened_before_unconfirmed=opened_before_unconfirmed)


def _adoptable(header: LogHeader, pending: CommitSlot, *, same_boot: bool) -> bool:
    """Whether no other program wrote to the range of the pending commit.

    A commit writes the tail and the published tail together.  So in the boot that wrote them they differ only if
    another program moved the tail, even if it moved it to the very end of the pending commit.
    """
    return header.tail == header.published_tail or (header.tail == pending.end and not same_boot)


def _closed(header: LogHeader, evidence: Evidence, *, same_boot: bool) -> Verdict:
    if header.tail == header.published_tail:
        return Verdict(3, Action.KEEP, header.tail)
    good = evidence.chain_end(header.published_tail, header.tail)
    if good == header.tail:
        return Verdict(4, Action.KEEP, header.tail)
    text = "records added after the close do not meet the tail"
    if same_boot:
        return Verdict(4, Action.REFUSE, header.published_tail, text=text)
    return Verdict(4, Action.CLOSE, good, end=header.tail, text=text)


def _foreign_tail(header: LogHeader, evidence: Evidence, *, same_boot: bool) -> Verdict:
    """Row 7: another program moved the tail, or the tail is damaged."""
    if _unconfirmed_lost(header, evidence):
        return _unproven(header, evidence)
    blank = evidence.blank(header.published_tail, header.tail)
    if blank and not header.flags & Flag.FOREIGN_WRITERS and same_boot:
        # Prepared space is all zeros, and zeros are a chain of empty records.  If no other program ever appended, this
        # is a damaged tail, not another program's first record.
        text = f"the tail {header.tail} lies beyond {header.published_tail} with nothing between"
        return Verdict(7, Action.REFUSE, header.published_tail, text=text)
    if same_boot:
        return Verdict(7, Action.ADOPT, header.tail)
    good = header.published_tail if blank else evidence.chain_end(header.published_tail, header.tail)
    if good == header.tail:
        return Verdict(7, Action.ADOPT, header.tail)
    return Verdict(7, Action.CLOSE, good, end=header.tail, text="another program's records are not all there")


def _published_tail(
    header: LogHeader, evidence: Evidence, *, same_boot: bool, opened_before_unconfirmed: bool
) -> Verdict:
    """Rows 10, 11 and 14: no commit is pending, and the tail is the published one."""
    if same_boot and opened_before_unconfirmed and header.tail > header.confirmed_end:
        # The bytes, which may be many, are not read: if the disk loses them, the next sync reports it to this
        # descriptor, which was open before they were written (fsync(2), ERRORS).
        return Verdict(10, Action.KEEP, header.tail)
    if _unconfirmed_lost(header, evidence):
        return _unproven(header, evidence)
    if header.tail > header.confirmed_end:
        return Verdict(10, Action.CONFIRM, header.tail)
    if not same_boot:
        last = header.slot(header.confirmed_counter)
        if last is None or not evidence.crc_holds(last.start, last.end, last.group_crc):
            text = "the last confirmed commit does not hold"
            return Verdict(14, Action.REFUSE, header.tail, text=text)
    return Verdict(10, Action.KEEP, header.tail)


def _unconfirmed_lost(header: LogHeader, evidence: Evidence) -> bool:
    start, end = header.confirmed_end, header.published_tail
    return start < end and not evidence.crc_holds(start, end, header.running_crc)


def _unproven(header: LogHeader, evidence: Evidence) -> Verdict:
    """Row 11: some of the flushed, unconfirmed bytes are missing."""
    proven = evidence.proven_end(header.confirmed_end, header.published_tail)
    text = "bytes that were not synced yet are not what was written"
    return Verdict(11, Action.CLOSE, proven, end=header.tail, text=text)


def _from_slots(header: LogHeader, evidence: Evidence) -> Verdict:
    """Rows 12 to 14: the live block is not valid."""
    if header.has_damaged_slot:
        # Both are in one sector, which a power loss keeps whole.  So this is damage, and the slot may be the newest.
        text = "neither the live block nor one of the commit slots holds"
        return Verdict(14, Action.REFUSE, header.tail, text=text)
    for slot in header.slots():
        if slot.start > slot.end or not evidence.crc_holds(slot.start, slot.end, slot.group_crc):
            continue
        if header.tail <= slot.end:
            return Verdict(13, Action.RESTORE, slot.end, slot=slot)
        if evidence.chain_end(slot.end, header.tail) == header.tail and not evidence.blank(slot.end, header.tail):
            return Verdict(13, Action.RESTORE, header.tail, slot=slot)
        text = "the header's live block is damaged, and the tail beside it leads to no record"
        return Verdict(13, Action.CLOSE, slot.end, slot=slot, end=header.tail, text=text)
    return Verdict(14, Action.REFUSE, header.tail, text="neither the live block nor a commit slot holds")


def recovered(header: LogHeader, verdict: Verdict) -> LogHeader:
    """Return the header with the verdict applied in memory, as far as a reader needs it."""
    tail = verdict.tail
    if verdict.action in (Action.KEEP, Action.CONFIRM, Action.ADOPT):
        return header
    # The published tail is the nearest offset before it with a known record count.
    known = [(slot.end, slot.record_count) for slot in header.slots() if slot.counter <= header.confirmed_counter]
    if not header.live_good:
        known = []
    elif header.published_tail <= tail:
        known.append((header.published_tail, header.record_count))
    if verdict.slot is not None:
        known.append((verdict.slot.end, verdict.slot.record_count))
    published_tail, count = max((place for place in known if place[0] <= tail), default=(tail, header.record_count))
    return header._replace(tail=tail, published_tail=published_tail, record_count=count, live_good=True)
