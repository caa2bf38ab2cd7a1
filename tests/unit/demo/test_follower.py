"""The follower's journal stores records together with the position after them."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest

from binlog import Reader, Start, Writer
from stress.demo.events import Key, key_of, make_record
from stress.demo.follower import Journal, describe, read_journal


@pytest.fixture
def log(tmp_path: Path) -> Path:
    log = tmp_path / "log"
    with Writer(log) as writer:
        for sequence in range(20):
            writer.append(make_record({"path": "/a/b", "line": 1, "text": "x" * sequence}, writer=0, sequence=sequence))
            if sequence == 9:
                writer.cutover()
    return log


def follow(log: Path, path: Path, count: int | None) -> None:
    journal = Journal(path)
    with Reader(log, journal.start) as reader:
        for entry in itertools.islice(reader, count):
            journal.add(key_of(entry.data), reader.next_ref)
    journal.store()


def keys(log: Path) -> list[Key]:
    with Reader(log) as reader:
        return [key_of(entry.data) for entry in reader]


def test_a_new_journal_begins_at_the_beginning(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    assert (journal.start, journal.count) == (Start.BEGINNING, 0)


@pytest.mark.parametrize("first", [1, 9, 10, 11, 20])
def test_a_stopped_follower_resumes_after_its_last_record(tmp_path: Path, log: Path, first: int) -> None:
    path = tmp_path / "journal"
    follow(log, path, first)
    assert Journal(path).count == first
    follow(log, path, None)
    assert read_journal(path) == Counter(keys(log))


@pytest.mark.slow
def test_a_torn_line_is_read_again(tmp_path: Path, log: Path) -> None:
    """The follower is stopped at every byte that it wrote."""
    whole = tmp_path / "whole"
    follow(log, whole, None)
    data = whole.read_bytes()
    for size in range(0, len(data), 7):
        path = tmp_path / "journal"
        path.write_bytes(data[:size])
        follow(log, path, None)
        assert path.read_bytes() == data


def test_a_record_is_shown_on_one_line(log: Path) -> None:
    with Reader(log) as reader:
        *_, last = reader
    assert describe(last).split() == [str(last.ref), "writer", "0", "#19", "/a/b:1", "x" * 19]


def test_shown_records_have_no_control_characters(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        writer.append(make_record({"path": "/a\n", "line": 1, "text": "\x1b[2J\r"}, writer=0, sequence=0))
    with Reader(tmp_path) as reader:
        assert describe(next(reader)).isprintable()
