"""A bit of a record's length or kind would make it a shorter one, which its body ends: it goes to the next file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from binlog.format.journal.record import JournalRecord, Kind, pack_record
from binlog.journal.check import check_journal
from binlog.journal.options import Sync
from tests.support.forging import CARRIERS, checked, files_used, foreseen, shortened, solved
from tests.support.journals import files, flip, journal, records_in, reload


@pytest.mark.parametrize("zeros", [0, 16])
@pytest.mark.parametrize("kind", CARRIERS)
def test_no_bit_of_a_length_makes_a_shorter_record(tmp_path: Path, kind: Kind, zeros: int) -> None:
    """The shorter one's check lies in the body, and maybe zeros behind it, as behind the last record of a file."""
    path, damaged = tmp_path / "journal", tmp_path / "damaged"
    append, before = CARRIERS[kind]
    with journal(path) as (opened, _):
        opened.append_add(1, 1, b"there")
        place = foreseen(path)
        tx_id = 0 if kind in (Kind.ADD, Kind.UPDATE) else 5
        record = JournalRecord(
            kind, tx_id, 1 if kind in (Kind.UPDATE, Kind.UPDATE_TX, Kind.DELETE_TX) else 2, 1, bytes(300)
        )
        append(opened, shortened(record, place.header, place.at, 256, zeros).body)
    assert check_journal(path) == []
    assert files_used(path) == [1, 2]
    shutil.copytree(path, damaged)
    file = files(damaged)[1]
    flip(file, records_in(file)[0][1] + (13 if before < 25 else 21) + 2)
    assert check_journal(damaged)
    assert reload(damaged).problems


def test_no_bit_of_a_kind_makes_a_shorter_record(tmp_path: Path) -> None:
    """An add and a delete in a transaction are one bit apart, and what is the one's body is the other's length."""
    with journal(tmp_path) as (opened, _):
        opened.append_add(1, 1, b"there")
        place = foreseen(tmp_path)
        fields = pack_record(JournalRecord(Kind.ADD, 0, 2, 1, bytes(300)), place.header, place.at)[:18]
        inner = bytes([Kind.DELETE_TX]) + fields[1:] + bytes(3) + (40).to_bytes(4) + bytes(40)
        body = (inner[18:] + checked(inner, place.header, place.at) + bytes(16)).ljust(300, b"x")
        opened.append_add(2, 1, body)
    assert files_used(tmp_path) == [1, 2]


def test_no_bit_makes_an_update_of_a_transaction_a_delete(tmp_path: Path) -> None:
    """That would be one byte shorter, and end in the body's last byte and three of the check."""
    with journal(tmp_path) as (opened, _):
        opened.append_add(1, 1, b"there")
        place = foreseen(tmp_path)

        def packed(body: bytes) -> bytes:
            return pack_record(JournalRecord(Kind.UPDATE_TX, 5, 1, 1, body), place.header, place.at)

        def value(four: bytes, end: bytes) -> int:
            data = bytes([Kind.DELETE_TX]) + packed(four + end)[1:]
            return int.from_bytes(checked(data[:-5], place.header, place.at)) ^ int.from_bytes(data[-5:-1])

        ends = (bytes(size) + number.to_bytes(2) for size in range(100) for number in range(256))
        bodies = ((solved(lambda four: value(four, end), 0), end) for end in ends)  # noqa: B023 - it is called right here
        opened.append_update_tx(5, 1, 1, next(four + end for four, end in bodies if four is not None), sync=Sync.WAIT)
    assert files_used(tmp_path) == [1, 2]


@pytest.mark.parametrize("check", [0, 1, 1 << 31])
def test_no_record_has_a_check_that_a_bit_makes_zero(tmp_path: Path, check: int) -> None:
    """Where the last one is damaged, that its check is there shows where it ended."""
    with journal(tmp_path) as (opened, _):
        opened.append_add(1, 1, b"there")
        place = foreseen(tmp_path)

        def value(four: bytes) -> int:
            return int.from_bytes(pack_record(JournalRecord(Kind.ADD, 0, 2, 1, four), place.header, place.at)[-4:])

        four = solved(value, check)
        assert four is not None
        opened.append_add(2, 1, four)
    assert files_used(tmp_path) == [1, 2]
