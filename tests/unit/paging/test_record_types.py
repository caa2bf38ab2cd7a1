"""Paging over a journal of JBoss Messaging, which numbered record types differently in 2008."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from binlog.compose import open_paging, open_queue
from binlog.errors import VersionError
from binlog.format.journal.file_header import JournalLayout
from binlog.format.paging.store_records import pack_page_transaction
from tests.support.journals import SMALL, journal

JBM = replace(SMALL, layout=JournalLayout.JBM)
# A page transaction, and the last page that was depaged; "q" as JBoss Messaging writes a name.
TRANSACTION = pack_page_transaction(77, 10)
LAST_PAGE = (3).to_bytes(8) + bytes.fromhex("00000001 0071")


def _file_contents(path: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in path.rglob("*") if each.is_file()}


@pytest.mark.parametrize(("user_type", "body"), [(34, TRANSACTION), (35, LAST_PAGE)])
@pytest.mark.parametrize("is_prepared", [False, True])
def test_a_journal_with_types_of_2008_is_refused_and_unchanged(
    tmp_path: Path, user_type: int, body: bytes, is_prepared: bool
) -> None:
    with journal(tmp_path / "journal", JBM) as (opened, _):
        opened.append_add_tx(5, 6, user_type, body)
        opened.prepare(5) if is_prepared else opened.commit(5)
        opened.append_add_tx(7, 8, 31, b"of a transaction that nobody ended")
    before = _file_contents(tmp_path)
    with pytest.raises(VersionError, match="2008"), open_paging(tmp_path, journal_options=JBM):
        pass
    with pytest.raises(VersionError, match="2008"):
        open_queue(tmp_path, journal_options=JBM)
    assert _file_contents(tmp_path) == before


def test_a_journal_with_later_types_is_accepted(tmp_path: Path) -> None:
    """In that journal 34 is an update of a message with its delivery count."""
    with journal(tmp_path / "journal", JBM) as (opened, _):
        opened.append_add(6, 31, b"message")
        opened.append_update(6, 34, pack_page_transaction(1, 2))
        opened.append_add(7, 35, TRANSACTION)
        opened.append_update(7, 35, pack_page_transaction(77, 9))
        opened.append_add(8, 34, pack_page_transaction(78, 1))
        opened.append_delete(8)
    with open_paging(tmp_path, journal_options=JBM) as (manager, _, _):
        assert dict(manager.transactions.counts) in ({77: 9}, {})


def test_type_34_of_our_layout_belongs_to_the_user(tmp_path: Path) -> None:
    with journal(tmp_path / "journal") as (opened, _):
        opened.append_add(6, 34, TRANSACTION)
    with open_paging(tmp_path, journal_options=SMALL) as (_, _, loaded):
        assert [record.user_type for record in loaded.records] == [34]
