"""The recovery table: every combination of its inputs, and each row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import pytest

from binlog.errors import CorruptError
from binlog.format import log_header
from binlog.format.log_header import (
    FIRST_OFFSET,
    FIRST_OFFSET_FOREIGN,
    CommitSlot,
    Flag,
    LogHeader,
    Status,
    new_log_header,
    parse_log_header,
)
from binlog.log.recovery.recovery_table import Action, Verdict, decide, recovered

UUID = bytes(range(16))
C = 5  # the last confirmed commit's counter
START, D = 300, 400  # the start and the end of that commit
CRC_C, CRC_P, CRC_R = 11, 22, 33  # of its bytes, of the pending commit's, of the bytes after it

_ABSENT, _BROKEN, _HOLDS, _SPOILT = range(4)  # _SPOILT: the slot itself, not its bytes


@dataclass(frozen=True)
class Case:
    """One combination.  O and H as distances: O from D; H one of the names below; P's end from O."""

    is_native: bool = True
    live_good: bool = True
    closed: bool = False
    poison: bool = False
    has_foreign_writers: bool = False
    same_boot: bool = True
    opened_before_unconfirmed: bool = True
    unconfirmed: bool = False  # O is greater than D
    tail: str = "own"  # below, own, pending (P's end), between, beyond
    pending: int = _ABSENT  # P: in the file with valid bytes, or not
    pending_empty: bool = False  # P ends at O: it only confirms
    running: bool = True  # R is valid
    last: int = _HOLDS  # slot C
    chain_exact: bool = True  # of lengths from O, or from a slot's end
    blank: bool = False
    proven: bool = False  # the index proves the bytes after D

    @property
    def published_tail(self) -> int:
        return D + (100 if self.unconfirmed else 0)

    @property
    def pending_end(self) -> int:
        return self.published_tail + (0 if self.pending_empty else 60)

    @property
    def header_tail(self) -> int:
        own = self.published_tail
        return {"below": D - 20, "own": own, "pending": self.pending_end, "between": own + 30, "beyond": own + 200}[
            self.tail
        ]

    @property
    def believed(self) -> bool:
        """Whether the live block is valid."""
        return self.live_good and self.tail != "below"

    @property
    def adoptable(self) -> bool:
        """Whether P exists, and no other program wrote to its range."""
        at_end = self.header_tail == self.pending_end and not self.same_boot
        return self.believed and self.pending != _ABSENT and (self.header_tail == self.published_tail or at_end)

    @property
    def must_refuse(self) -> bool:
        """Whether the table must refuse the file."""
        beyond = self.header_tail > self.published_tail
        if self.live_good and self.poison and self.same_boot:
            return False
        if not self.believed:
            held = [
                slot
                for slot in self.header().slots()
                if _Evidence(self).crc_holds(slot.start, slot.end, slot.group_crc)
            ]
            return not held or self.last == _SPOILT
        if self.adoptable and self.pending == _HOLDS:
            return False
        if self.closed and not self.adoptable:
            return beyond and not self.chain_exact and self.same_boot
        if self.unconfirmed and not self.running:
            return False
        if beyond:
            return self.blank and not self.has_foreign_writers and self.same_boot
        return not self.same_boot and not self.unconfirmed and self.last != _HOLDS

    def header(self) -> LogHeader:
        # The proofs in the bytes are not in the header.
        return _header(
            replace(self, opened_before_unconfirmed=True, running=True, chain_exact=True, blank=False, proven=False)
        )

    def decide(self) -> Verdict:
        return decide(
            self.header(),
            _Evidence(self),
            same_boot=self.same_boot,
            opened_before_unconfirmed=self.opened_before_unconfirmed,
        )


@cache
def _header(case: Case) -> LogHeader:
    if not case.is_native:
        return LogHeader(status=int(case.closed), tail=FIRST_OFFSET_FOREIGN, number=1, next_number=0, is_native=False)
    header = new_log_header(number=1, uuid=UUID, first_sequence=0, created_ns=0, boot_id=bytes(16))
    if case.last != _ABSENT:
        header = header.with_slot(_slot(C, START, D, CRC_C))
    if case.last == _SPOILT:
        header = header._replace(slot_1=header.slot_1[:-1] + bytes([header.slot_1[-1] ^ 1]))
    if case.pending == _ABSENT:
        header = header.with_slot(_slot(C - 1, FIRST_OFFSET, START, CRC_C))
    else:
        header = header.with_slot(_slot(C + 1, D, case.pending_end, CRC_P))
    flags = Flag.POISON * case.poison | Flag.FOREIGN_WRITERS * case.has_foreign_writers
    return header._replace(
        status=Status.CLOSED if case.closed else Status.OPEN, tail=case.header_tail,
        published_tail=case.published_tail, confirmed_end=D, confirmed_counter=C, running_crc=CRC_R, flags=flags,
        live_good=case.live_good, record_count=9, next_number=2 if case.closed else 0,
    )  # fmt: skip


