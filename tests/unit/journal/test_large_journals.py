"""Journals of very many records, and records with very many updates: costs grow linearly."""

from __future__ import annotations

import gc
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from binlog.journal.journal import Journal
from binlog.journal.lifecycle import collector_paused
from binlog.journal.options import Sync
from tests.support.journals import SMALL, ids, journal, reload

LARGE = replace(SMALL, file_bytes=1 << 20)


def test_a_location_is_a_number_until_an_update_makes_it_a_list(tmp_path: Path) -> None:
    with journal(tmp_path, LARGE) as (opened, _):
        opened.append_add(1, 1, b"", sync=Sync.LATER)
        assert type(opened._ledger.records[1]) is int
        opened.append_update(1, 1, b"", sync=Sync.LATER)
        places = opened._ledger.records[1]
        for _ in range(3000):
            opened.append_update(1, 1, b"", sync=Sync.LATER)
        assert opened._ledger.records[1] is places
        opened.append_add(2, 1, b"")
    assert ids(reload(tmp_path, LARGE)) == [1] * 3002 + [2]
    with journal(tmp_path, LARGE) as (opened, _):
        opened.append_delete(1)
    assert ids(reload(tmp_path, LARGE)) == [2]


def test_an_id_added_twice_by_another_program_is_loaded_twice(tmp_path: Path) -> None:
    """Other programs may write two adds of an id; one delete removes both."""
    with journal(tmp_path) as (opened, _):
        for number in (1, 2, 1, 3):
            opened._append(11, 0, number, 1, b"%d" % number, b"")
            opened._guard.changing = False
    assert ids(reload(tmp_path)) == [1, 2, 1, 3]
    with journal(tmp_path) as (opened, _):
        opened.append_delete(1)
    assert ids(reload(tmp_path)) == [2, 3]


def test_the_collector_resumes_as_it_was() -> None:
    assert gc.isenabled()
    with suppress(KeyError), collector_paused():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_journal_that_is_loaded_leaves_the_collector_running(tmp_path: Path) -> None:
    with Journal(tmp_path, SMALL) as opened:
        opened.load()
        assert gc.isenabled()
