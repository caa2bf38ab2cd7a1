"""A journal's records as a load takes them, against the same one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog.format.journal.compiled import LoadScan, Scanned, load_records, scan_records
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.record import JournalRecord, Kind
from binlog.journal.record import Record
from tests.unit.format.journal.test_columns import file_of, records

NUMBER = 77
FILE_BYTES = 1 << 18


def _one_by_one(scan: LoadScan) -> list[tuple[Any, ...]]:
    """What a load takes, without where adds lie."""
    found: list[tuple[Any, ...]] = []
    for item in scan.items:
        if len(item) == 3:
            places, adds, total_bytes = item
            assert [record.record_id for record in adds] == list(places)
            assert total_bytes == sum(place & 0xFFFFFFFF for place in places.values())
            assert {place >> 32 for place in places.values()} == {NUMBER}
            assert not any(record.is_update for record in adds)
            sizes = [place & 0xFFFFFFFF for place in places.values()]
            found += [
                (Kind.ADD, size, *record[:3])
                for size, record in zip(sizes, adds, strict=True)
                if type(record) is Record
            ]
        else:
            found.append(_brief(item))
    return found


def _brief(item: Scanned) -> tuple[Any, ...]:
    kind, at, end, _, record_id, user_type, body, _ = item
    return (kind, end - at, record_id, user_type, body) if kind == Kind.ADD else item


@given(
    st.sampled_from(JournalLayout),
    st.lists(st.one_of(records(), records(), st.binary(max_size=30)), max_size=20),
    st.lists(st.integers(0, 2**16), max_size=2),
    st.booleans(),
)
def test_a_load_takes_what_there_is(
    layout: JournalLayout, items: list[JournalRecord | bytes], flips: list[int], alike: bool
) -> None:
    header = FileHeader(layout, 7, b"saltsalt" if layout is JournalLayout.NATIVE else b"")
    if alike:  # so that ids are there twice, and adds behind each other
        items = [
            each if isinstance(each, bytes) else each._replace(kind=Kind.ADD, record_id=each.record_id % 5, counts=())
            for each in items
        ]
    damaged = bytearray(file_of(header, items))
    for at in flips:
        damaged[at % len(damaged)] ^= 1
    data = bytes(damaged)
    expected = scan_records(data, header)
    found = load_records(data, header, Record, NUMBER)
    assert found[1:] == expected[1:]
    assert _one_by_one(found) == [_brief(each) for each in expected.records]


def test_only_a_row_of_adds_with_different_ids_is_taken_together() -> None:
    header = FileHeader(JournalLayout.NATIVE, 7, b"saltsalt")
    ids = [1, 2, 3, 2, 4]
    data = file_of(header, [JournalRecord(Kind.ADD, 0, each) for each in ids])
    found = load_records(data, header, Record, NUMBER)
    assert [list(item[0]) for item in found.items if len(item) == 3] == [[1, 2, 3], [2, 4]]


def test_records_become_named_tuples_only() -> None:
    header = FileHeader(JournalLayout.NATIVE, 7, b"saltsalt")
    with pytest.raises(ValueError, match="named tuples"):
        load_records(b"", header, list, NUMBER)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="31 bits"):
        load_records(b"", header, Record, 1 << 31)
