"""What is to be made of a log file's header and bytes, whoever wrote them last and however that ended.

One function of what the header says and what the bytes prove, the same for a leader that was killed, a process that
died and a power cut.  Writers act on its verdict under the file's lock; readers of a file that was last written before
another boot read as far as it says.  The rows are those of docs/durability.md; the first that fits decides.

H is the header's tail, O our own copy of it, D the end of the last confirmed commit and C its counter, P a pending
commit (a valid slot with counter C + 1), R the running CRC of the bytes from D to O.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Protocol

from binlog.format.log_header import CommitSlot, Flag, LogHeader


class Evidence(Protocol):
    """What the file's bytes prove.  Asked only where a row depends on it, for it costs reading."""

    def crc_holds(self, start: int, end: int, crc: int) -> bool:
        """Whether the bytes from `start` to `end` are all there and have this CRC-32C."""

    def chain_end(self, start: int, end: int) -> int:
        """Where the longest run of whole records from `start` ends that does not lead beyond `end`."""

    def blank(self, start: int, end: int) -> bool:
        """Whether all bytes from `start` to `end` are zero."""

    def proven_end(self, start: int, end: int) -> int:
        """How far from `start`, up to `end`, the index's CRCs prove the bytes; `start` where it knows nothing."""


class Action(enum.Enum):
    """What a writer does about a file, under its lock."""

    KEEP = "nothing"
    CONFIRM = "write the unconfirmed bytes again, and commit them"
    ROLL_FORWARD = "write the pending commit again, sync, publish"
    ADOPT = "take over another program's tail: sync, commit an empty group there"
    RESTORE = "take the tail from a commit slot"
    SEAL = "set the rest aside, close the file at the tail, go on in the next"
    REFUSE = "nothing, for acknowledged records would be lost"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The row that fits, what it asks for, and where the file's records end by it.

    slot: the commit to write again, where there is one.
    end: SEAL sets the bytes from `tail` to here aside.
    text: what is wrong, where something is.
    """

    row: int
    action: Action
    tail: int
    slot: CommitSlot | None = None
    end: int = 0
    text: str = ""


def decide(header: LogHeader, evidence: Evidence, *, same_boot: bool, vouched: bool) -> Verdict:
    """The verdict on a file whose identity holds.

    same_boot: the kernel that wrote the file last is still running, so its page cache may hold what the disk does not.
    vouched: whoever asks had the file open before its unconfirmed bytes were written.
    """
    if not header.ours:
        return Verdict(1, Action.KEEP, header.tail)
    pending = header.pending if header.live_good else None
    if header.live_good and header.flags & Flag.POISON and same_boot:
        end = max(header.tail, header.own_tail, pending.end if pending is not None else 0)
        return Verdict(5, Action.SEAL, header.confirmed_end, end=end, text="a write or sync failed")
    if not header.live_good or header.tail < header.own_tail:
        return _from_slots(header, evidence)
    adoptable = pending is not None and _adoptable(header, pending, same_boot=same_boot)
    if header.closed and not adoptable:
        return _closed(header, evidence, same_boot=same_boot)
    if pending is not None and adoptable and evidence.crc_holds(pending.start, pending.end, pending.group_crc):
        return Verdict(8, Action.ROLL_FORWARD, pending.end, slot=pending)
    # Row 9: a pending commit that does not hold was never acknowledged.  Power failed before its sync, or its writer
    # died, and then another program that had begun to write there.  Whatever it was to confirm has a CRC of its own.
    if header.tail > header.own_tail:
        return _foreign_tail(header, evidence, same_boot=same_boot)
    return _own_tail(header, evidence, same_boot=same_boot, vouched=vouched)


def _adoptable(header: LogHeader, pending: CommitSlot, *, same_boot: bool) -> bool:
    """Whether nobody else wrote where the pending commit lies.

    We write the tail and our copy of it together, so that in the boot that wrote them they differ only where another
    program moved the tail, though it be to the very place where the pending commit ends.
    """
    return header.tail == header.own_tail or (header.tail == pending.end and not same_boot)


def _closed(header: LogHeader, evidence: Evidence, *, same_boot: bool) -> Verdict:
    if header.tail == header.own_tail:
        return Verdict(3, Action.KEEP, header.tail)
    good = evidence.chain_end(header.own_tail, header.tail)
    if good == header.tail:
        return Verdict(4, Action.KEEP, header.tail)
    text = "records added after the close do not meet the tail"
    if same_boot:
        return Verdict(4, Action.REFUSE, header.own_tail, text=text)
    return Verdict(4, Action.SEAL, good, end=header.tail, text=text)


def _foreign_tail(header: LogHeader, evidence: Evidence, *, same_boot: bool) -> Verdict:
    """Row 7: another program moved the tail, or says so."""
    if _unconfirmed_lost(header, evidence):
        return _unproven(header, evidence)
    blank = evidence.blank(header.own_tail, header.tail)
    if blank and not header.flags & Flag.MIXED and same_boot:
        # Prepared space is all zeros, and zeros are a chain of empty records.  Where no other program ever wrote, this
        # is a damaged tail, not somebody's first record.
        text = f"the tail {header.tail} lies beyond {header.own_tail} with nothing between"
        return Verdict(7, Action.REFUSE, header.own_tail, text=text)
    if same_boot:
        return Verdict(7, Action.ADOPT, header.tail)
    good = header.own_tail if blank else evidence.chain_end(header.own_tail, header.tail)
    if good == header.tail:
        return Verdict(7, Action.ADOPT, header.tail)
    return Verdict(7, Action.SEAL, good, end=header.tail, text="another program's records are not all there")


def _own_tail(header: LogHeader, evidence: Evidence, *, same_boot: bool, vouched: bool) -> Verdict:
    """Rows 10, 11 and 14: nothing is pending, and the tail is ours."""
    if same_boot and vouched and header.tail > header.confirmed_end:
        # Nothing is asked of the bytes, which may be many: should the disk lose them, the next sync tells this
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
    start, end = header.confirmed_end, header.own_tail
    return start < end and not evidence.crc_holds(start, end, header.running_crc)


def _unproven(header: LogHeader, evidence: Evidence) -> Verdict:
    """Row 11: what was in the file and not confirmed is not all there."""
    proven = evidence.proven_end(header.confirmed_end, header.own_tail)
    text = "bytes that were not synced yet are not what was written"
    return Verdict(11, Action.SEAL, proven, end=header.tail, text=text)


def _from_slots(header: LogHeader, evidence: Evidence) -> Verdict:
    """Rows 12 to 14: the live block is not believed."""
    if header.slots_spoilt:
        # They lie in one sector, which a power cut keeps whole: so this is damage, and the slot may be the newest.
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
        return Verdict(13, Action.SEAL, slot.end, slot=slot, end=header.tail, text=text)
    return Verdict(14, Action.REFUSE, header.tail, text="neither the live block nor a commit slot holds")


def recovered(header: LogHeader, verdict: Verdict) -> LogHeader:
    """The header as far as a reader needs it, with the verdict applied in memory alone."""
    tail = verdict.tail
    if verdict.action in (Action.KEEP, Action.CONFIRM, Action.ADOPT):
        return header
    # Our own tail is the nearest place before it up to which the records are known to be counted.
    known = [(slot.end, slot.record_count) for slot in header.slots() if slot.counter <= header.confirmed_counter]
    if not header.live_good:
        known = []
    elif header.own_tail <= tail:
        known.append((header.own_tail, header.record_count))
    if verdict.slot is not None:
        known.append((verdict.slot.end, verdict.slot.record_count))
    own_tail, count = max((place for place in known if place[0] <= tail), default=(tail, header.record_count))
    return replace(header, tail=tail, own_tail=own_tail, record_count=count, live_good=True)
