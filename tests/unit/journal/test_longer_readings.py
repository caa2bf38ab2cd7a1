"""A bit of a record's length or kind is flipped, and it is sound all the same: somebody has put its check behind it.

What it was is told as damaged then, and no record behind it is lost.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog.format.journal.file_header import FileHeader, JournalLayout, aligned
from binlog.format.journal.record import JournalRecord, Kind, is_record, pack_record, said_end
from binlog.journal.check import check_journal
from binlog.journal.options import Sync
from binlog.storage.journal_records import scan_records
from tests.support.forging import (
    WITH_BODIES,
    Place,
    checked,
    files_used,
    foreseen,
    head,
    overlong,
    sound_places,
    with_longer,
)
from tests.support.journal_bytes import file_of, file_of_adds, found_places
from tests.support.journals import SMALL, ids, journal, reload

_ADD = 18
_ADD_TX = 26


def _damage(place: Place, data: bytes) -> None:
    """The file has these bytes now, and a record is sound where one was."""
    assert is_record(memoryview(data), place.at, place.header)
    place.file.write_bytes(data)


def _flipped(data: bytes, at: int, mask: int) -> bytes:
    return data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]


def _is_told(path: Path, place: Place) -> bool:
    """Of nothing else, and of it with the zeros before it."""
    return [(each.rule, aligned(each.offset, place.header.alignment)) for each in check_journal(path)] == [
        ("gap", place.at)
    ]


@pytest.mark.parametrize(("alignment", "bit"), [(1, 8), (512, 11)])
@pytest.mark.parametrize("between", [0, 1, 2])
@pytest.mark.parametrize("behind", [True, False], ids=["behind others", "last"])
def test_a_record_that_a_bit_makes_longer_hides_none(
    tmp_path: Path, alignment: int, bit: int, between: int, behind: bool
) -> None:
    """Zeros, where it ends then, are what ends the records of a file."""
    options = replace(SMALL, file_bytes=1 << 14, alignment=alignment)
    with journal(tmp_path, options) as (opened, _):
        opened.append_add(1, 1, b"there")
        place = foreseen(tmp_path, alignment)
        records = overlong(place.header, place.at, bit, between, bytes(16) + b"rest")
        for record in records:
            opened.append_add(record.record_id, 1, record.body)
        if behind:
            opened.append_add(2, 1, b"")
    assert files_used(tmp_path) == [1]
    assert check_journal(tmp_path) == []
    _damage(place, with_longer(place.file.read_bytes(), place.at, bit))
    assert _is_told(tmp_path, place)
    loaded = reload(tmp_path, options)
    assert ids(loaded) == [1, *(each.record_id for each in records[1:]), *([2] if behind else [])]
    assert loaded.problems


def test_an_update_that_a_bit_makes_a_longer_add_of_a_transaction_hides_none(tmp_path: Path) -> None:
    """What is the one's body is the other's length."""
    body = bytes(3) + (200).to_bytes(4) + b"x"
    with journal(tmp_path) as (opened, _):
        opened.append_add(1, 1, b"there")
        place = foreseen(tmp_path)
        update = pack_record(JournalRecord(Kind.UPDATE, 0, 1, 1, body), place.header, place.at)
        room = _ADD_TX + 200 - len(update) - _ADD
        behind = pack_record(JournalRecord(Kind.ADD, 0, 2, 1, bytes(250)), place.header, place.at + len(update))
        region = bytes([Kind.ADD_TX]) + update[1:] + behind[: _ADD + room]
        opened.append_update(1, 1, body)
        opened.append_add(2, 1, (bytes(room) + checked(region, place.header, place.at)).ljust(250, b"\0"))
        opened.append_add(3, 1, b"")
    assert files_used(tmp_path) == [1]
    assert check_journal(tmp_path) == []
    _damage(place, _flipped(place.file.read_bytes(), place.at, Kind.UPDATE ^ Kind.ADD_TX))
    assert _is_told(tmp_path, place)
    loaded = reload(tmp_path)
    assert [(each.record_id, each.is_update) for each in loaded.records] == [(1, False), (2, False), (3, False)]


def test_a_commit_that_a_bit_makes_longer_hides_none(tmp_path: Path) -> None:
    """It has not committed then, as a commit that is damaged."""
    with journal(tmp_path) as (opened, _):
        opened.append_add_tx(5, 1, 1, b"in it", sync=Sync.WAIT)
        place = foreseen(tmp_path)
        opened.commit(5)
        next_at = foreseen(tmp_path).at
        data = _flipped(place.file.read_bytes(), place.at + 16, 32)  # of so many files more
        end = said_end(data, place.at, place.header)
        assert end is not None
        room = end - 4 - next_at - _ADD
        behind = pack_record(JournalRecord(Kind.ADD, 0, 9, 1, bytes(room + 50)), place.header, next_at)
        region = data[place.at : next_at] + behind[: _ADD + room]
        opened.append_add(9, 1, (bytes(room) + checked(region, place.header, place.at)).ljust(room + 50, b"\0"))
        opened.append_add(10, 1, b"")
    assert files_used(tmp_path) == [1]
    _damage(place, _flipped(place.file.read_bytes(), place.at + 16, 32))
    assert "gap" in [each.rule for each in check_journal(tmp_path)]
    loaded = reload(tmp_path)
    assert (ids(loaded), bool(loaded.problems)) == ([9, 10], True)


@pytest.mark.parametrize("alignment", [1, 64])
@pytest.mark.parametrize("zeros", [16, 50, 250])
def test_the_last_record_that_a_bit_makes_longer_by_what_was_left_there_is_not_believed(
    alignment: int, zeros: int
) -> None:
    """By an earlier use of the file, behind the zeros that end the records."""
    header = FileHeader(JournalLayout.NATIVE, 7, b"saltsalt", alignment)
    data, places = file_of(header, [_add(b"there"), _add(b"a" * 40)])
    start = places[1][0]
    data += bytes(aligned(len(data), alignment) - len(data) + zeros)
    end = start + _ADD + 40 + 256  # of the longer one's body
    data += bytes([99]) * (end - len(data))
    check = checked(with_longer(bytes(data), start, 8)[start:end], header, start)
    data[end : end + 4] = check
    data += b"left" * 100
    damaged = with_longer(bytes(data), start, 8)
    assert is_record(memoryview(damaged), start, header)
    assert [each[1] for each in scan_records(bytes(data), header).records] == [each[0] for each in places]
    assert [each[1] for each in scan_records(damaged, header).records] == [places[0][0]]


def _in_two(place: Place, *, is_shorter: bool) -> list[JournalRecord]:
    """Two adds: in the one a record begins that ends in the other, once a bit of the first byte of its body is flipped.

    It begins where the first one would end without a bit of its length; is_shorter: and that is sound up to there.
    """
    first_bytes = _ADD + 100 + 4
    start = first_bytes - 64
    begun = head(Kind.UPDATE, place.header, 84)
    check = bytes(4)
    if is_shorter:
        shorter = pack_record(JournalRecord(Kind.ADD, 0, 2, 1, bytes(100)), place.header, place.at)
        check = checked(with_longer(shorter, 0, 6)[: start - 4], place.header, place.at)
    first = JournalRecord(Kind.ADD, 0, 2, 1, (bytes(start - 4 - _ADD) + check + begun).ljust(100, b"p"))
    second = JournalRecord(Kind.ADD, 0, 3, 1, bytes(54))
    data = pack_record(first, place.header, place.at)
    data += pack_record(second, place.header, place.at + first_bytes)
    region = _flipped(data, first_bytes + _ADD, 1)[start : start + _ADD + 84]
    body = bytes(20) + checked(region, place.header, place.at + start)
    return [first, second._replace(body=body.ljust(54, b"\0"))]


def test_a_bit_of_a_later_record_does_not_show_that_one_was_shorter(tmp_path: Path) -> None:
    """Though something is sound then that begins in the earlier one."""
    with journal(tmp_path) as (opened, _):
        opened.append_add(1, 1, b"there")
        place = foreseen(tmp_path)
        records = _in_two(place, is_shorter=False)
        for record in records:
            opened.append_add(record.record_id, 1, record.body)
        opened.append_add(4, 1, b"behind")
    assert files_used(tmp_path) == [1]
    assert check_journal(tmp_path) == []
    second = place.at + len(pack_record(records[0], place.header, place.at))
    damaged = _flipped(place.file.read_bytes(), second + _ADD, 1)
    assert place.at + 58 in sound_places(damaged, place.header)
    place.file.write_bytes(damaged)
    assert [(each.rule, each.offset) for each in check_journal(tmp_path)] == [("gap", second)]
    loaded = reload(tmp_path)
    assert [(each.record_id, each.body) for each in loaded.records] == [
        (1, b"there"),
        (2, records[0].body),
        (4, b"behind"),
    ]


def test_nor_may_a_record_be_sound_up_to_there(tmp_path: Path) -> None:
    with journal(tmp_path) as (opened, _):
        opened.append_add(1, 1, b"there")
        first = _in_two(foreseen(tmp_path), is_shorter=True)[0]
        opened.append_add(2, 1, first.body)
    assert files_used(tmp_path) == [1, 2]


@given(
    st.integers(9, 11),
    st.integers(0, 3),
    st.sampled_from([b"", bytes(1), bytes(16), bytes(16) + b"rest", b"rest"]),
    st.sampled_from([1, 64]),
    st.lists(st.binary(max_size=99), max_size=3),
    st.sampled_from([0, 3, 1000]),
)
def test_whatever_it_hides_is_there(
    bit: int, between: int, rest: bytes, alignment: int, behind: list[bytes], zeros: int
) -> None:
    header = FileHeader(JournalLayout.NATIVE, 7, b"saltsalt", alignment)
    start = aligned(len(file_of(header, [_add(b"there")])[0]), alignment)
    records = [_add(b"there"), *overlong(header, start, bit, between, rest), *map(_add, behind)]
    data, places = file_of(header, records)
    data += bytes(zeros)
    damaged = with_longer(bytes(data), start, bit)
    assert places[1][0] == start
    assert is_record(memoryview(damaged), start, header)
    assert found_places(bytes(data), header) == [each[0] for each in places]
    assert found_places(damaged, header) == [each[0] for each in places if each[0] != start]


def _add(body: bytes) -> JournalRecord:
    return JournalRecord(Kind.ADD, 0, 1, 1, body)


@given(st.sampled_from(Kind), st.binary(max_size=99), st.integers(0, 3), st.integers(0, 8 * _ADD_TX - 1))
def test_over_zeros_alone_no_bit_makes_a_record_longer(kind: Kind, body: bytes, count: int, bit: int) -> None:
    counts = tuple((number, 1) for number in range(count)) if kind in (Kind.PREPARE, Kind.COMMIT) else ()
    record = JournalRecord(kind, 1, 2, 3, body if kind in WITH_BODIES else b"", counts)
    header = FileHeader(JournalLayout.NATIVE, 7, b"saltsalt")
    packed = pack_record(record, header, 0)
    data = _flipped(packed + bytes(1 << 12), min(bit // 8, len(packed) - 1), 1 << bit % 8)
    end = said_end(data, 0, header)
    assert end is None or end < len(packed) or not is_record(memoryview(data), 0, header)


def test_records_that_seem_longer_are_gone_through_a_few_times_at_most() -> None:
    """Where each of the 17 bits of a length would end it, something begins."""
    header = FileHeader(JournalLayout.NATIVE, 7, b"saltsalt")
    size = (1 << 17) - 1
    bodies = []
    for _ in range(8):
        body = bytearray(size)
        for bit in range(5, 17):
            begun = head(Kind.ADD, header, (1 << bit) - 22)
            at = size + 4 - (1 << bit)
            body[at : at + _ADD] = begun
        bodies.append(bytes(body))
    data, places = file_of_adds(header, bodies)
    scan = scan_records(bytes(data), header)
    assert [each[1] for each in scan.records] == [each[0] for each in places]
    assert scan.crc_bytes < 6 * len(data) + 1024 * 8 * 17


def test_records_over_one_another_are_gone_through_a_few_times_at_most() -> None:
    """Each is sound, also without a bit of its length; and so is the next one, which begins where it would end then."""
    header = FileHeader(JournalLayout.NATIVE, 7, b"saltsalt")
    step, bit, count = 40, 17, 400
    size = step + (1 << bit) - _ADD - 4
    data = bytearray(header.pack().ljust(1 << 18, b"\0"))
    starts = [header.layout.header_bytes + step * number for number in range(count)]
    for start in starts:
        data[start : start + _ADD] = head(Kind.ADD, header, size - (1 << bit))
        check = checked(bytes(data[start : start + step - 4]), header, start)
        data[start : start + step] = head(Kind.ADD, header, size).ljust(step - 4, b"\0") + check
    for start in starts:
        end = start + _ADD + size
        data[end : end + 4] = checked(bytes(data[start:end]), header, start)
    assert len(sound_places(bytes(data), header)) == count
    assert scan_records(bytes(data), header).crc_bytes < 6 * len(data) + 1024 * 40 * count
