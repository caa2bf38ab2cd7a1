"""The commit log's checks find each violation that they are made for."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from binlog.commitlog.append.message import Message
from binlog.commitlog.store import MessageStore
from binlog.storage.files import write_at
from stress.crash.system import Crash, ProcessContext
from stress.crash.systems.commitlog.contents import Place, inspect, message_of
from stress.crash.systems.commitlog.system import CommitLogActor, CommitLogSystem, Mark, MarkKind, offset_mark
from tests.support.crash_harness import Marks, verdict

SYSTEM = CommitLogSystem()


def opened(path: Path) -> MessageStore:
    actor = SYSTEM.open(path, ProcessContext(Marks(), 0, random.Random(1)), "sync")
    return actor._store


def filled(path: Path, count: int = 8) -> list[Mark]:
    """Fill and close a store; return the marks."""
    marks = []
    with opened(path) as store:
        for index in range(count):
            appended = store.append(message_of(0, index))
            place = Place(appended.offset, appended.queue_offsets[0])
            marks += [Mark(MarkKind.TRIED, 0, index), Mark(MarkKind.APPENDED, 0, index, place)]
        marks.append(offset_mark(MarkKind.DURABLE, store.max_offset))
    return marks


def wrong_with(path: Path, marks: list[Mark]) -> list[str]:
    return verdict(SYSTEM, path, marks, Crash.POWER)


def log_file(path: Path) -> Path:
    (file,) = (path / "commitlog").iterdir()
    return file


def test_an_intact_store_has_no_violation(tmp_path: Path) -> None:
    assert wrong_with(tmp_path / "store", filled(tmp_path / "store")) == []


def test_no_store_has_no_violation_if_nothing_was_promised(tmp_path: Path) -> None:
    assert wrong_with(tmp_path / "store", []) == []


def test_a_lost_promised_message_is_found(tmp_path: Path) -> None:
    marks = filled(tmp_path)
    last = marks[-2].place
    file = log_file(tmp_path)
    data = bytearray(file.read_bytes())
    data[last.offset + 50] ^= 1
    file.write_bytes(data)
    (tmp_path / "abort").touch()
    assert wrong_with(tmp_path, marks) == [f"(0, 7), promised at {last}, is missing"]


@pytest.mark.slow
def test_only_messages_that_a_power_cut_replaced_may_be_missing(tmp_path: Path) -> None:
    """The lost message was not promised, and a later promise says nothing about it."""
    marks = filled(tmp_path / "store")
    end = marks[-1].place.offset
    taken = [Mark(MarkKind.TRIED, 1, 0), Mark(MarkKind.APPENDED, 1, 0, Place(end, 0))]
    with opened(tmp_path / "store") as store:
        store.append(message_of(2, 0))
        later = [Mark(MarkKind.TRIED, 2, 0), offset_mark(MarkKind.DURABLE, store.max_offset)]
    missing = Mark(MarkKind.APPENDED, 0, 9, Place(end - 1, 0))
    for name, told, wrong in (
        ("taken", [*taken, offset_mark(MarkKind.ENDED, end)], []),
        ("not taken", taken, [f"(1, 0), promised at {Place(end, 0)}, is missing"]),
        ("promised", [missing, offset_mark(MarkKind.ENDED, 0)], [f"(0, 9), promised at {missing.place}, is missing"]),
    ):
        copy = shutil.copytree(tmp_path / "store", tmp_path / name)
        assert wrong_with(copy, [*marks, *told, *later]) == wrong


def test_a_message_that_was_never_appended_is_found(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.append(Message.of("orders", b"0:0:0:0"))
    assert any("was never appended" in line for line in wrong_with(tmp_path, []))


def test_an_untried_message_and_one_at_another_offset_are_found(tmp_path: Path) -> None:
    marks = filled(tmp_path, 2)
    elsewhere = [mark._replace(place=Place(7, 7)) if mark.kind is MarkKind.APPENDED else mark for mark in marks[:2]]
    wrong = wrong_with(tmp_path, elsewhere)
    assert "(0, 1) is in the log, but was not tried, or was refused" in wrong
    assert any(line.startswith("(0, 0) is at ") for line in wrong)


def test_a_gap_in_a_writers_messages_and_a_refused_message_are_found(tmp_path: Path) -> None:
    marks = [Mark(MarkKind.TRIED, 0, index) for index in range(3)]
    with opened(tmp_path) as store:
        for index in (0, 2):
            store.append(message_of(0, index))
    seen = SYSTEM.observe(tmp_path, Marks(marks))
    assert seen.problems == []

    def wrong(*more: Mark) -> list[str]:
        expected = SYSTEM.expect(Marks([*marks, *more]))
        return SYSTEM.compare(seen, expected, expected, Crash.POWER)

    assert wrong() == []
    placed = Mark(MarkKind.APPENDED, 0, 1, Place(300, 0))
    assert wrong(placed) == ["message 1 of writer 0 is missing, but 2 is there"]
    refused = Mark(MarkKind.REFUSED, 0, 2)
    assert wrong(refused) == ["(0, 2) is in the log, but was not tried, or was refused"]


def test_a_log_that_begins_elsewhere_is_found(tmp_path: Path) -> None:
    marks = filled(tmp_path)
    assert (
        wrong_with(tmp_path, [*marks, offset_mark(MarkKind.REMOVED, 100)])[0]
        == "the log begins at 0, not from 100 to 0"
    )


@pytest.fixture
def store(tmp_path: Path) -> MessageStore:
    filled(tmp_path)
    return opened(tmp_path)


def problems(store: MessageStore) -> list[str]:
    with store:
        return inspect(store).problems


def test_a_unit_with_another_tag_is_found(store: MessageStore) -> None:
    file = store._queues.get("orders", 0)
    assert file is not None
    with file.files.files[0]._file.open() as fd:
        write_at(fd, b"\1", 19, "")
    assert any("unit 0 of queue ('orders', 0)" in line for line in problems(store))


def test_a_queue_that_ends_early_is_found(store: MessageStore) -> None:
    queue = store._queues.get("orders", 0)
    assert queue is not None
    queue.files.truncate(20)
    assert any("queue ('orders', 0) has range(0, 1), but the log range(0," in line for line in problems(store))


def test_a_key_that_finds_nothing_is_found(store: MessageStore) -> None:
    (file,) = store._index._files
    write_at(file._fd, bytes(4 * 7), 40, "")  # the slots
    assert any("the key of (0, 0), at 0, finds []" in line for line in problems(store))


def test_bytes_after_the_end_are_found(store: MessageStore) -> None:
    with store._log.files.files[-1]._file.open() as fd:
        write_at(fd, b"old", store.max_offset + 1000, "")
    assert any(line.startswith("3 bytes after the end") for line in problems(store))


@pytest.mark.parametrize("variant", SYSTEM.variants)
def test_an_append_that_returned_is_missed_after_a_kill(tmp_path: Path, variant: str) -> None:
    marks = Marks()
    actor = SYSTEM.open(tmp_path, ProcessContext(marks, 1, random.Random(1)), variant)
    CommitLogActor.several(actor)
    expected = SYSTEM.expect(marks)
    expected.died()
    assert expected.promised == 3
    actor.close()
    seen = SYSTEM.observe(tmp_path, marks)
    assert [*seen.problems, *SYSTEM.compare(seen, expected, expected, Crash.KILL)] == []
    writer = next(iter(seen.messages))[0]
    place = seen.messages.pop((writer, 1))
    assert f"{(writer, 1)}, promised at {place}, is missing" in SYSTEM.compare(seen, expected, expected, Crash.KILL)
    assert SYSTEM.check_after_power_cut(seen, seen) == []
    marks += Marks([offset_mark(MarkKind.REMOVING, place.offset + 1)])
    seen.start = seen.messages.pop((writer, 0)).offset + place.offset + 1
    expected = SYSTEM.expect(marks)
    assert SYSTEM.compare(seen, expected, expected, Crash.KILL) == []  # both were removed
