"""Checking a group: its operations against checkpoints, messages and dead letters."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

import binlog
from binlog import Problem, Reader, Writer, check, file_sizes, prune, repair
from binlog.consumers import ConsumerGroup, GroupControl, check_group, drop_dead_letters, stat_group
from binlog.consumers.state import group_log as log_of_group
from binlog.consumers.state.state_reader import Checkpoint, StateReader
from binlog.format.consumers.operation import MARK, Kind, Operation, group_seed, pack_operation
from tests.support.group_workers import Worker
from tests.support.waiting import until

GROUP = "billing"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log with ten messages and a group, for which every third one is a dead letter."""
    _append(tmp_path, 10)
    _work(tmp_path)
    return tmp_path


@pytest.fixture
def folder(log: Path) -> Path:
    """The group's directory."""
    return log / "groups" / GROUP


def _append(log: Path, count: int, text: str = "message") -> None:
    with Writer(log) as writer:
        writer.append_many([f"{text} {number}".encode() for number in range(count)])


def _work(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group:
        for item in group.consume(timeout=0):
            if item.sequence % 3:
                item.ack()
            else:
                item.reject("no")


def _rules(problems: list[Problem]) -> list[str]:
    return [problem.rule for problem in problems]


def test_a_group_that_worked_has_no_problems(log: Path) -> None:
    assert check_group(log, GROUP) == []
    assert check(log) == []


@pytest.mark.slow
def test_a_group_with_many_files_has_no_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_of_group, "_FILE_BYTES", 4096)
    for history_bytes in (1 << 20, 0):
        monkeypatch.setattr(log_of_group, "_HISTORY_BYTES", history_bytes)
        for _ in range(6):
            _append(tmp_path, 10)
            _work(tmp_path)
        assert check_group(tmp_path, GROUP) == []


@pytest.mark.slow
def test_after_a_reset_a_message_may_have_two_dead_letters(log: Path) -> None:
    with GroupControl(log, GROUP) as control:
        control.reset(0)
    _work(log)
    assert len(list(Reader(log / "groups" / GROUP / "dead"))) == 8
    assert check_group(log, GROUP) == []


@pytest.mark.slow
def test_a_dead_letter_that_was_retried_may_die_again(log: Path) -> None:
    with GroupControl(log, GROUP) as control:
        assert control.retry_dead([0, 3]) == []
    _work(log)
    assert stat_group(log, GROUP).dead_letters == 6
    assert check_group(log, GROUP) == []


@pytest.mark.slow
def test_it_is_silent_while_workers_are_killed(tmp_path: Path) -> None:
    _append(tmp_path, 50)
    with ExitStack() as stack:
        for number in range(3):
            worker = stack.enter_context(Worker(tmp_path, GROUP, hangs_at="message 40" if number == 1 else ""))
            assert check_group(tmp_path, GROUP) == []
            if number == 1:
                worker.kill()
        _append(tmp_path, 50)
        until(lambda: stat_group(tmp_path, GROUP).next == 100)
        assert check_group(tmp_path, GROUP) == []


def test_a_record_that_is_no_operation_is_reported(log: Path, folder: Path) -> None:
    with Writer(folder) as writer:
        ref = writer.append(b"hello")
    (problem,) = check_group(log, GROUP)
    assert (problem.path, problem.offset, problem.rule) == (
        str(folder / "00000001.dat"), ref.offset, "group_operation",
    )  # fmt: skip
    assert check(log) == [problem]


def test_a_checkpoint_that_differs_is_reported(log: Path, folder: Path) -> None:
    reader = StateReader.open(str(folder))
    reader.close()
    state, seed = reader.state, group_seed(reader.uuid)
    time_ns = state.clock_ns
    with Writer(folder) as writer:
        mark = writer.append(pack_operation(Operation(group_time_ns=time_ns, epoch=state.epoch, flags=MARK), seed))
        other = Checkpoint(mark, state.pack()[:-1] + b"?")
        operation = Operation(
            group_time_ns=time_ns, epoch=state.epoch, sections=[(Kind.CHECKPOINT, other.pack())]
        )  # fmt: skip
        writer.append(pack_operation(operation, seed))
    assert _rules(check_group(log, GROUP)) == ["group_state"]


