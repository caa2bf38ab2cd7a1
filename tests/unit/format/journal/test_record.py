from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog._codec import pack_journal
from binlog.errors import CorruptError, VersionError
from binlog.format.journal.block import fragment_start
from binlog.format.journal.file_header import JOURNAL_END, FileHeader, JournalLayout, parse_file_header
from binlog.format.journal.record import (
    JOURNAL_COUNT,
    JournalRecord,
    Kind,
    pack_record,
    parse_record,
    record_bytes,
    record_end,
)
from tests.support.journal_bytes import scan_records

ID = 0x0102030405060708
SALT = b"saltsalt"

# Written by the journal of JBoss Messaging in 2009, run by hand: files of 1024 bytes, the first two of a journal.
FIRST_FILE = """
    00000001
    0b 00000001 0102030405060708 00000004 07 41414141 0000001a
    0c 00000001 0102030405060708 00000002 08 4242 00000018
    0d 00000001 0000000000000055 0000000000000021 00000003 09 434343 00000021
    0e 00000001 0000000000000055 0102030405060708 00000001 0a 44 0000001f
"""
FIRST_RECORDS = [
    JournalRecord(Kind.ADD, 0, ID, 7, b"AAAA"),
    JournalRecord(Kind.UPDATE, 0, ID, 8, b"BB"),
    JournalRecord(Kind.ADD_TX, 0x55, 0x21, 9, b"CCC"),
    JournalRecord(Kind.UPDATE_TX, 0x55, ID, 10, b"D"),
]
SECOND_FILE = """
    00000002
    0d 00000002 0000000000000055 0000000000000022 00000001 09 45 0000001f
    12 00000002 0000000000000055 00000002 00000001 00000002 00000002 00000001 00000025
    0f 00000002 0000000000000066 0000000000000021 00000002 7878 0000001f
    11 00000002 0000000000000066 00000003 00000001 584944 00000002 00000001 00000024
    0d 00000002 0000000000000077 0000000000000030 00000001 01 5a 0000001f
    13 00000002 0000000000000077 00000011
    10 00000002 0000000000000022 00000011
"""
SECOND_RECORDS = [
    JournalRecord(Kind.ADD_TX, 0x55, 0x22, 9, b"E"),
    JournalRecord(Kind.COMMIT, 0x55, counts=((1, 2), (2, 1))),
    JournalRecord(Kind.DELETE_TX, 0x66, 0x21, body=b"xx"),
    JournalRecord(Kind.PREPARE, 0x66, body=b"XID", counts=((2, 1),)),
    JournalRecord(Kind.ADD_TX, 0x77, 0x30, 1, b"Z"),
    JournalRecord(Kind.ROLLBACK, 0x77),
    JournalRecord(Kind.DELETE, 0, 0x22),
]
# With the numbers and layouts used until September 2008.
OLD_FILE = """
    00000003
    0f 00000003 0000000000000022 00000011
    10 00000003 0000000000000066 0000000000000021 00000019
    11 00000003 0000000000000066 00000001 00000003 00000001 0000001d
"""
OLD_RECORDS = [
    JournalRecord(Kind.DELETE, 0, 0x22),
    JournalRecord(Kind.DELETE_TX, 0x66, 0x21),
    JournalRecord(Kind.PREPARE, 0x66, counts=((3, 1),)),
]


@pytest.mark.parametrize(
    ("layout", "text", "records"),
    [
        (JournalLayout.JBM, FIRST_FILE, FIRST_RECORDS),
        (JournalLayout.JBM, SECOND_FILE, SECOND_RECORDS),
        (JournalLayout.JBM_2008_07, OLD_FILE, OLD_RECORDS),
    ],
    ids=["first", "second", "old"],
)
def test_golden_bytes_both_ways(layout: JournalLayout, text: str, records: list[JournalRecord]) -> None:
    golden = bytes.fromhex(text)
    header = parse_file_header(golden, "a file", layout)
    data = header.pack()
    for record in records:
        assert parse_record(golden, len(data), header, "a file")[0] == record
        data += pack_record(record, header, len(data))
    assert data == golden
    scan = scan_records(golden.ljust(1024, b"J"), header)
    assert (scan.record_count, scan.end, scan.gaps, scan.suspects) == (len(records), len(golden), [], [])
    found = [JournalRecord(Kind(each[0]), *each[3:7], _counts(each[7])) for each in scan.records]
    assert found == records


def _counts(data: bytes) -> tuple[tuple[int, int], ...]:
    found = (JOURNAL_COUNT.unpack(data, at) for at in range(0, len(data), JOURNAL_COUNT.size))
    return tuple((each["file_id"], each["record_count"]) for each in found)


_I64 = st.integers(-(2**63), 2**63 - 1)


@st.composite
def _records(draw: st.DrawFn) -> JournalRecord:
    kind = draw(st.sampled_from(Kind))
    names = {
        Kind.ADD: "record_id user_type body",
        Kind.UPDATE: "record_id user_type body",
        Kind.ADD_TX: "tx_id record_id user_type body",
        Kind.UPDATE_TX: "tx_id record_id user_type body",
        Kind.DELETE_TX: "tx_id record_id body",
        Kind.DELETE: "record_id",
        Kind.PREPARE: "tx_id body counts",
        Kind.COMMIT: "tx_id counts",
        Kind.ROLLBACK: "tx_id",
    }[kind]
    values: dict[str, st.SearchStrategy[Any]] = {
        "tx_id": _I64,
        "record_id": _I64,
        "user_type": st.integers(0, 255),
        "body": st.one_of(st.binary(max_size=50), st.integers(0, 90_000).map(bytes)),
        "counts": st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**31 - 1)), max_size=4).map(tuple),
    }
    return JournalRecord(kind, **{name: draw(values[name]) for name in names.split()})


