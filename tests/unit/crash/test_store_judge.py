"""The judge of stores is believed by every state, so it is given stores with each thing wrong that it looks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from binlog.commitlog.message import Message
from binlog.commitlog.options import Flush
from binlog.commitlog.store import MessageStore
from binlog.storage.files import write_at
from stress.crash.store.inspection import Place, inspect
from stress.crash.store.judge import WRITERS, StoreJudging
from stress.crash.store.ledger import StoreLedger
from stress.crash.store.marks import Expectation, Mark, MarkKind, mark_of, offset_mark
from stress.crash.store.messages import message_of
from stress.crash.store.options import options

_NOWHERE = Place(0, 0)


def filled(path: Path, count: int = 8) -> list[Mark]:
    """A store that was closed, and the marks of who filled it."""
    marks = []
    with MessageStore(path, options(Flush.SYNC)) as store:
        for index in range(count):
            appended = store.append(message_of(0, index))
            place = Place(appended.offset, appended.queue_offsets[0])
            marks += [Mark(MarkKind.TRIED, 0, index, _NOWHERE), Mark(MarkKind.APPENDED, 0, index, place)]
        marks.append(offset_mark(MarkKind.DURABLE, store.max_offset))
    return marks


def verdict(path: Path, marks: list[Mark]) -> list[str]:
    judging = StoreJudging("", [])
    expected = judging.expectation()
    for mark in marks:
        judging.add(expected, mark.values)
    return judging.compare(judging.observe(path), expected, expected)


def log_file(path: Path) -> Path:
    (file,) = (path / "commitlog").iterdir()
    return file


def test_a_sound_store_is_silent(tmp_path: Path) -> None:
    assert verdict(tmp_path / "store", filled(tmp_path / "store")) == []


def test_no_store_at_all_is_silent_where_nothing_was_promised(tmp_path: Path) -> None:
    assert verdict(tmp_path / "store", []) == []


def test_a_promised_message_that_is_lost_is_told(tmp_path: Path) -> None:
    marks = filled(tmp_path)
    last = marks[-2].place
    file = log_file(tmp_path)
    data = bytearray(file.read_bytes())
    data[last.offset + 50] ^= 1
    file.write_bytes(data)
    (tmp_path / "abort").touch()
    assert verdict(tmp_path, marks) == [f"(0, 7), promised at {last}, is not there"]


def test_a_message_that_nobody_appended_is_told(tmp_path: Path) -> None:
    with MessageStore(tmp_path, options(Flush.SYNC)) as store:
        store.append(Message.of("orders", b"0:0:0:0"))
    assert any("nobody appended" in line for line in verdict(tmp_path, []))


def test_a_message_that_nobody_had_tried_yet_and_one_elsewhere_are_told(tmp_path: Path) -> None:
    marks = filled(tmp_path, 2)
    elsewhere = [mark._replace(place=Place(7, 7)) if mark.kind is MarkKind.APPENDED else mark for mark in marks[:2]]
    wrong = verdict(tmp_path, elsewhere)
    assert "(0, 1) is there, which nobody had tried yet" in wrong
    assert any(line.startswith("(0, 0) lies at ") for line in wrong)


def test_a_gap_in_a_writers_messages_is_told(tmp_path: Path) -> None:
    with MessageStore(tmp_path, options(Flush.SYNC)) as store:
        for index in (0, 2):
            store.append(message_of(0, index))
    marks = [Mark(MarkKind.TRIED, 0, index, _NOWHERE) for index in range(3)]
    assert verdict(tmp_path, marks) == ["message 2 of writer 0 is where 1 should be"]


def test_a_log_that_begins_elsewhere_is_told(tmp_path: Path) -> None:
    marks = filled(tmp_path)
    assert (
        verdict(tmp_path, [*marks, offset_mark(MarkKind.REMOVED, 100)])[0] == "the log begins at 0, not from 100 to 0"
    )


@pytest.fixture
def store(tmp_path: Path) -> MessageStore:
    filled(tmp_path)
    return MessageStore(tmp_path, options(Flush.SYNC))


def problems(store: MessageStore) -> list[str]:
    with store:
        return inspect(store, writers=WRITERS).problems


def test_a_unit_with_another_tag_is_told(store: MessageStore) -> None:
    file = store._queues.get("orders", 0)
    assert file is not None
    write_at(file.files.files[0]._file.fd, b"\1", 19, "")
    assert any("unit 0 of queue ('orders', 0)" in line for line in problems(store))


def test_a_queue_that_ends_early_is_told(store: MessageStore) -> None:
    queue = store._queues.get("orders", 0)
    assert queue is not None
    queue.files.truncate(20)
    assert any("queue ('orders', 0) has range(0, 1), and the log range(0," in line for line in problems(store))


def test_a_key_that_finds_nothing_is_told(store: MessageStore) -> None:
    (file,) = store._index._files
    write_at(file._fd, bytes(4 * 7), 40, "")  # the slots
    assert any("by the key of (0, 0), which lies at 0, is found []" in line for line in problems(store))


def test_what_lies_behind_the_end_is_told(store: MessageStore) -> None:
    write_at(store._log.files.files[-1]._file.fd, b"old", store.max_offset + 1000, "")
    assert any(line.endswith("3 bytes are not zero") for line in problems(store))


@pytest.mark.parametrize("mark", [Mark(MarkKind.APPENDED, 3, 4, Place(5, 6)), offset_mark(MarkKind.DURABLE, 1 << 40)])
def test_marks_survive_the_trace(mark: Mark) -> None:
    assert mark_of(mark.values) == mark


def test_an_expectation_goes_on_from_what_was_promised() -> None:
    expected = Expectation()
    for mark in (
        Mark(MarkKind.TRIED, 0, 0, _NOWHERE), Mark(MarkKind.APPENDED, 0, 0, Place(10, 0)),
        Mark(MarkKind.TRIED, 0, 1, _NOWHERE), Mark(MarkKind.APPENDED, 0, 1, Place(20, 0)),
        offset_mark(MarkKind.DURABLE, 20), offset_mark(MarkKind.REMOVING, 30), offset_mark(MarkKind.REMOVED, 5),
    ):  # fmt: skip
        expected.add(mark)
    again = Expectation()
    for mark in (*expected.possible(), *expected.promised()):
        again.add(mark)
    assert again == Expectation({(0, 0), (0, 1)}, {(0, 0): Place(10, 0)}, 20, 30, 5)


@pytest.mark.parametrize("flush", [Flush.SYNC, Flush.ASYNC])
def test_what_a_ledger_was_told_of_a_store_is_missed_where_it_is_not_there(tmp_path: Path, flush: Flush) -> None:
    ledger = StoreLedger(2, 20)
    with MessageStore(tmp_path, options(flush)) as store:
        ledger.writers[1].append(store, 0, 0, 0)
        contents = inspect(store, writers=WRITERS)
    assert ledger.compare(contents) == []
    del contents.messages[1, 1]
    (wrong,) = ledger.compare(contents)
    assert wrong.startswith("record 1 of writer 1, acknowledged at ")
    contents.start = contents.messages[1, 2].offset
    del contents.messages[1, 0]
    assert ledger.compare(contents) == []  # both were removed