def _replace(log: Path, count: int, text: str) -> None:
    """Put other files in place of the log's, as if an older copy had been restored and appended to."""
    for path in log.glob("0*"):
        path.unlink()
    _append(log, count, text)


def test_another_history_of_the_log_is_reported(log: Path) -> None:
    _replace(log, 10, "another")
    problems = check_group(log, GROUP)
    assert set(_rules(problems)) == {"group_window"}
    assert "another history" in problems[0].text


@pytest.mark.slow
def test_after_a_reset_another_history_is_right(log: Path) -> None:
    _replace(log, 10, "another")
    with GroupControl(log, GROUP) as control:
        control.reset("beginning")
    assert check_group(log, GROUP) == []
    _work(log)
    assert check_group(log, GROUP) == []


def test_an_older_copy_of_the_log_is_reported(log: Path) -> None:
    _replace(log, 5, "message")
    problems = check_group(log, GROUP)
    assert set(_rules(problems)) == {"group_window"}
    assert "older copy" in problems[-1].text


def test_messages_that_retention_removed_are_not_missed(log: Path) -> None:
    with Writer(log) as writer:
        writer.cutover()
        writer.append(b"later")
    assert prune(log, keep_bytes=0, ignore_groups=True)
    assert check_group(log, GROUP) == []


def test_a_missing_dead_letter_is_reported(log: Path, folder: Path) -> None:
    shutil.rmtree(folder / "dead")
    problems = check_group(log, GROUP)
    assert _rules(problems) == ["group_dead_letter"] * 4
    assert "message 0 a dead letter, which is missing" in problems[0].text


def test_a_second_dead_letter_of_a_message_is_reported(log: Path, folder: Path) -> None:
    with Reader(folder / "dead") as reader:
        letter = next(reader)
    with Writer(folder / "dead") as writer:
        ref = writer.append(letter.data)
    (problem,) = check_group(log, GROUP)
    assert (problem.offset, problem.rule) == (ref.offset, "group_dead_letter")
    assert "of message 0" in problem.text


@pytest.mark.slow
def test_dropped_dead_letters_are_not_missed(log: Path) -> None:
    assert len(drop_dead_letters(log, GROUP)) == 1
    assert check_group(log, GROUP) == []
    _append(log, 10)
    _work(log)
    assert check_group(log, GROUP) == []


def test_a_damaged_operation_is_reported_once_and_repaired(log: Path, folder: Path) -> None:
    path = folder / "00000001.dat"
    with open(path, "r+b") as file:
        file.seek(binlog.stat(folder).files[0].tail - 3)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    assert _rules(check_group(log, GROUP)) == ["index-crc"]
    assert _rules(check(log)) == ["index-crc"]
    assert repair(folder)
    assert _rules(check_group(log, GROUP)) == ["quarantined"]


def test_a_group_that_is_being_made_is_no_problem(log: Path) -> None:
    (log / "groups" / "other").mkdir()
    assert check_group(log, "other") == []
    assert check(log) == []


def test_a_file_in_place_of_a_group_is_a_problem(log: Path) -> None:
    (log / "groups" / "file").touch()
    (problem,) = check(log)
    assert (problem.path, problem.rule) == (str(log / "groups" / "file"), "unreadable")


def test_each_file_checked_alone_gives_the_problems_of_all(log: Path, folder: Path) -> None:
    with Writer(log) as writer:
        writer.cutover()
    with Writer(folder) as writer:
        writer.append(b"hello")
    assert len(check(log)) == 1
    assert [problem for number in file_sizes(log) for problem in check(log, number=number)] == check(log)


@pytest.mark.slow
def test_retries_and_deaths_leave_no_problem(tmp_path: Path) -> None:
    _append(tmp_path, 3)
    for _ in range(3):
        with Worker(tmp_path, GROUP, hangs_at="message 1") as worker:
            worker.until("got", "1")
            worker.kill()
    with ConsumerGroup(tmp_path, GROUP) as group:
        for item in group.consume(timeout=0.5):
            item.ack()
    assert stat_group(tmp_path, GROUP).dead_letters == 1
    assert check_group(tmp_path, GROUP) == []
