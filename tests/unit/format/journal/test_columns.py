"""Records as columns, and as a load takes them, against records parsed one by one."""

from __future__ import annotations

import gc
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog._codec import gather_bodies, scan_journal_columns
from binlog.format.journal.compiled import scan_columns
from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.journal.record import JournalRecord, Kind, pack_record
from binlog.journal.record import Record
from tests.support.journal_bytes import Scanned, plain_scan, scan_records

_IDS = st.integers(-(2**63), 2**63 - 1)
_COUNTS = st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**31 - 1)), max_size=3).map(tuple)
_WITH_BODY = {Kind.ADD, Kind.UPDATE, Kind.ADD_TX, Kind.UPDATE_TX, Kind.DELETE_TX, Kind.PREPARE}


@st.composite
def records(draw: st.DrawFn) -> JournalRecord:
    kind = draw(st.sampled_from(list(Kind)))
    body = draw(st.binary(max_size=40)) if kind in _WITH_BODY else b""
    counts = draw(_COUNTS) if kind in (Kind.PREPARE, Kind.COMMIT) else ()
    return JournalRecord(kind, draw(_IDS), draw(_IDS), draw(st.integers(0, 255)), body, counts)


def file_of(header: FileHeader, items: list[JournalRecord | bytes]) -> bytes:
    """Pack records, and bytes between them."""
    data = header.pack()
    for item in items:
        if isinstance(item, JournalRecord):
            old = header.layout is JournalLayout.JBM_2008_07 and item.kind in (Kind.DELETE_TX, Kind.PREPARE)
            data += pack_record(item._replace(body=b"") if old else item, header, len(data))
        else:
            data += item
    return data


_KINDS_OF_RECORDS = (Kind.ADD, Kind.UPDATE, Kind.ADD_TX, Kind.UPDATE_TX)


@given(
    st.sampled_from(JournalLayout),
    st.lists(st.one_of(records(), records(), st.binary(max_size=30)), max_size=12),
    st.integers(1, 5),
    st.lists(st.integers(0, 2**16), max_size=2),
)
def test_columns_equal_the_records_parsed_one_by_one(
    layout: JournalLayout, items: list[JournalRecord | bytes], count_max: int, flips: list[int]
) -> None:
    header = FileHeader(layout, 7, b"saltsalt" if layout is JournalLayout.NATIVE else b"")
    damaged = bytearray(file_of(header, items))
    for at in flips:
        damaged[at % len(damaged)] ^= 1
    data = bytes(damaged)
    expected = plain_scan(data, header)
    assert scan_records(data, header, count_max=count_max) == expected
    scans = scan_columns(data, header, count_max=count_max, record_type=Record)
    loaded = [each for scan in scans for each in scan.records]
    assert loaded == [_for_load(each) for each in expected.records]
    assert not any(map(gc.is_tracked, loaded))


def _for_load(record: Scanned) -> Record | bytes | None:
    kind, _, _, _, record_id, user_type, body, _ = record
    if kind in _KINDS_OF_RECORDS:
        return Record(record_id, user_type, body, kind in (Kind.UPDATE, Kind.UPDATE_TX))
    return body if kind in (Kind.DELETE_TX, Kind.PREPARE) else None


def test_records_become_named_tuples_only() -> None:
    for record_type in (list, Record(1, 2, b"")):
        with pytest.raises(TypeError, match="a named tuple"):
            scan_journal_columns(b"", 0, 1, b"", False, 1, record_type)  # type: ignore[arg-type]


@given(st.binary(max_size=50), st.data(), st.integers(0, 20))
def test_bodies_are_gathered_up_to_a_limit_but_at_least_one(data: bytes, draw: st.DataObject, bytes_max: int) -> None:
    slices = st.tuples(st.integers(0, len(data)), st.integers(0, len(data))).map(sorted)
    places = draw.draw(st.lists(slices, max_size=6))
    offsets = b"".join(start.to_bytes(8, "little") for start, _ in places)
    sizes = b"".join((stop - start).to_bytes(4, "little") for start, stop in places)
    found: list[bytes] = []
    while len(found) < len(places):
        count, bounds, values = gather_bodies(data, offsets, sizes, len(found), bytes_max)
        assert count == 1 or (count > 1 and len(values) <= bytes_max)
        found += [values[start:stop] for start, stop in itertools.pairwise(memoryview(bounds).cast("i"))]
    assert found == [data[start:stop] for start, stop in places]
    assert gather_bodies(data, offsets, sizes, len(places), bytes_max) == (0, bytes(4), b"")


@pytest.mark.parametrize(("offset", "size"), [(-1, 1), (0, -1), (3, 8), (2**62, 1), (11, 0)])
def test_a_body_outside_of_the_file_is_refused(offset: int, size: int) -> None:
    offsets, sizes = offset.to_bytes(8, "little", signed=True), size.to_bytes(4, "little", signed=True)
    with pytest.raises(ValueError, match="a body is outside of the file"):
        gather_bodies(b"0123456789", offsets, sizes, 0, 100)


def test_arrays_of_different_lengths_are_refused() -> None:
    for arguments in [(bytes(8), bytes(8), 0, 1), (bytes(8), bytes(4), 2, 1), (bytes(8), bytes(4), 0, 1 << 31)]:
        with pytest.raises(ValueError, match="offsets and sizes differ"):
            gather_bodies(b"", *arguments)
    with pytest.raises(ValueError, match="the start of a scan is negative"):
        scan_journal_columns(b"", -1, 1, b"", False, 1, None)