@dataclass(frozen=True)
class _Evidence:
    """The evidence of a case."""

    case: Case

    def crc_holds(self, start: int, end: int, crc: int) -> bool:
        if start == end:
            return crc == 0
        if crc == CRC_C:
            return self.case.last != _BROKEN
        return self.case.pending == _HOLDS if crc == CRC_P else self.case.running

    def chain_end(self, start: int, end: int) -> int:
        return end if self.case.chain_exact else start + (end - start) // 2

    def blank(self, start: int, end: int) -> bool:
        return self.case.blank

    def proven_end(self, start: int, end: int) -> int:
        return start + (end - start) // 2 if self.case.proven else start


def _slot(counter: int, start: int, end: int, crc: int) -> CommitSlot:
    crc = crc if start < end else 0
    return CommitSlot(
        counter=counter, start=start, end=end, record_count=counter, time_ns=counter, group_crc=crc, epoch=0,
        nonce=counter,
    )  # fmt: skip


def _cases() -> Iterator[Case]:
    flag = (False, True)
    for (
        live_good,
        closed,
        poison,
        has_foreign_writers,
        same_boot,
        opened_before_unconfirmed,
        unconfirmed,
        last,
    ) in product(flag, flag, flag, flag, flag, flag, flag, (_ABSENT, _BROKEN, _HOLDS, _SPOILT)):
        base = Case(
            live_good=live_good, closed=closed, poison=poison,
            has_foreign_writers=has_foreign_writers, same_boot=same_boot,
            opened_before_unconfirmed=opened_before_unconfirmed, unconfirmed=unconfirmed, last=last,
        )  # fmt: skip
        for pending, empty in ((_ABSENT, False), (_BROKEN, False), (_HOLDS, False), (_BROKEN, True), (_HOLDS, True)):
            if empty and not unconfirmed:
                continue  # it would start and end at D: it would confirm nothing
            for tail in ("below", "own", "pending", "between", "beyond"):
                if tail == "pending" and (empty or not pending):
                    continue  # the same as another
                for running, chain_exact, blank in product((True, False) if unconfirmed else (True,), flag, flag):
                    case = replace(
                        base, pending=pending, pending_empty=empty, tail=tail, running=running,
                        chain_exact=chain_exact, blank=blank,
                    )  # fmt: skip
                    yield case
                    if not running:
                        yield replace(case, proven=True)  # only then is the index read


def _hold(case: Case) -> None:
    """Check the verdict without using the table."""
    verdict, header = case.decide(), case.header()
    action, tail = verdict.action, verdict.tail
    assert (action is Action.REFUSE) == case.must_refuse
    if action is Action.REFUSE:
        assert verdict.text
        return
    # The last confirmed commit is in the file: none of it is dropped.
    if case.last == _HOLDS or (case.live_good and case.tail != "below"):
        assert tail >= D
    # H decreases only if the file is closed, so that none of its offsets is used again.
    if action is Action.CLOSE:
        assert verdict.text
        assert tail <= verdict.end
        assert verdict.end >= header.tail
    else:
        assert tail >= header.tail
    poisoned = case.live_good and case.poison and case.same_boot
    if poisoned:
        assert (verdict.row, action, tail) == (5, Action.CLOSE, D)
        assert verdict.end >= max(header.tail, header.published_tail)
        if case.pending:
            assert verdict.end >= case.pending_end
    # A valid pending commit is always rolled forward, and no other commit ever is.
    assert (action is Action.ROLL_FORWARD) == (not poisoned and case.adoptable and case.pending == _HOLDS)
    if action is Action.ROLL_FORWARD:
        assert tail == case.pending_end
    # Kept, unconfirmed bytes are verified and written again, unless this descriptor was open before them.
    if action in (Action.KEEP, Action.CONFIRM, Action.ADOPT) and not header.closed:
        opened_before_unconfirmed = action is Action.KEEP and case.same_boot and case.opened_before_unconfirmed
        assert case.running or opened_before_unconfirmed or not case.unconfirmed
        assert tail == header.tail
        if tail > D and action is Action.KEEP:
            assert case.same_boot
            assert case.opened_before_unconfirmed
    if action is Action.ADOPT and not case.same_boot:
        assert case.chain_exact
        assert not case.blank
    assert (verdict.slot is not None) == (action in (Action.ROLL_FORWARD, Action.RESTORE) or verdict.row == 13)
    assert recovered(header, verdict).tail == tail


