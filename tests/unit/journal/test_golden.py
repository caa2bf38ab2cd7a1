"""Files that the journal of JBoss Messaging wrote, byte for byte: ours writes the same, and loads them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from binlog.format.journal.file_header import JournalLayout
from binlog.journal.check import check_journal
from binlog.journal.record import Deleted, Loaded, Record, TransactionContent
from tests.support.journals import SMALL, journal, reload
from tests.unit.format.journal.test_record import FIRST_FILE, ID, SECOND_FILE

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


def test_the_calls_that_were_made_there_write_the_same_bytes(tmp_path: Path) -> None:
    with journal(tmp_path, _OPTIONS) as (opened, _):
        opened.append_add(ID, 7, b"AAAA")
        opened.append_update(ID, 8, b"BB")
        opened.append_add_tx(0x55, 0x21, 9, b"CCC")
        opened.append_update_tx(0x55, ID, 10, b"D")
        with opened._mutex:
            opened._appender.go_on()  # as was done there
        opened.append_add_tx(0x55, 0x22, 9, b"E")
        opened.commit(0x55)
        opened.append_delete_tx(0x66, 0x21, b"xx")
        opened.prepare(0x66, b"XID")
        opened.append_add_tx(0x77, 0x30, 1, b"Z")
        opened.rollback(0x77)
        opened.append_delete(0x22)
    assert {name: (tmp_path / name).read_bytes() for name in _FILES} == _FILES
    assert reload(tmp_path, _OPTIONS) == _LOADED


def test_what_was_written_there_is_loaded_and_gone_on_with(tmp_path: Path) -> None:
    for name, data in _FILES.items():
        (tmp_path / name).write_bytes(data)
    assert check_journal(tmp_path) == []
    assert reload(tmp_path) == _LOADED
    assert {name: (tmp_path / name).read_bytes() for name in _FILES} == _FILES
    with journal(tmp_path) as (opened, _):
        opened.commit(0x66)
    assert reload(tmp_path) == _LOADED._replace(
        records=[record for record in _LOADED.records if record.record_id == ID], prepared=[]
    )
