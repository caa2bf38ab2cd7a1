"""Golden files of JBoss Messaging's journal and of the native layout."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from binlog.errors import VersionError
from binlog.format.checksums import crc32c
from binlog.format.journal.file_header import FileHeader, JournalLayout, parse_file_header
from binlog.format.journal.record import pack_record
from binlog.journal.inspection.inspection import check_journal
from binlog.journal.record import Deleted, Loaded, Record, TransactionContent
from tests.support.journal_bytes import scan_records
from tests.support.journals import SMALL, journal, reload
from tests.unit.format.journal.test_record import FIRST_FILE, FIRST_RECORDS, ID, SECOND_FILE, SECOND_RECORDS

_OPTIONS = replace(SMALL, layout=JournalLayout.JBM, file_bytes=1024)
_FILES = {
    f"journal-{number}.jnl": bytes.fromhex(text).ljust(1024, b"J")
    for number, text in enumerate((FIRST_FILE, SECOND_FILE), 1)
}
_LOADED = Loaded(
    [
        Record(ID, 7, b"AAAA"),
        Record(ID, 8, b"BB", is_update=True),
        Record(0x21, 9, b"CCC"),
        Record(ID, 10, b"D", is_update=True),
    ],
    [TransactionContent(0x66, b"XID", [], [Deleted(0x21, b"xx")])],
    [],
    ID,
    [],
)


def test_the_same_calls_write_the_same_bytes_as_jboss_messaging(tmp_path: Path) -> None:
    with journal(tmp_path, _OPTIONS) as (opened, _):
        opened.append_add(ID, 7, b"AAAA")
        opened.append_update(ID, 8, b"BB")
        opened.append_add_tx(0x55, 0x21, 9, b"CCC")
        opened.append_update_tx(0x55, ID, 10, b"D")
        with opened._guard:
            opened._appender.cut_over()  # as in the recorded run
        opened.append_add_tx(0x55, 0x22, 9, b"E")
        opened.commit(0x55)
        opened.append_delete_tx(0x66, 0x21, b"xx")
        opened.prepare(0x66, b"XID")
        opened.append_add_tx(0x77, 0x30, 1, b"Z")
        opened.rollback(0x77)
        opened.append_delete(0x22)
    assert {name: (tmp_path / name).read_bytes() for name in _FILES} == _FILES
    assert reload(tmp_path, _OPTIONS) == _LOADED


def test_a_journal_of_jboss_messaging_is_loaded_and_continued(tmp_path: Path) -> None:
    for name, data in _FILES.items():
        (tmp_path / name).write_bytes(data)
    assert check_journal(tmp_path) == []
    assert reload(tmp_path, SMALL) == _LOADED  # the layout is recognised by the records
    assert {name: (tmp_path / name).read_bytes() for name in _FILES} == _FILES
    with journal(tmp_path) as (opened, _):
        opened.commit(0x66)
    assert reload(tmp_path) == _LOADED._replace(
        records=[record for record in _LOADED.records if record.record_id == ID], prepared=[]
    )


# Version 2 of the native layout: a header, then the records of both files above, one fragment each.
_OURS = """
    42494e4c4f474a4c 00000002 00001000 0000000000000007 73616c7473616c74 00000000075bcd15 0000000000000066
    000000000000000000000000 64418593 000000000000000000000000000000000000000000000000
    e57728c8 761ac36a 000d 01 0b 0102030405060708 07 41414141
    98943996 2cb9f8ad 000b 01 0c 0102030405060708 08 4242
    c50d2403 fc3c345a 0014 01 0d 0000000000000055 0000000000000021 09 434343
    c5d2b878 ae55173f 0012 01 0e 0000000000000055 0102030405060708 0a 44
    49f81fa0 7262cd49 0012 01 0d 0000000000000055 0000000000000022 09 45
    9b00688f b2257552 001c 01 12 0000000000000055 00000002 00000001 00000002 00000002 00000001
    53a7d082 e1b3eda1 0012 01 0f 0000000000000066 0000000000000021 7878
    84e1a0c5 9a91869d 0017 01 11 0000000000000066 00000001 584944 00000002 00000001
    548b9f10 0ed8399c 0012 01 0d 0000000000000077 0000000000000030 01 5a
    19215464 297a826c 0008 01 13 0000000000000077
    0e5b35f2 4dae4ca3 0008 01 10 0000000000000022
"""


def test_the_native_layout_has_not_changed() -> None:
    golden = bytes.fromhex(_OURS)
    header = FileHeader(JournalLayout.NATIVE, 7, b"saltsalt", 123456789, 0x66)
    assert parse_file_header(golden, "a file") == header
    data = header.pack()
    for record in (*FIRST_RECORDS, *SECOND_RECORDS):
        data += pack_record(record, header, len(data))
    assert data == golden
    scan = scan_records(golden + bytes(100), header)
    assert (scan.record_count, scan.end, scan.gaps) == (11, len(golden), [])


def test_version_1_of_the_native_layout_is_refused_by_name(tmp_path: Path) -> None:
    data = bytearray(bytes.fromhex(_OURS))
    data[8:12], data[60:64] = (1).to_bytes(4), bytes(4)
    data[60:64] = crc32c(bytes(data[:60])).to_bytes(4)
    (tmp_path / "journal-7.jnl").write_bytes(data.ljust(2048, b"\0"))
    with pytest.raises(VersionError, match="version 1; 2 is known"):
        reload(tmp_path)