@pytest.mark.slow
def test_every_combination_of_inputs_keeps_the_confirmed_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_header, "parse_slot", cache(log_header.parse_slot))  # the same few, again and again
    count = 0
    for case in _cases():
        try:
            _hold(case)
        except AssertionError as error:
            raise AssertionError(f"{case}: {case.decide()}") from error
        count += 1
    assert count > 20_000


def test_the_walk_finds_a_wrong_row() -> None:
    """The canary: the table gets another header than the one that is judged."""

    class Forgetful(Case):
        def decide(self) -> Verdict:
            return Case(same_boot=False).decide()

    with pytest.raises(AssertionError):
        _hold(Forgetful(same_boot=False, pending=_HOLDS))


def _row(case: Case) -> tuple[int, Action, int]:
    verdict = case.decide()
    return verdict.row, verdict.action, verdict.tail


def test_row_1_another_programs_file_is_unchanged() -> None:
    assert _row(Case(is_native=False)) == (1, Action.KEEP, FIRST_OFFSET_FOREIGN)


def test_row_2_a_header_with_an_invalid_identity_is_corrupt() -> None:
    data = bytearray(Case().header().pack())
    data[40] ^= 1
    with pytest.raises(CorruptError, match="identity"):
        parse_log_header(bytes(data), path="file", number=1)
    with pytest.raises(CorruptError, match="256"):
        parse_log_header(Case().header().pack()[:255], path="file", number=1)
    with pytest.raises(CorruptError, match="the name 2"):
        parse_log_header(Case().header().pack(), path="file", number=2)


@pytest.mark.parametrize("same_boot", [True, False])
def test_row_3_a_closed_file_is_unchanged(same_boot: bool) -> None:
    assert _row(Case(closed=True, same_boot=same_boot)) == (3, Action.KEEP, D)


def test_row_4_records_added_after_the_close_are_kept_if_their_lengths_meet_the_tail() -> None:
    late = Case(closed=True, tail="beyond")
    assert _row(late) == (4, Action.KEEP, D + 200)
    assert _row(replace(late, chain_exact=False)) == (4, Action.REFUSE, D)
    # After a power loss that is no damage: the other program had not synced, and some of its last records are missing.
    assert _row(replace(late, chain_exact=False, same_boot=False)) == (4, Action.CLOSE, D + 100)


def test_row_5_poison_of_this_boot_keeps_the_confirmed_records() -> None:
    case = Case(poison=True, unconfirmed=True, pending=_HOLDS)
    verdict = case.decide()
    assert (verdict.row, verdict.action, verdict.tail, verdict.end) == (5, Action.CLOSE, D, case.pending_end)


def test_row_6_poison_of_another_boot_is_judged_by_the_bytes() -> None:
    case = Case(poison=True, same_boot=False, opened_before_unconfirmed=False)
    assert _row(replace(case, pending=_HOLDS)) == (8, Action.ROLL_FORWARD, case.pending_end)
    assert _row(case) == (10, Action.KEEP, D)
    assert _row(replace(case, unconfirmed=True, running=False)) == (11, Action.CLOSE, D)


def test_row_7_another_programs_tail_is_adopted() -> None:
    foreign = Case(tail="beyond")
    assert _row(foreign) == (7, Action.ADOPT, D + 200)
    assert _row(replace(foreign, same_boot=False)) == (7, Action.ADOPT, D + 200)
    assert _row(replace(foreign, same_boot=False, chain_exact=False)) == (7, Action.CLOSE, D + 100)
    assert _row(replace(foreign, same_boot=False, blank=True)) == (7, Action.CLOSE, D)
    assert _row(replace(foreign, blank=True)) == (7, Action.REFUSE, D)
    assert _row(replace(foreign, blank=True, has_foreign_writers=True)) == (7, Action.ADOPT, D + 200)
    # The tail is beyond P's end, or exactly there, where binlog would have published both tails: P is not in the file.
    for case in (replace(foreign, pending=_HOLDS), replace(foreign, pending=_BROKEN, tail="pending")):
        assert _row(case) == (7, Action.ADOPT, case.header_tail)


