"""Records outside of transactions: loads return them, and invalid calls are refused."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from binlog.errors import FullError, NotFoundError, StateError
from binlog.format.journal.block import HEAD_BYTES
from binlog.format.journal.file_header import JournalLayout
from binlog.format.journal.record import JournalRecord, Kind, pack_record, record_bytes, record_end
from binlog.journal.options import Sync
from binlog.journal.record import Record
from tests.support.journals import (
    FILE_BYTES,
    LAYOUTS,
    SMALL,
    files,
    header_for,
    header_of,
    ids,
    journal,
    records_in,
    reload,
    write_file,
)
from tests.support.threads import at_once


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("numbers", [range(1, 60), [5, -3, 2**63 - 1, -(2**63), 0, 77]], ids=["row", "spread"])
def test_records_come_back_as_they_were_added(tmp_path: Path, layout: JournalLayout, numbers: list[int]) -> None:
    added = [Record(number, number & 0xFF, b"%d" % number * 9) for number in numbers]
    with journal(tmp_path, replace(SMALL, layout=layout)) as (opened, _):
        for record in added:
            opened.append_add(record.record_id, record.user_type, record.body, sync=Sync.LATER)
    loaded = reload(tmp_path)
    assert loaded.records == added
    assert loaded.id_max == max(numbers)
    with journal(tmp_path) as (opened, _):
        if loaded.id_max < 2**63 - 1:
            assert opened.new_id() == loaded.id_max + 1


def test_only_live_records_come_back_with_their_updates_after_them(tmp_path: Path) -> None:
    with journal(tmp_path) as (opened, _):
        for number in range(20):
            opened.append_add(number, 1, bytes(number), sync=Sync.LATER)
        for number in range(0, 20, 2):
            opened.append_update(number, 2, b"u" * (20 - number), sync=Sync.LATER)
        for number in range(0, 20, 3):
            opened.append_delete(number, sync=Sync.LATER)
        opened.append_update(4, 3, b"again")
    kept = [number for number in range(20) if number % 3]
    assert reload(tmp_path).records == [
        *(Record(number, 1, bytes(number)) for number in kept),
        *(Record(number, 2, b"u" * (20 - number), is_update=True) for number in kept if number % 2 == 0),
        Record(4, 3, b"again", is_update=True),
    ]


def test_an_id_can_be_used_again_once_its_record_is_deleted(tmp_path: Path) -> None:
    with journal(tmp_path) as (opened, _):
        for body in (b"1", b"2", b"3"):
            opened.append_add(1, 1, body)
            with pytest.raises(StateError, match="there is a record 1 already"):
                opened.append_add(1, 1, b"twice")
            assert not opened.try_append_add(1, 1, b"twice")
            if body != b"3":
                opened.append_delete(1)
    assert reload(tmp_path).records == [Record(1, 1, b"3")]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_record_that_fills_the_file_stays_in_it(tmp_path: Path, layout: JournalLayout, more: int) -> None:
    options = replace(SMALL, layout=layout)
    first = layout.header_bytes
    with journal(tmp_path, options) as (opened, _):
        opened.append_add(1, 1, b"x")
        used = record_end(first, record_bytes(Kind.ADD, 1, 0, layout), layout)
        left = FILE_BYTES - record_end(used, record_bytes(Kind.ADD, 0, 0, layout), layout)
        opened.append_add(2, 1, bytes(left + more))
        opened.append_add(3, 1, b"y")
    assert [each[4] for each in records_in(files(tmp_path)[0])] == ([1, 2] if more <= 0 else [1])
    assert ids(reload(tmp_path, options)) == [1, 2, 3]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_record_that_no_file_can_hold_is_refused(tmp_path: Path, layout: JournalLayout) -> None:
    options = replace(SMALL, layout=layout, buffer_bytes=100)
    most = FILE_BYTES - record_end(layout.header_bytes, record_bytes(Kind.ADD, 0, 0, layout), layout)
    with journal(tmp_path, options) as (opened, _):
        for size in (most + 1, FILE_BYTES, 100 * FILE_BYTES):
            with pytest.raises(FullError) as caught:
                opened.append_add(1, 1, bytes(size))
            assert caught.value.limit == most + record_bytes(Kind.ADD, 0, 0, layout)
        opened.append_add(1, 1, bytes(most))
        opened.append_add(2, 1, b"")
    assert [(record.record_id, len(record.body)) for record in reload(tmp_path, options).records] == [(1, most), (2, 0)]


@pytest.mark.parametrize("sync", list(Sync))
def test_an_unknown_id_is_refused_and_nothing_is_written(tmp_path: Path, sync: Sync) -> None:
    with journal(tmp_path) as (opened, _):
        opened.append_add_tx(9, 3, 1, b"only in a transaction")
        for number in (1, 2, 3):
            with pytest.raises(NotFoundError):
                opened.append_update(number, 1, b"", sync=sync)  # type: ignore[call-overload]
            with pytest.raises(NotFoundError):
                opened.append_delete(number, sync=sync)  # type: ignore[call-overload]
            assert not opened.try_append_update(number, 1, b"")
            assert not opened.try_append_delete(number)
        opened.rollback(9)
    assert [each[0] for each in records_in(files(tmp_path)[0])] == [Kind.ADD_TX, Kind.ROLLBACK]


def test_one_of_a_hundred_threads_deletes_a_record(tmp_path: Path) -> None:
    deleted: list[bool] = []
    ready = threading.Barrier(100)
    with journal(tmp_path) as (opened, _):
        opened.append_add(1, 1, b"")

        def delete() -> None:
            ready.wait()
            deleted.append(opened.try_append_delete(1))

        at_once(*[delete] * 100)
    assert sorted(deleted) == [False] * 99 + [True]
    loaded = reload(tmp_path)
    assert (loaded.records, loaded.problems) == ([], [])


@pytest.mark.parametrize("wrong", [(2**63, 1, b""), (-(2**63) - 1, 1, b""), (1, 256, b""), (1, -1, b"")])
def test_numbers_out_of_range_are_refused(tmp_path: Path, wrong: tuple[int, int, bytes]) -> None:
    with journal(tmp_path) as (opened, _):
        with pytest.raises(ValueError, match="out of range"):
            opened.append_add(*wrong)
        with pytest.raises(TypeError):
            opened.append_add(1, 1, "text")  # type: ignore[call-overload]
        opened.append_add(1, 1, bytearray(b"a buffer"))  # type: ignore[arg-type]
    assert reload(tmp_path).records == [Record(1, 1, b"a buffer")]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_record_of_another_use_of_the_file_does_not_count(tmp_path: Path, layout: JournalLayout) -> None:
    header = header_for(layout, 5)
    add = JournalRecord(Kind.ADD, 0, 1, 7, b"one")
    earlier = header._replace(file_id=4, salt=header.salt[::-1])
    write_file(
        tmp_path, header, [add, pack_record(add._replace(record_id=2), earlier, len(pack_record(add, header, 88)) + 88)]
    )
    assert ids(reload(tmp_path)) == [1]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_records_of_an_earlier_use_do_not_reappear(tmp_path: Path, layout: JournalLayout) -> None:
    options = replace(SMALL, layout=layout)
    with journal(tmp_path, options) as (opened, _):
        for number in range(40):
            opened.append_add(number, 1, b"from before" * 9, sync=Sync.LATER)
        for number in range(40):
            opened.append_delete(number, sync=Sync.LATER)
        opened.reclaim()
        for number in range(100, 250):
            opened.append_add(number, 1, bytes(10), sync=Sync.LATER)
    assert any(header_of(file).file_id != int(file.stem.partition("-")[2]) for file in files(tmp_path))
    used = [file for file in files(tmp_path) if any(each[4] >= 100 for each in records_in(file))]
    assert any(b"from before" * 9 in file.read_bytes()[records_in(file)[-1][2] :] for file in used)
    assert ids(reload(tmp_path, options)) == list(range(100, 250))


_HEAD = record_bytes(Kind.ADD, 0, 0, JournalLayout.JBM) - 4


@pytest.mark.parametrize(
    ("at", "data"),
    [
        (13, b"\xff\xff\xff\xff"),
        (13, b"\x7f\xff\xff\xff"),
        (13, b"\x00\x01\x00\x00"),
        (_HEAD + 3, b"\xff\xff\xff\xff"),
        (0, b"\0"),
        (1, b"\0\0\0\x09"),
    ],
    ids=["negative", "huge", "large", "check", "kind", "file id"],
)
def test_only_the_damaged_record_is_skipped_in_jboss_messagings_layout(tmp_path: Path, at: int, data: bytes) -> None:
    with journal(tmp_path, replace(SMALL, layout=JournalLayout.JBM)) as (opened, _):
        for number in range(5):
            opened.append_add(number, 1, b"abc")
    file = files(tmp_path)[0]
    start = records_in(file)[2][1]
    content = bytearray(file.read_bytes())
    content[start + at : start + at + len(data)] = data
    file.write_bytes(content)
    loaded = reload(tmp_path)
    assert ids(loaded) == [0, 1, 3, 4]
    assert [(problem.rule, problem.offset) for problem in loaded.problems] == [("gap", start)]
    with journal(tmp_path) as (opened, _):
        opened.append_add(6, 1, b"more")
        for number in (0, 1, 3, 4):
            opened.append_delete(number)
        opened.reclaim()
    assert ids(reload(tmp_path)) == [6]
    (kept,) = (tmp_path / "quarantine").iterdir()
    assert kept.read_bytes()[start:] == bytes(content)[start:]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_torn_last_record_is_skipped_and_overwritten(tmp_path: Path, layout: JournalLayout, cut: int) -> None:
    with journal(tmp_path, replace(SMALL, layout=layout)) as (opened, _):
        for number in range(5):
            opened.append_add(number, 1, b"abc")
    file = files(tmp_path)[0]
    end = records_in(file)[-1][2]
    content = bytearray(file.read_bytes())
    content[end - cut : end] = bytes(byte ^ 0xFF for byte in content[end - cut : end])
    file.write_bytes(content)
    loaded = reload(tmp_path)
    assert ids(loaded) == [0, 1, 2, 3]
    assert [problem.rule for problem in loaded.problems] == ["tail"]
    with journal(tmp_path) as (opened, again):
        assert not again.problems
        opened.append_add(5, 1, b"d")
    assert ids(reload(tmp_path)) == [0, 1, 2, 3, 5]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_truncated_file_is_read_up_to_its_end(tmp_path: Path, layout: JournalLayout) -> None:
    with journal(tmp_path, replace(SMALL, layout=layout)) as (opened, _):
        for number in range(30):
            opened.append_add(number, 1, bytes(150))
    file = files(tmp_path)[1]
    of_it = [each[4] for each in records_in(file)]
    file.write_bytes(file.read_bytes()[:1000])
    left = [each[4] for each in records_in(file)]
    loaded = reload(tmp_path)
    assert 0 < len(left) < len(of_it)
    assert ids(loaded) == [number for number in range(30) if number in left or number not in of_it]
    assert loaded.problems


@pytest.mark.slow
def test_records_are_found_with_any_alignment(tmp_path: Path) -> None:
    options = replace(SMALL, layout=JournalLayout.JBM, file_bytes=51200)
    number = 0
    for alignment in (1, 100, 512, 100, 1, 512, 1):
        with journal(tmp_path, replace(options, alignment=alignment)) as (opened, loaded):
            assert ids(loaded) == list(range(number))
            assert not loaded.problems
            for _ in range(5):
                opened.append_add(number, 1, bytes(number))
                number += 1
    assert ids(reload(tmp_path, options)) == list(range(number))
    aligned = [each for file in files(tmp_path) for each in records_in(file) if each[1] % 512 == 0]
    assert len(aligned) >= 10


def test_the_first_of_many_gaps_are_reported_one_by_one(tmp_path: Path) -> None:
    header = header_for(JournalLayout.NATIVE, 1)
    file = write_file(
        tmp_path, header, [JournalRecord(Kind.ADD, 0, number) for number in range(3000)], file_bytes=1 << 16
    )
    data = bytearray(file.read_bytes())
    for _, start, _, _, number, *_ in records_in(file):
        data[start + HEAD_BYTES] ^= number % 2
    file.write_bytes(data)
    loaded = reload(tmp_path, replace(SMALL, file_bytes=1 << 16))
    assert ids(loaded) == list(range(0, 3000, 2))
    gaps = [problem for problem in loaded.problems if problem.rule == "gap"]
    assert len(gaps) == 1001
    assert gaps[-1].text.startswith("499 more")
