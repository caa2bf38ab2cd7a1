"""Damage to a native journal: which records are lost, and that no other bytes are ever returned as a record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog.format.journal.block import BLOCK_BYTES, HEAD_BYTES, fragment_start
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.record import JournalRecord, Kind, pack_record
from binlog.journal.inspection.inspection import check_journal
from binlog.journal.inspection.record_reader import read_records
from tests.support.journal_bytes import Scanned, file_of_adds, found_places, scan_records
from tests.support.journals import SMALL, files, flip, ids, journal, records_in, reload

_HEADER = FileHeader(JournalLayout.NATIVE, 7, b"saltsalt")
_SECTOR = 512
_FIELDS = 9  # size of the fields of an ADD before its body
_OPTIONS = replace(SMALL, file_bytes=4 * BLOCK_BYTES)


def _found(data: bytes) -> list[tuple[int, bytes]]:
    """Return the id and the body of each record."""
    return [(each[4], each[6]) for each in scan_records(data, _HEADER).records]


def _lost(records: Iterable[Scanned], damaged: range) -> set[int]:
    """Return the ids of the records that a run of damaged bytes may cost.

    That is each record with a damaged byte and, for each block with a damaged head, each record with a head after it.
    """
    lost = set()
    blocks: dict[int, int] = {}
    for _, start, end, _, record_id, *_ in records:
        at = start
        while at < end:
            stop = min(end, at - at % BLOCK_BYTES + BLOCK_BYTES)
            if at < damaged.stop and damaged.start < stop:
                lost.add(record_id)
                if at + HEAD_BYTES > damaged.start:
                    blocks.setdefault(at // BLOCK_BYTES, at)
            if at > blocks.get(at // BLOCK_BYTES, at):
                lost.add(record_id)
            at = fragment_start(stop)
    return lost


_BODY_BYTES = [0, 30, 500, 3750, 5, 0, 2500, 90, 90, 10_000, 12]


def _file() -> tuple[bytes, list[Scanned]]:
    bodies = [bytes([65 + number]) * size for number, size in enumerate(_BODY_BYTES)]
    data = bytes(file_of_adds(_HEADER, bodies)[0]) + bytes(2 * BLOCK_BYTES)
    return data, scan_records(data, _HEADER).records


def test_a_record_larger_than_its_block_continues_in_the_next_ones() -> None:
    data, records = _file()
    assert [len(each[6]) for each in records] == _BODY_BYTES
    spread = [each for each in records if each[1] // BLOCK_BYTES < (each[2] - 1) // BLOCK_BYTES]
    assert [each[4] for each in spread] == [3, 9]
    assert found_places(data, _HEADER) == [each[1] for each in records]


def test_no_flipped_bit_costs_more_than_its_record_or_the_rest_of_its_block() -> None:
    data, records = _file()
    heads = {at for each in records for at in range(each[1], each[1] + HEAD_BYTES + _FIELDS)}
    heads |= {block + at for block in range(BLOCK_BYTES, len(data), BLOCK_BYTES) for at in range(HEAD_BYTES)}
    for at in sorted(heads | set(range(88, len(data), 997))):
        damaged = bytearray(data)
        damaged[at] ^= 1 << at % 8
        expected = {each[4] for each in records} - _lost(records, range(at, at + 1))
        found = scan_records(bytes(damaged), _HEADER).records
        assert {each[4] for each in found} == expected, at
        assert [each for each in records if each[4] in expected] == found


def test_no_lost_sector_costs_more_than_its_records_or_the_rest_of_its_block() -> None:
    data, records = _file()
    for at in range(_SECTOR, len(data), _SECTOR):
        damaged = data[:at] + bytes(_SECTOR) + data[at + _SECTOR :]
        expected = {each[4] for each in records} - _lost(records, range(at, at + _SECTOR))
        found = scan_records(damaged, _HEADER).records
        assert {each[4] for each in found} >= expected, at
        assert [each for each in records if each[4] in {each[4] for each in found}] == found


@pytest.mark.parametrize("where", [0, HEAD_BYTES], ids=["head", "body"])
def test_lost_records_are_reported_and_all_others_are_read(tmp_path: Path, where: int) -> None:
    with journal(tmp_path, _OPTIONS) as (opened, _):
        for number in range(8):
            opened.append_add(number, 1, bytes([number]) * 1250)
    [file] = [each for each in files(tmp_path) if records_in(each)]
    records = records_in(file)
    flip(file, records[1][1] + where)
    live = sorted(
        {each[4] for each in records} - _lost(records, range(records[1][1] + where, records[1][1] + where + 1))
    )
    assert live == ([0, *range(4, 8)] if where == 0 else [0, *range(2, 8)])
    assert {each.rule for each in check_journal(tmp_path)} == {"gap"}
    assert [each.record_id for each in read_records(tmp_path)] == live
    loaded = reload(tmp_path, _OPTIONS)
    assert (ids(loaded), {each.rule for each in loaded.problems}) == (live, {"gap"})
    with journal(tmp_path, _OPTIONS) as (opened, _):
        opened.append_add(100, 1, b"goes on")
    assert ids(reload(tmp_path, _OPTIONS)) == [*live, 100]


def test_a_damaged_head_in_the_last_block_is_reported(tmp_path: Path) -> None:
    with journal(tmp_path) as (opened, _):
        for number in range(5):
            opened.append_add(number, 1, b"abc")
    file = files(tmp_path)[0]
    flip(file, records_in(file)[2][1] + 5)
    assert [each.rule for each in check_journal(tmp_path)] == ["tail"]
    loaded = reload(tmp_path)
    assert (ids(loaded), [each.rule for each in loaded.problems]) == ([0, 1], ["tail"])


@st.composite
def _forged(draw: st.DrawFn) -> tuple[bytes, dict[int, bytes]]:
    """Draw a file and its records, made by an author who knew its salt and all offsets, and any damage to it."""
    sizes = [bytes(each) for each in _BODY_BYTES]
    places = [start for start, _ in file_of_adds(_HEADER, sizes)[1]]
    bodies = []
    for number, body in enumerate(sizes):
        at = draw(st.integers(0, max(len(body) - 1, 0)))
        offset = places[number] + HEAD_BYTES + _FIELDS + at
        kind = draw(st.sampled_from([Kind.ADD, Kind.UPDATE, Kind.DELETE]))
        forged = pack_record(
            JournalRecord(kind, 0, 1000 + number, 1, b"forged" * (kind is not Kind.DELETE)), _HEADER, offset
        )
        bodies.append((bytes(at) + forged + b"z" * len(body))[: len(body)])
    data = bytearray(file_of_adds(_HEADER, bodies)[0] + bytes(BLOCK_BYTES))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.one_of(st.integers(88, len(data) - 1), st.sampled_from(places)))
        stop = start + draw(st.sampled_from([1, 12, 40, 512, BLOCK_BYTES]))
        part = data[start:stop]
        source = draw(st.integers(88, len(data) - 1))
        with_what = draw(st.sampled_from(["flip", "zeros", "copy"]))
        if with_what == "flip":
            data[start] ^= 1 << draw(st.integers(0, 7))
        else:
            data[start:stop] = (
                bytes(len(part)) if with_what == "zeros" else data[source : source + len(part)].ljust(len(part))
            )
    return bytes(data), dict(enumerate(bodies))


@given(_forged())
@pytest.mark.slow
def test_no_damage_makes_bytes_of_a_body_a_record(file: tuple[bytes, dict[int, bytes]]) -> None:
    data, bodies = file
    found = _found(data)
    assert found == [(number, bodies[number]) for number, _ in found]
    assert [number for number, _ in found] == sorted(number for number, _ in found)
    found_places(data, _HEADER)