@pytest.mark.parametrize("same_boot", [True, False])
@pytest.mark.parametrize("empty", [True, False])
def test_row_8_a_valid_pending_commit_is_rolled_forward(same_boot: bool, empty: bool) -> None:
    case = Case(
        pending=_HOLDS, same_boot=same_boot, opened_before_unconfirmed=same_boot, unconfirmed=True, pending_empty=empty
    )
    verdict = case.decide()
    assert (verdict.row, verdict.action, verdict.tail) == (8, Action.ROLL_FORWARD, case.pending_end)
    assert verdict.slot == case.header().pending
    # The tail reached the disk without the published tail.
    assert _row(replace(case, tail="pending", same_boot=False))[:2] == (8, Action.ROLL_FORWARD)


@pytest.mark.parametrize("same_boot", [True, False])
def test_row_9_an_invalid_pending_commit_is_dropped(same_boot: bool) -> None:
    case = Case(pending=_BROKEN, same_boot=same_boot, opened_before_unconfirmed=same_boot)
    assert _row(case) == (10, Action.KEEP, D)
    # Visible records before it in the file are kept, if they are complete.
    again = Action.KEEP if same_boot else Action.CONFIRM
    assert _row(replace(case, unconfirmed=True)) == (10, again, D + 100)
    assert _row(replace(case, unconfirmed=True, running=False, opened_before_unconfirmed=False)) == (
        11,
        Action.CLOSE,
        D,
    )


def test_row_10_unconfirmed_bytes_are_kept_and_written_again_by_a_later_opener() -> None:
    case = Case(unconfirmed=True)
    assert _row(Case()) == (10, Action.KEEP, D)
    assert _row(case) == (10, Action.KEEP, D + 100)
    assert _row(replace(case, running=False)) == (10, Action.KEEP, D + 100)
    assert _row(replace(case, opened_before_unconfirmed=False)) == (10, Action.CONFIRM, D + 100)
    assert _row(replace(case, same_boot=False, opened_before_unconfirmed=True)) == (10, Action.CONFIRM, D + 100)


@pytest.mark.parametrize("same_boot", [True, False])
def test_row_11_invalid_unconfirmed_bytes_are_quarantined(same_boot: bool) -> None:
    case = Case(unconfirmed=True, running=False, same_boot=same_boot, opened_before_unconfirmed=False)
    verdict = case.decide()
    assert (verdict.row, verdict.action, verdict.tail, verdict.end) == (11, Action.CLOSE, D, D + 100)
    assert _row(replace(case, proven=True)) == (11, Action.CLOSE, D + 50)


def test_row_12_a_tail_before_the_published_one_invalidates_the_live_block() -> None:
    assert _row(Case(tail="below")) == (13, Action.RESTORE, D)
    assert _row(Case(tail="below", unconfirmed=True)) == (13, Action.RESTORE, D)


def test_row_13_without_a_live_block_the_newest_valid_slot_gives_the_tail() -> None:
    case = Case(live_good=False)
    assert _row(case) == (13, Action.RESTORE, D)
    assert _row(replace(case, pending=_HOLDS)) == (13, Action.RESTORE, case.pending_end)
    assert _row(replace(case, pending=_BROKEN)) == (13, Action.RESTORE, D)
    assert _row(replace(case, tail="beyond")) == (13, Action.RESTORE, D + 200)
    for lost in (replace(case, tail="beyond", chain_exact=False), replace(case, tail="beyond", blank=True)):
        assert _row(lost) == (13, Action.CLOSE, D)


def test_row_14_acknowledged_records_are_never_dropped_silently() -> None:
    for last in (_ABSENT, _BROKEN, _SPOILT):
        case = Case(same_boot=False, opened_before_unconfirmed=False, last=last)
        assert _row(case) == (14, Action.REFUSE, D)
        # In the same boot no power loss has taken anything, so the bytes are not read.
        assert _row(replace(case, same_boot=True)) == (10, Action.KEEP, D)
    assert _row(Case(live_good=False, last=_BROKEN)) == (14, Action.REFUSE, D)
    # Without the live block, the damaged slot may be the newest, and the tail of the other may be too low.
    assert _row(Case(live_good=False, last=_SPOILT)) == (14, Action.REFUSE, D)
    assert _row(Case(tail="below", last=_SPOILT)) == (14, Action.REFUSE, D - 20)
