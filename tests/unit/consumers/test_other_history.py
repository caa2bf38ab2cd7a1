"""A log that was restored from an older copy, and messages that were damaged, from the group's point of view."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import binlog
from binlog import ConsumerGroup, CorruptError, Message, Reader, Sequence, Start, Writer
from binlog.consumers import GroupControl, stat_group

GROUP = "billing"


def _consume(log: Path) -> list[bytes]:
    with ConsumerGroup(log, GROUP) as group:
        return [item.data for item in group.consume(timeout=0) if item.ack() is None]


def _restore(log: Path, copy: Path) -> None:
    """Put an older copy of the log in its place; the group stays."""
    for path in log.glob("0*"):
        path.unlink()
    for path in copy.glob("0*"):
        shutil.copy2(path, log / path.name)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of which a group has all eight messages, and that was restored to a copy with five of them."""
    log = tmp_path / "log"
    with Writer(log) as writer:
        writer.append_many([b"%d" % number for number in range(5)])
    shutil.copytree(log, tmp_path / "copy")
    with Writer(log) as writer:
        writer.append_many([b"%d" % number for number in range(5, 8)])
    assert len(_consume(log)) == 8
    _restore(log, tmp_path / "copy")
    return log


@pytest.mark.parametrize("later", [0, 1, 3, 5])
def test_an_older_copy_of_the_log_is_refused(log: Path, later: int) -> None:
    """Also if as many messages as before, or more, were appended to it since."""
    if later:
        with Writer(log) as writer:
            writer.append_many([b"another %d" % number for number in range(later)])
    with pytest.raises(CorruptError, match="reset the group") as caught:
        _consume(log)
    assert caught.value.rule == "other_history"
    assert stat_group(log, GROUP).counters.done == 8


@pytest.mark.slow
def test_after_a_reset_the_group_continues_with_the_older_copy(log: Path) -> None:
    with Writer(log) as writer:
        writer.append_many([b"another %d" % number for number in range(5)])
    with GroupControl(log, GROUP) as control:
        assert control.reset(5) == 5
    assert _consume(log) == [b"another %d" % number for number in range(5)]
    with GroupControl(log, GROUP) as control:
        assert control.reset(Start.BEGINNING) == 0
    assert len(_consume(log)) == 10
    with ConsumerGroup(log, GROUP) as group:
        assert group.reset(Sequence(9)) == 9
        assert [item.data for item in group.consume(timeout=0)] == [b"another 4"]


@pytest.mark.slow
def test_a_member_learns_of_an_older_copy_when_it_opens_the_group_again(log: Path, tmp_path: Path) -> None:
    with GroupControl(log, GROUP) as control:
        control.reset("beginning")
    assert len(_consume(log)) == 5
    shutil.rmtree(tmp_path / "copy")
    shutil.copytree(log, tmp_path / "copy", ignore=shutil.ignore_patterns("groups"))
    with Writer(log) as writer:
        writer.append(b"lost")
    assert _consume(log) == [b"lost"]
    _restore(log, tmp_path / "copy")
    with pytest.raises(CorruptError):
        _consume(log)


def _overwrite(log: Path, ref: binlog.Ref) -> None:
    """Damage the length of a record."""
    with open(log / f"{ref.number:08d}.dat", "r+b") as file:
        os.pwrite(file.fileno(), b"\xff\xff\xff\xff", ref.offset)


@pytest.mark.slow
def test_a_damaged_message_becomes_a_dead_letter_and_the_others_are_delivered(tmp_path: Path) -> None:
    log, count, damaged_one = tmp_path / "log", 1_500, 1_200
    with Writer(log) as writer:
        refs = writer.append_many([b"%0100d" % number for number in range(count)])
        writer.cutover()
        writer.append(b"in the next file")
    with ConsumerGroup(log, GROUP) as group:
        for _ in range(3):
            item = group.get(timeout=10)
            assert item is not None
            item.ack()
    _overwrite(log, refs[damaged_one])
    binlog.repair(log)
    assert {problem.rule for problem in binlog.check(log)} == {"quarantined"}
    found = _consume(log)
    letters = [Message.parse(entry.data) for entry in Reader(log / "groups" / GROUP / "dead")]
    assert letters
    assert {letter.headers["binlog-reason"] for letter in letters} == {b"damaged"}
    damaged = {int(letter.headers["binlog-sequence"]) for letter in letters}
    assert damaged_one in damaged
    assert 3 not in damaged
    expected = [b"%0100d" % number for number in range(3, count) if number not in damaged]
    assert found == [*expected, b"in the next file"]
    stat = stat_group(log, GROUP)
    assert (stat.floor, stat.counters.dead) == (count + 1, len(damaged))