_HEADERS = st.one_of(
    st.integers(0, 2**32 - 1).map(lambda file_id: FileHeader(JournalLayout.JBM, file_id)),
    st.builds(
        FileHeader,
        st.just(JournalLayout.NATIVE),
        st.integers(0, 2**64 - 1),
        st.binary(min_size=8, max_size=8),
        st.integers(0, 2**63),
        st.integers(0, 2**64 - 1),
    ),
)


@given(_HEADERS, st.lists(_records(), max_size=6))
def test_records_survive_a_round_trip_in_both_implementations(header: FileHeader, records: list[JournalRecord]) -> None:
    data = bytearray(header.pack())
    assert parse_file_header(bytes(data), "a file") == header
    places = []
    for record in records:
        at = len(data)
        counts = b"".join(
            JOURNAL_COUNT.pack({"file_id": file_id, "record_count": count}) for file_id, count in record.counts
        )
        size = record_bytes(record.kind, len(record.body), len(record.counts), header.layout)
        packed = pack_journal(header.record_id, header.salt, at, record.kind, *record[1:4], record.body, counts)
        assert packed == pack_record(record, header, at)
        data += packed
        end = len(data)
        assert end == record_end(at, size, header.layout)
        start = fragment_start(at) if header.salt else at
        assert parse_record(bytes(data), start, header, "a file") == (record, end)
        places.append((start, end))
    found = scan_records(bytes(data) + bytes(100), header)
    assert [(each[1], each[2]) for each in found.records] == places


@given(st.binary(max_size=400), st.sampled_from(JournalLayout))
def test_arbitrary_bytes_are_scanned_without_failure(data: bytes, layout: JournalLayout) -> None:
    header = FileHeader(layout, 0, SALT if layout is JournalLayout.NATIVE else b"")
    scan = scan_records(header.pack() + data, header)
    assert scan.end <= len(header.pack()) + len(data)
    for at in range(layout.header_bytes, layout.header_bytes + len(data)):
        try:
            _, end = parse_record(header.pack() + data, at, header, "a file")
        except CorruptError:
            continue
        assert at < end


@pytest.mark.slow
def test_every_flipped_bit_is_detected_in_the_native_layout() -> None:
    header = FileHeader(JournalLayout.NATIVE, 7, SALT)
    for record in (*FIRST_RECORDS, *SECOND_RECORDS):
        data = header.pack() + pack_record(record, header, len(header.pack()))
        for at in range(len(header.pack()), len(data)):
            for bit in range(8):
                damaged = bytearray(data)
                damaged[at] ^= 1 << bit
                assert scan_records(damaged, header).record_count == 0
                with pytest.raises(CorruptError):
                    parse_record(bytes(damaged), len(header.pack()), header, "a file")


def test_a_copy_of_a_record_at_another_offset_does_not_count() -> None:
    header = FileHeader(JournalLayout.NATIVE, 7, SALT)
    inner = pack_record(FIRST_RECORDS[0], header, len(header.pack()))
    data = header.pack() + b"\1" + inner
    assert scan_records(data, header).record_count == 0


def test_random_headers_and_those_of_other_layouts_are_refused() -> None:
    ours = FileHeader(JournalLayout.NATIVE, 7, SALT).pack()
    with pytest.raises(ValueError, match="of the layout 'native', not 'jbm'"):
        parse_file_header(ours, "a file", JournalLayout.JBM)
    with pytest.raises(CorruptError, match="does not begin like a native journal file"):
        parse_file_header(bytes.fromhex(FIRST_FILE).ljust(100, b"J"), "a file", JournalLayout.NATIVE)
    for at in range(64):
        damaged = bytearray(ours)
        damaged[at] ^= 4
        with pytest.raises((CorruptError, VersionError)):
            parse_file_header(bytes(damaged), "a file")
    for size in range(8, 64):
        with pytest.raises(CorruptError):
            parse_file_header(ours[:size], "a file")


def test_the_end_counts_only_for_the_use_that_wrote_it() -> None:
    header = FileHeader(JournalLayout.NATIVE, 7, SALT)
    data = bytearray(header.pack())
    assert header.parse_end(bytes(data)) is None
    data[JOURNAL_END.base :] = header.pack_end(1000, 12)
    assert header.parse_end(bytes(data)) == (1000, 12)
    assert header._replace(salt=b"SALTSALT").parse_end(bytes(data)) is None
    for at in range(JOURNAL_END.base, JOURNAL_END.end):
        damaged = bytearray(data)
        damaged[at] ^= 1
        assert header.parse_end(bytes(damaged)) is None


def test_the_old_layout_has_no_body_of_deletes_and_prepares() -> None:
    header = FileHeader(JournalLayout.JBM_2008_07, 7)
    for kind in (Kind.DELETE_TX, Kind.PREPARE):
        with pytest.raises(ValueError, match="has no body"):
            pack_record(JournalRecord(kind, 1, body=b"x"), header, 4)
