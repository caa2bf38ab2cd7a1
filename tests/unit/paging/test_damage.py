"""Damaged pages and acknowledgements: they are reported and kept, and nothing else is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from binlog.format.paging.acks_file import ACK_RECORD, ACKS_HEADER
from binlog.format.paging.page_record import PAGE_END, PageEnd, pack_page_end
from binlog.paging.inspection import check_paging
from tests.support.journals import flip
from tests.support.paging import (
    ADDRESS,
    depage_pages,
    flattened,
    numbered_messages,
    page_all,
    page_files,
    page_messages,
    paging,
    read_all,
    read_run,
)

_STARTS = {"zeros": bytes(40), "a sector": bytes(512), "another": b"x" * 40, "begun": b"BINLOGPG" + bytes(32)}


@pytest.mark.parametrize("start", _STARTS.values(), ids=_STARTS)
@pytest.mark.parametrize("by_cursor", [False, True])
def test_a_page_without_a_header_is_reported_and_quarantined(tmp_path: Path, start: bytes, *, by_cursor: bool) -> None:
    with paging(tmp_path) as (_, store):
        store.start_paging()
        page_all(store, numbered_messages(20))
        file, *others = page_files(store)
        first = len(page_messages(store.pages[0]))
    with file.open("r+b") as opened:
        opened.write(start)
    damaged = file.read_bytes()
    assert [problem.path for problem in check_paging(tmp_path)] == [str(file)]
    with paging(tmp_path) as (_, store):
        assert [problem.path for problem in store.problems] == [str(file)]
        assert page_files(store) == [file, *others]
    with paging(tmp_path) as (opened_paging, store):
        if by_cursor:
            cursor = opened_paging.manager.cursor(ADDRESS)
            found = read_all(cursor)
        else:
            found = flattened(depage_pages(store))
        assert found == numbered_messages(20)[first:]
        opened_paging.manager.drain()
        assert len(store.problems) == 1
    assert not file.exists()
    assert file.with_suffix(".invalidPage").read_bytes() == damaged


def test_a_page_of_nothing_but_zeros_was_never_written(tmp_path: Path) -> None:
    with paging(tmp_path) as (_, store):
        store.start_paging()
        page_all(store, numbered_messages(3))
        (file,) = page_files(store)
    file.write_bytes(bytes(file.stat().st_size))
    assert check_paging(tmp_path) == []
    with paging(tmp_path) as (_, store):
        assert store.problems == []
        assert page_files(store) == []


def test_a_page_end_that_contradicts_the_size_is_not_trusted(tmp_path: Path) -> None:
    """Each message that a page claims to have takes a byte of memory."""
    with paging(tmp_path) as (_, store):
        store.start_paging()
        page_all(store, numbered_messages(3))
        page, file = store.pages[0], page_files(store)[0]
    assert page.header is not None
    at = file.stat().st_size - PAGE_END.size
    many = (1 << 32) - 1
    for end in (PageEnd(many, 0), PageEnd(0, 0), PageEnd(many, page.message_bytes), PageEnd(3, 1)):
        with file.open("r+b") as opened:
            opened.seek(at)
            opened.write(pack_page_end(end, page.header, at))
        assert [(problem.path, problem.rule) for problem in check_paging(tmp_path)] == [(str(file), "page_end")]
        with paging(tmp_path) as (opened_paging, store):
            assert [problem.rule for problem in store.problems] == ["page_end"]
            cursor = opened_paging.manager.cursor(ADDRESS)
            with pytest.raises(ValueError, match="has no messages"):
                cursor.ack(1 << 32 | many - 1)
            assert read_run(cursor).messages == numbered_messages(3)


def _page_with_acks(path: Path) -> Path:
    """Create a page in which every other message was acknowledged, and return the file that says so."""
    with paging(path) as (opened, store):
        store.start_paging()
        page_all(store, numbered_messages(10))
        cursor = opened.manager.cursor(ADDRESS)
        for number in range(0, 10, 2):
            cursor.ack(1 << 32 | number)
        file = page_files(store)[0]
    return file.with_suffix(".acks")


@pytest.mark.parametrize("number", [0, 2, 4])
def test_a_damaged_acknowledgement_is_reported_and_its_message_redelivered(tmp_path: Path, number: int) -> None:
    acks = _page_with_acks(tmp_path)
    flip(acks, ACKS_HEADER.size + number * ACK_RECORD.size + 5)
    damaged = acks.read_bytes()
    for _ in range(2):
        assert [(problem.path, problem.rule) for problem in check_paging(tmp_path)] == [(str(acks), "ack_record")]
        with paging(tmp_path) as (opened, store):
            again = sorted({2 * number, 1, 3, 5, 7, 9})
            assert read_all(opened.manager.cursor(ADDRESS)) == [numbered_messages(10)[each] for each in again]
            assert [(problem.path, problem.rule) for problem in store.problems] == [(str(acks), "ack_record")]
    assert acks.read_bytes() == damaged
    with paging(tmp_path) as (opened, store):
        assert len(read_all(opened.manager.cursor(ADDRESS))) == 6
        for each in again:
            opened.manager.cursor(ADDRESS).ack(1 << 32 | each)
        opened.manager.drain()
        assert page_files(store) == []
        assert not acks.exists()
    assert check_paging(tmp_path) == []


def test_acknowledgements_of_another_page_are_reported_and_quarantined(tmp_path: Path) -> None:
    acks = _page_with_acks(tmp_path)
    flip(acks, 9)
    damaged = acks.read_bytes()
    assert [problem.rule for problem in check_paging(tmp_path)] == ["acks_header"]
    with paging(tmp_path) as (opened, store):
        assert read_all(opened.manager.cursor(ADDRESS)) == numbered_messages(10)
        assert [(problem.path, problem.rule) for problem in store.problems] == [(str(acks), "acks_header")]
        opened.manager.cursor(ADDRESS).ack(1 << 32 | 3)
    aside = acks.with_suffix(".invalidAcks")
    assert aside.read_bytes() == damaged
    assert [(problem.path, problem.rule) for problem in check_paging(tmp_path)] == [(str(aside), "quarantine")]
    with paging(tmp_path) as (opened, _):
        assert read_all(opened.manager.cursor(ADDRESS)) == [
            message for number, message in enumerate(numbered_messages(10)) if number != 3
        ]


@pytest.mark.parametrize("left", [0, 7, 32, 32 + 24, 32 + 24 + 7])
@pytest.mark.parametrize("grown_by", [0, 100])
def test_torn_acknowledgements_are_not_damage(tmp_path: Path, left: int, grown_by: int) -> None:
    acks = _page_with_acks(tmp_path)
    os.truncate(acks, left)
    if grown_by and left in (0, 32, 32 + 24):  # zeros, as after a write that never reached the disk
        os.truncate(acks, left + grown_by)
    there = 0 if left < 32 + 24 else 1
    assert check_paging(tmp_path) == []
    with paging(tmp_path) as (opened, store):
        assert read_all(opened.manager.cursor(ADDRESS)) == numbered_messages(10)[there:]
        assert store.problems == []
    with paging(tmp_path) as (opened, store):
        for number in range(there, 10):
            opened.manager.cursor(ADDRESS).ack(1 << 32 | number)
        assert read_all(opened.manager.cursor(ADDRESS)) == []
        opened.manager.drain()
        assert page_files(store) == []
