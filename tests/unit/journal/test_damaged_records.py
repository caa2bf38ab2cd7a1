"""A damaged record, and what somebody put into it who foresaw how it would be damaged.

Nothing within it is told as a record, and all that are outside of it are; by whoever reads the journal.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog.format.journal.file_header import FileHeader, JournalLayout, aligned
from binlog.format.journal.record import JournalRecord, Kind, pack_record
from binlog.journal.check import check_journal
from binlog.journal.options import JournalOptions
from binlog.journal.record_reader import read_records
from binlog.storage.journal_records import scan_records
from tests.support.forging import FORGED, checked, foreseen, has_forged, head
from tests.support.journal_bytes import file_of_adds, found_places
from tests.support.journals import SMALL, ids, journal, records_in, reload

_OPTIONS = replace(SMALL, file_bytes=1 << 14)
_SECTOR = 512
_ADD = 18
_ADD_TX = 26


def _sound_once_zero(header: FileHeader, start: int, zero: tuple[int, int], end: int, kind: Kind = Kind.ADD) -> bytes:
    """A record from one offset to another, which is sound once a part of its body reads as zeros."""
    begun = head(kind, header, end - start - 4 - (_ADD_TX if kind in (Kind.ADD_TX, Kind.UPDATE_TX) else _ADD))
    if kind in (Kind.ADD_TX, Kind.UPDATE_TX):
        begun = begun[:5] + (5).to_bytes(8) + begun[13:]  # of the transaction 5
    parts = [begun.ljust(zero[0] - start, b"x"), bytes(zero[1] - zero[0]), b"x" * (end - 4 - zero[1])]
    check = checked(b"".join(parts), header, start)
    return parts[0] + b"x" * len(parts[1]) + parts[2] + check


def _over_sectors(header: FileHeader, at: int, size: int, kind: Kind = Kind.ADD) -> tuple[bytes, list[int]]:
    """A body at an offset, with such a record over every second sector that lies whole in it; and these sectors."""
    body = bytearray(b"x" * size)
    sectors = [each for each in range(at // _SECTOR + 1, (at + size - 60) // _SECTOR) if each * _SECTOR - 40 > at]
    for sector in sectors[::2]:
        start, end = sector * _SECTOR - 40, (sector + 1) * _SECTOR + 20
        forged = _sound_once_zero(header, start, (sector * _SECTOR, (sector + 1) * _SECTOR), end, kind)
        body[start - at : end - at] = forged
    return bytes(body), sectors[::2]


def _zero(file: Path, start: int, stop: int) -> None:
    data = bytearray(file.read_bytes())
    data[start:stop] = bytes(stop - start)
    file.write_bytes(data)


def _told(path: Path, options: JournalOptions = _OPTIONS) -> list[list[int]]:
    """The ids of all records, by who reads the journal and by who loads it."""
    read = [record.record_id for record in read_records(path) if record.record_id is not None]
    return [read, ids(reload(path, options))]


@pytest.mark.parametrize("behind", [True, False], ids=["between others", "the last one"])
@pytest.mark.parametrize("shift", [0, 256])
@pytest.mark.parametrize("alignment", [1, 512])
def test_whichever_sector_is_lost_of_a_body_nothing_in_it_is_a_record(
    tmp_path: Path, behind: bool, shift: int, alignment: int
) -> None:
    options = replace(_OPTIONS, alignment=alignment)
    path = tmp_path / "journal"
    with journal(path, options) as (opened, _):
        opened.append_add(1, 1, b"there" + bytes(shift))
        place = foreseen(path, alignment)
        body, sectors = _over_sectors(place.header, place.at + _ADD, 4000)
        opened.append_add(2, 1, body)
        if behind:
            opened.append_add(3, 1, b"behind")
        assert not has_forged(path)
    assert len(sectors) > 2
    for sector in sectors:
        copy = tmp_path / str(sector)
        shutil.copytree(path, copy)
        file = copy / place.file.name
        _zero(file, sector * _SECTOR, (sector + 1) * _SECTOR)
        assert {each.rule for each in check_journal(copy)} == {"gap" if behind else "tail"}
        there = [1, 3] if behind else [1]
        assert _told(copy, options) == [there, there]
        with journal(copy, options) as (opened, _):
            opened.append_add(4, 1, b"goes on")
        assert ids(reload(copy, options)) == [*there, 4]


@pytest.mark.parametrize("alignment", [1, 512])
def test_the_last_record_of_a_file_that_was_used_before_is_not_gone_into(tmp_path: Path, alignment: int) -> None:
    header = FileHeader(JournalLayout.NATIVE, 7, b"saltsalt", alignment)
    data = bytearray(header.pack().ljust(aligned(header.layout.header_bytes, alignment), b"\0"))
    at = len(data)
    body, sectors = _over_sectors(header, at + _ADD, 3000)
    data += pack_record(JournalRecord(Kind.ADD, 0, 2, 1, body), header, at)
    data += bytes(aligned(len(data), alignment) - len(data) + 16)
    left = header._replace(file_id=3, salt=b"otherone")
    while len(data) < 1 << 14:
        data += pack_record(JournalRecord(Kind.ADD, 0, 77, 1, b"left" * 9), left, len(data))
    for sector in sectors:
        damaged = bytes(data[: sector * _SECTOR] + bytes(_SECTOR) + data[(sector + 1) * _SECTOR :])
        assert found_places(damaged, header) == []


def test_whichever_bit_of_a_body_is_flipped_no_delete_comes_of_it(tmp_path: Path) -> None:
    """The body is full of deletes of records that are there, each of them one bit off."""
    with journal(tmp_path, _OPTIONS) as (opened, _):
        for record_id in range(4):
            opened.append_add(record_id, 1, b"precious")
        place = foreseen(tmp_path)
        first = place.at + _ADD
        body = bytearray()
        for number in range(40):
            delete = pack_record(JournalRecord(Kind.DELETE, 0, number % 4), place.header, first + len(body))
            body += delete[:16] + bytes([delete[16] ^ 1])
        opened.append_add(9, 1, bytes(body))
        opened.append_add(10, 1, b"behind")
        assert not has_forged(tmp_path)
    data = place.file.read_bytes()
    records = records_in(place.file)
    expected = [each for each in records if each[4] != 9]
    for bit in range(8 * first, 8 * (first + len(body))):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        assert scan_records(damaged, place.header).records == expected
    # The last bit of the last one: what all who read it make of that.
    place.file.write_bytes(damaged[: bit // 8] + bytes([data[bit // 8] ^ 1]) + damaged[bit // 8 + 1 :])
    assert _told(tmp_path) == [[0, 1, 2, 3, 10]] * 2


def test_what_a_damaged_record_holds_does_not_complete_its_transaction(tmp_path: Path) -> None:
    with journal(tmp_path, _OPTIONS) as (opened, _):
        opened.append_add(1, 1, b"there")
        place = foreseen(tmp_path)
        body, sectors = _over_sectors(place.header, place.at + _ADD_TX, 3000, Kind.ADD_TX)
        opened.append_add_tx(5, 10, 1, body)
        opened.append_add_tx(5, 11, 1, b"second")
        opened.commit(5)
        assert not has_forged(tmp_path)
    _zero(place.file, sectors[1] * _SECTOR, (sectors[1] + 1) * _SECTOR)
    assert [each.rule for each in check_journal(tmp_path)] == ["gap", "transaction"]
    loaded = reload(tmp_path, _OPTIONS)
    assert (ids(loaded), [each.tx_id for each in loaded.failed]) == ([1], [5])


@pytest.mark.parametrize("body_bytes", [0, 10, 42, 106, 490, 1002])
@pytest.mark.parametrize("alignment", [1, 512])
def test_whichever_bit_of_a_head_is_flipped_no_other_record_is_lost(alignment: int, body_bytes: int) -> None:
    """Also where its length leads to a later record then, exactly, as between records of one size."""
    header = FileHeader(JournalLayout.NATIVE, 7, b"saltsalt", alignment)
    data, places = file_of_adds(header, [bytes([number]) * body_bytes for number in range(9)])
    data += bytes(100)
    leading = 0
    for (at, end), bit in itertools.product(places, range(8 * _ADD)):
        damaged = bytearray(data)
        damaged[at + bit // 8] ^= 1 << bit % 8
        said = at + 22 + int.from_bytes(damaged[at + 13 : at + 17])
        leading += said != end and aligned(said, alignment) in [aligned(each[1], alignment) for each in places]
        assert found_places(bytes(damaged), header) == [each[0] for each in places if each[0] != at]
    assert (leading > 0) is (body_bytes in (10, 42, 106, 490, 1002) or alignment == 512)


def test_a_length_that_was_not_flipped_is_not_taken_for_one_that_was() -> None:
    """A body that is sound, so far, with another length; and behind that what is sound once a sector is lost."""
    header = FileHeader(JournalLayout.NATIVE, 7, b"saltsalt")
    size, flipped = 2048 + 100, 100
    at = header.layout.header_bytes
    inner = at + _ADD + flipped + 4
    begun = pack_record(JournalRecord(Kind.ADD, 0, 0, 1, b"y" * flipped), header, at)
    sector = inner // _SECTOR + 1
    zero = sector * _SECTOR, (sector + 1) * _SECTOR
    forged = _sound_once_zero(header, inner, zero, zero[1] + 30)
    body = (begun[_ADD:] + forged).ljust(size, b"z")
    data, places = file_of_adds(header, [body, b"behind"])
    assert found_places(bytes(data), header) == [each[0] for each in places]
    data[zero[0] : zero[1]] = bytes(_SECTOR)
    assert found_places(bytes(data) + bytes(100), header) == [places[1][0]]


def test_of_two_bits_that_may_be_flipped_it_is_the_one_that_hides_no_record() -> None:
    """With two bits changed a record is sound up to within the next one; one of them is flipped, and leads nowhere."""
    header = FileHeader(JournalLayout.NATIVE, 7, b"saltsalt")
    at, flipped, size = header.layout.header_bytes, 4, 40 ^ 4 | 256
    room = at + _ADD + size - (at + _ADD + 40 + 4 + _ADD)
    bodies = [b"r" * 40, b"n" * (room + 34), b"behind"]
    data, places = file_of_adds(header, bodies)
    region = bytearray(data[at : at + _ADD + size])
    region[13:17] = size.to_bytes(4)
    bodies[1] = b"n" * room + checked(bytes(region), header, at) + b"n" * 30
    data, places = file_of_adds(header, bodies)
    data += bytes(100)
    assert found_places(bytes(data), header) == [each[0] for each in places]
    data[at + 16] ^= flipped
    assert found_places(bytes(data), header) == [each[0] for each in places[1:]]


@pytest.mark.parametrize("is_behind", [False, True], ids=["in the last one", "behind it"])
@pytest.mark.parametrize("between", [0, 2])
def test_a_length_that_leads_to_zeros_hides_none(between: int, is_behind: bool) -> None:
    """In the last record, or behind that, where an earlier use has left something: as where all records end."""
    header = FileHeader(JournalLayout.NATIVE, 7, b"saltsalt")
    bodies = [b"r" * 40, *([b"between"] * between)]
    data, places = file_of_adds(header, bodies)
    end = places[0][1] + 256
    room = end - len(data) - _ADD - 1
    last = b"m" * 30 if is_behind else (bytes(room) + b"x" + bytes(16)).ljust(300, b"m")
    data, places = file_of_adds(header, [*bodies, last])
    data += bytes(16)
    data += bytes(end - 4 - len(data)) + b"left" + bytes(100) if is_behind else b""
    data[places[0][0] + 15] ^= 1
    assert found_places(bytes(data), header) == [each[0] for each in places[1:]]


@st.composite
def _damages(draw: st.DrawFn) -> tuple[FileHeader, bytes, list[tuple[int, int]], int]:
    """A file, its records, and which of them is damaged: by a bit, or a part that is lost, which its body foresaw."""
    header = FileHeader(JournalLayout.NATIVE, draw(st.sampled_from([1, 11, 0x0B0B0B0B])), b"saltsalt",
                        draw(st.sampled_from([1, 64, 512])))  # fmt: skip
    sizes = draw(st.lists(st.sampled_from([0, 10, 42, 42, 106, 300]), min_size=1, max_size=8))
    bodies = [draw(st.binary(min_size=min(size, 4), max_size=4)).ljust(size, b"b") for size in sizes]
    grouped = draw(st.frozensets(st.integers(1, 8)))
    number = draw(st.integers(0, len(bodies) - 1))
    start, lost = draw(st.integers(0, 20)), draw(st.integers(1, 60))
    at = file_of_adds(header, bodies, grouped=grouped)[1][number][0] + _ADD + start
    zero = at + _ADD + 3, at + _ADD + 3 + lost
    forged = _sound_once_zero(header, at, zero, zero[1] + 9, draw(st.sampled_from([Kind.ADD, Kind.UPDATE])))
    bodies[number] = b"x" * start + forged + draw(st.binary(max_size=9))
    data, places = file_of_adds(header, bodies, grouped=grouped)
    data += bytes(draw(st.sampled_from([0, 3, 1000])))
    if draw(st.booleans()):
        data[zero[0] : zero[1]] = bytes(lost)
    else:
        bit = draw(st.integers(8 * places[number][0], 8 * places[number][1] - 1))
        data[bit // 8] ^= 1 << bit % 8
    return header, bytes(data), places, number


@given(_damages())
def test_whatever_record_is_damaged_all_others_are_there_and_nothing_that_lies_in_it(
    damage: tuple[FileHeader, bytes, list[tuple[int, int]], int],
) -> None:
    header, data, places, number = damage
    assert found_places(data, header) == [each[0] for each in places if each != places[number]]


def _heads(header: FileHeader, room: int, step: int) -> Iterator[bytes]:
    for at in range(0, room - step, step):
        yield head(Kind.ADD, header, room - at).ljust(step, b"\0")


@pytest.mark.parametrize("step", [18, 64])
@pytest.mark.parametrize("lost", ["body", "body and next"])
def test_a_body_of_heads_that_is_damaged_is_gone_through_a_few_times_at_most(step: int, lost: str) -> None:
    header = FileHeader(JournalLayout.NATIVE, 7, b"saltsalt")
    body = b"".join(_heads(header, 1 << 18, step))
    data, places = file_of_adds(header, [body, b"next", b"behind"])
    data[places[0][1] - 9] ^= 1
    if lost == "body and next":
        data[places[1][0] : places[1][0] + 18] = bytes(18)
    scan = scan_records(data, header)
    assert [each[4] for each in scan.records] == ([1, 2] if lost == "body" else [2])
    assert scan.crc_bytes < 6 * len(data) + 1024 * len(body) // step
    assert FORGED not in [each[4] for each in scan.records]
