"""The judge is believed by every state, so it is given logs in which each thing that it looks for is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

import binlog
from binlog import Ref, Writer
from stress.crash.expectation import (
    DRAFTS,
    TURNS,
    Expectation,
    Given,
    group_bounds,
    record_of,
    take_turn,
    turns_in,
)
from stress.crash.judge import Judge, compare
from stress.crash.marks import Mark, MarkKind, mark_of

SEED = "a seed"


def rec(writer: int, index: int) -> bytes:
    return record_of(SEED, writer, index)


def verdict(log: Path, *marks: Mark) -> list[str]:
    """What is wrong with the log, after a run with these marks."""
    expected = Expectation()
    for mark in marks:
        expected.add(mark, SEED)
    records = {
        rec(mark.writer, index): (mark.writer, index)
        for mark in marks
        if mark.kind is MarkKind.TRIED
        for index in range(mark.first, mark.first + mark.record_count)
    }
    judge = Judge(records, group_bounds(list(marks)), SEED, turns_in(list(marks)))
    return compare(judge.observe(log), expected.writers, expected.writers, expected.number_least)


def written(log: Path, *records: bytes) -> list[Ref]:
    with Writer(log, prepare_bytes=4096) as writer:
        return [writer.append(record) for record in records]


def tried(writer: int, first: int, count: int = 1) -> Mark:
    return Mark(MarkKind.TRIED, writer, first, count, None)


def told(writer: int, first: int, ref: Ref | None, count: int = 1) -> Mark:
    return Mark(MarkKind.ACKNOWLEDGED, writer, first, count, ref)


TRIED = [tried(0, 0), tried(0, 1, 2), tried(1, 0)]


def test_a_sound_log_is_silent(tmp_path: Path) -> None:
    one, two, three, _ = written(tmp_path / "log", rec(0, 0), rec(1, 0), rec(0, 1), rec(0, 2))
    assert verdict(tmp_path / "log", *TRIED, told(0, 0, one), told(1, 0, two), told(0, 1, three, 2)) == []


def test_no_log_at_all_is_silent_where_nothing_was_acknowledged(tmp_path: Path) -> None:
    assert verdict(tmp_path / "log", *TRIED) == []
    assert next(binlog.Reader(tmp_path / "log")).ref == Ref(1, 256)


@pytest.mark.parametrize(
    ("records", "text"),
    [
        ([], "1 records of writer 0 were acknowledged, 0 are there"),
        ([rec(0, 0), rec(0, 0)], "is record 0 of writer 0, expected was 1"),
        ([rec(0, 0), rec(0, 2), rec(0, 1)], "is record 2 of writer 0, expected was 1"),
        ([rec(0, 0), rec(0, 1)], "2 records of writer 0 are there, which is a part of one call's"),
        ([rec(0, 0), rec(0, 1)[:-1] + b"\0"], "a record that nobody appended"),
        ([rec(0, 0), rec(3, 0)], "a record that nobody appended"),
        ([rec(1, 0), rec(0, 0)], "was acknowledged at 1:256 and lies at"),
    ],
    ids=["lost", "twice", "out of order", "half a call", "torn", "somebody else's", "elsewhere"],
)
def test_what_is_wrong_is_told(tmp_path: Path, records: list[bytes], text: str) -> None:
    written(tmp_path / "log", *records)
    assert any(text in line for line in verdict(tmp_path / "log", *TRIED, told(0, 0, Ref(1, 256))))


def test_a_record_that_was_not_tried_yet_is_told(tmp_path: Path) -> None:
    written(tmp_path / "log", rec(0, 0))
    judge = Judge({rec(0, 0): (0, 0)}, {0: frozenset({0, 1})})
    assert compare(judge.observe(tmp_path / "log"), {}, {}, 0) == ["1 records of writer 0 are there, 0 were tried"]


def test_a_cutover_that_was_lost_is_told(tmp_path: Path) -> None:
    written(tmp_path / "log", rec(0, 0))
    cut_over = Mark(MarkKind.CUT_OVER, 0, 0, 0, Ref(2, 0))
    assert verdict(tmp_path / "log", *TRIED, cut_over) == ["the log goes on in file 1, and was cut over to 2"]


@pytest.mark.parametrize(("at", "text"), [(0, "CorruptError"), (79, "check before opening"), (124, "live-crc")])
def test_a_log_that_is_refused_is_told(tmp_path: Path, at: int, text: str) -> None:
    written(tmp_path / "log", rec(0, 0))
    path = tmp_path / "log" / "00000001.dat"
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    assert any(text in line for line in verdict(tmp_path / "log", *TRIED))


@pytest.mark.parametrize("mark", [tried(3, 4, 5), told(1, 2, Ref(3, 1 << 39)), told(1, 2, None, 7)])
def test_marks_survive_the_trace(mark: Mark) -> None:
    assert mark_of(mark.values) == mark


@pytest.mark.parametrize("source", [TURNS, DRAFTS])
@pytest.mark.parametrize("taken", [0, 1, 2])
def test_turns_that_are_taken_again_are_there_once(tmp_path: Path, source: int, taken: int) -> None:
    """taken: how many of them are in the log before."""
    log = tmp_path / "log"
    turns = [Given(source, 0, 0, 3), Given(source, 1, 3, 1)]
    marks = [tried(source, each.first, each.count) for each in turns]
    with Writer(log, prepare_bytes=4096) as writer:
        for each in turns[:taken]:
            first = each.first
            for count, ref in take_turn(writer, log, SEED, each):
                marks.append(told(source, first, ref, count))
                first += count
    assert turns_in(marks) == turns
    assert verdict(log, *marks) == []


@pytest.mark.parametrize(
    ("source", "there", "is_told"),
    [
        (TURNS, [rec(TURNS, 0)], True),
        # A reader may see the first file of an ingest, which has one record, before a writer has finished it.
        (DRAFTS, [rec(DRAFTS, 0)], False),
        (DRAFTS, [rec(DRAFTS, 0), rec(DRAFTS, 1)], True),
        (DRAFTS, [rec(DRAFTS, 0), rec(0, 0)], True),  # whoever appends has finished it
    ],
)
def test_half_of_a_turn_that_is_taken_again_is_told(
    tmp_path: Path, source: int, there: list[bytes], is_told: bool
) -> None:
    log = tmp_path / "log"
    written(log, *there)
    wrong = verdict(log, tried(source, 0, 3), tried(0, 0))
    # In the end all files of it must be there, so it is told once more.
    assert sum("is a part of one call's" in line for line in wrong) == 1 + is_told
    assert any("of 3 records of turns that were taken again, the log has" in line for line in wrong)
