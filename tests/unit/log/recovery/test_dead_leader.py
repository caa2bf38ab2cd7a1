"""Resolving the note of a dead leader from the file."""

from __future__ import annotations

import pytest

from binlog.format.log_header import CommitSlot, LogHeader, new_log_header
from binlog.log.recovery.dead_leader import outcome
from binlog.storage.native import lib
from binlog.storage.staging_area import NOTE_GATHERING, NOTE_SLOTTED, Note, Outcome

PREPARED = int(lib.BINLOG_NOTE_PREPARED)
UUID = bytes(16)
NOTE = Note(
    state=NOTE_SLOTTED, number=1, counter=4, nonce=44, offset=300, bytes=50, crc=7, last_number=0, last_counter=0,
    last_nonce=0,
)  # fmt: skip


class Bytes:
    """A file with one property: whether the group's bytes are in the range that the note names."""

    def __init__(self, there: bool) -> None:
        self._there = there

    def crc_holds(self, start: int, end: int, crc: int) -> bool:
        assert (start, end, crc) == (300, 350, 7)
        return self._there

    def chain_end(self, start: int, end: int) -> int:
        raise AssertionError

    def blank(self, start: int, end: int) -> bool:
        raise AssertionError

    def proven_end(self, start: int, end: int) -> int:
        raise AssertionError


def _header(counter: int, *, nonce: int = 44, tail: int = 1000) -> LogHeader:
    """Return the header of a file whose last confirmed commit has this counter, and one before it."""
    header = new_log_header(number=1, uuid=UUID, first_sequence=0, created_ns=0, boot_id=bytes(16))
    for number in (counter - 1, counter):
        header = header.with_slot(
            CommitSlot(
                counter=number,
                start=300,
                end=350,
                record_count=number,
                time_ns=number,
                group_crc=7,
                epoch=0,
                nonce=nonce if number == 4 else number,
            )
        )
    return header._replace(confirmed_counter=counter, tail=tail)


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("state", [PREPARED, NOTE_SLOTTED])
def test_a_group_with_a_slot_is_in_the_file_if_the_slot_is(state: int, there: bool) -> None:
    note, there_or_not = NOTE._replace(state=state), Bytes(there)
    assert outcome(note, _header(3), there_or_not) is Outcome.STAGED_AGAIN
    for counter in (4, 5):
        assert outcome(note, _header(counter), there_or_not) is Outcome.IN_FILE
        assert outcome(note, _header(counter, nonce=99), there_or_not) is Outcome.STAGED_AGAIN


def test_an_overtaken_group_is_in_the_file_if_its_bytes_are() -> None:
    overtaken = _header(6)
    assert outcome(NOTE, overtaken, Bytes(True)) is Outcome.IN_FILE
    assert outcome(NOTE._replace(state=PREPARED), overtaken, Bytes(True)) is Outcome.UNKNOWN
    for state in (PREPARED, NOTE_SLOTTED):
        # Another program overwrote the bytes before recovery, or the commit did not get that far.
        assert outcome(NOTE._replace(state=state), overtaken, Bytes(False)) is Outcome.STAGED_AGAIN


def test_a_group_without_a_slot_is_in_the_file_if_its_bytes_are_before_the_tail() -> None:
    note = NOTE._replace(state=PREPARED, counter=0)
    assert outcome(note, _header(3), Bytes(True)) is Outcome.IN_FILE
    assert outcome(note, _header(3), Bytes(False)) is Outcome.STAGED_AGAIN
    assert outcome(note, _header(3, tail=349), Bytes(True)) is Outcome.STAGED_AGAIN


def test_a_group_that_was_not_written_is_staged_again() -> None:
    assert outcome(NOTE._replace(state=NOTE_GATHERING), _header(4), Bytes(True)) is Outcome.STAGED_AGAIN
