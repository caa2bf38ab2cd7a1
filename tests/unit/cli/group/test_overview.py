"""`binlog group ls`, `stat`, `peek`, `log` and `check`; and groups in `binlog stat`, `check` and `monitor`."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from binlog import Writer
from binlog.cli.group import GroupCommands
from binlog.cli.main import main
from binlog.consumers import ConsumerGroup, GroupControl
from binlog.format.consumers.message import Message
from tests.unit.cli.run_command import Terminal, fill, run

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
GROUP = "billing"


@pytest.fixture
def worked(log: Path) -> Path:
    """A log with six messages; a group has done 0, rejected 1, failed 2, and has not had the others."""
    fill(log, [b"%d" % number for number in range(6)])
    with ConsumerGroup(log, GROUP) as group:
        for item in group.consume(timeout=0.1, prefetch=0):
            if item.sequence == 0:
                item.ack()
            elif item.sequence == 1:
                item.reject("bad amount")
            else:
                item.nack(delay=3600, error="no answer")
                break
        assert group.get(timeout=0) is not None  # makes the dead letter; then the message goes back
    return log


def _say(capfd: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    capfd.readouterr()
    assert main([*map(str, arguments)]) == code
    captured = capfd.readouterr()
    return captured.out if code == 0 else captured.out + captured.err


def _objects(capfd: pytest.CaptureFixture[str], *arguments: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _say(capfd, *arguments, "--json").splitlines()]


@pytest.mark.parametrize("name", GroupCommands("group").list_commands(None))  # type: ignore[arg-type]
def test_every_command_has_help(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    message = _say(capfd, "group", name, "--help")
    assert message.startswith(f"Usage: binlog group {name} ")
    assert "DIR" in message


def test_ls_has_a_line_for_each_group(worked: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ConsumerGroup(worked, "audit").close()
    head, audit, billing = _say(capfd, "group", "ls", worked).splitlines()
    assert head.split()[:3] == ["GROUP", "MEMBERS", "LAG"]
    assert audit.split()[:3] == ["audit", "0", "6"]
    assert billing.split()[:3] == ["billing", "0", "4"]
    found = _objects(capfd, "group", "ls", worked)
    assert [(each["name"], each["lag"], each["dead_letters"], each["problem"]) for each in found] == [
        ("audit", 6, 0, None), ("billing", 4, 1, None),
    ]  # fmt: skip


def test_ls_of_a_log_without_groups_says_so(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(log, [b"one"])
    assert _say(capfd, "group", "ls", log) == "no groups\n"
    assert _objects(capfd, "group", "ls", log) == []


def test_a_group_that_cannot_be_read_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path, [b"one"])
    ConsumerGroup(tmp_path, GROUP).close()
    with Writer(tmp_path / "groups" / GROUP) as writer:
        writer.append(b"hello")
    assert "no operation of this group" in _say(capfd, "group", "ls", tmp_path, code=1)
    assert "no operation of this group" in _say(capfd, "group", "stat", tmp_path, GROUP, code=3)
    assert "no operation of this group" in _say(capfd, "group", "check", tmp_path, GROUP, code=1)
    assert "no operation of this group" in _say(capfd, "check", tmp_path, code=1)
    assert "no operation of this group" in _say(capfd, "stat", tmp_path)
    assert "no operation of this group" in _say(capfd, "monitor", "--once", tmp_path)


def test_stat_shows_items_members_and_settings(worked: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with ConsumerGroup(worked, GROUP) as group:
        item = group.get()
        assert item is not None
        lines = _say(capfd, "group", "stat", worked, GROUP).splitlines()
    assert lines[0].startswith(f"{GROUP}: floor 2, next 5, lag 4 messages since ")
    assert lines[1] == "ready 1, delayed 1, blocked 0, in hand 1, dying 0; dead letters 1"
    assert lines[2].startswith(f"oldest in hand: message {item.sequence}, delivery 1, seat ")
    assert lines[3].startswith("next due 20")
    assert any(line.startswith("settings: deliveries-max 10, first 1 s, factor 2, most 3600 s") for line in lines)
    member = lines[-1].split()
    assert (member[2], member[3], member[4]) == (str(item.sequence), "alive", "pid")
    (found,) = _objects(capfd, "group", "stat", worked, GROUP)
    assert (found["floor"], found["delayed"], found["dead_letters"], found["settings"]["order"]) == (2, 1, 1, "none")


def test_stat_at_a_time_shows_the_past(worked: Path, capfd: pytest.CaptureFixture[str]) -> None:
    at = datetime.fromtimestamp(time.time(), UTC).isoformat()
    with GroupControl(worked, GROUP) as control:
        control.reset("end")
    assert _say(capfd, "group", "stat", worked, GROUP).startswith(f"{GROUP}: floor 6, next 6, lag 0 messages\n")
    then = _say(capfd, "group", "stat", worked, GROUP, "--at", at)
    assert then.startswith(f"{GROUP}: floor 2, next 4, lag 4 messages\n")
    assert "not a time" in _say(capfd, "group", "stat", worked, GROUP, "--at", "nonsense", code=2)


def test_peek_shows_messages_without_taking_any(worked: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Writer(worked) as writer:
        writer.append(Message(body=b"\xff", key=b"k", headers={"a": b"b"}).pack())
    head, *rows = _say(capfd, "group", "peek", worked, GROUP).splitlines()
    assert head.split() == ["SEQUENCE", "STATUS", "DELIVERY", "SEAT", "DUE", "MESSAGE"]
    assert [row.split()[:3] for row in rows] == [
        ["2", "delayed", "1"], ["3", "ready", "0"], ["4", "new", "0"], ["5", "new", "0"], ["6", "new", "0"],
    ]  # fmt: skip
    found = _objects(capfd, "group", "peek", worked, GROUP, "--new", "--delayed")
    statuses = [(each["sequence"], each["status"]) for each in found]
    assert statuses == [(2, "delayed"), (4, "new"), (5, "new"), (6, "new")]
    assert (found[0]["text"], found[0]["delivery"], found[0]["key"]) == ("2", 1, None)
    assert (found[3]["base64"], found[3]["key"], found[3]["headers"]) == ("/w==", "k", {"a": "b"})
    assert len(_objects(capfd, "group", "peek", worked, GROUP, "-n", 1)) == 1
    assert _say(capfd, "group", "peek", worked, GROUP, "--dying") == "no messages\n"


def test_log_tells_the_story_of_a_message(worked: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = _objects(capfd, "group", "log", worked, GROUP, "--item", 1)
    assert [each["what"] for each in found] == ["window", "start", "reject", "dying", "assign", "dead"]
    assert found[-1]["detail"] == "bad amount"
    moment = datetime.fromisoformat(found[-1]["time"])
    assert abs(moment.timestamp() - time.time()) < 600
    lines = _say(capfd, "group", "log", worked, GROUP, "--item", 2).splitlines()
    assert lines[2].endswith("no answer")
    assert "message 2, delivery 1: again after 3600.000 s: no answer" in lines[2]
    assert [line.split()[2] for line in lines] == ["window", "start", "nack"]


def test_log_prints_all_or_the_last_events(worked: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = _say(capfd, "group", "log", worked, GROUP).splitlines()
    assert [line.split()[:3] for line in lines[:2]] == [["-", "-", "create"], ["-", "-", "boot"]]
    assert [line.split()[2] for line in lines[-2:]] == ["leave", "return"]
    assert _say(capfd, "group", "log", worked, GROUP, "-n", 3).splitlines() == lines[-3:]


def test_check_is_silent_on_sound_groups(worked: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for arguments in (["group", "check", worked], ["group", "check", worked, GROUP], ["check", worked]):
        assert _say(capfd, *arguments) == "no problems found\n"


def test_stat_and_monitor_of_the_log_have_a_line_for_each_group(
    worked: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = "lag 4 messages, 0 s, 0 members, 0 in hand, 1 delayed, 1 dead letter"
    assert _say(capfd, "stat", worked).splitlines()[-1].replace("1 s", "0 s") == f"group {GROUP}: {text}"
    assert f"group {GROUP} lag 4 messages, " in _say(capfd, "monitor", "--once", worked)
    for command in (["stat"], ["monitor", "--once"]):
        (found,) = _objects(capfd, *command, worked)
        assert [(group["name"], group["lag"]) for group in found["groups"]] == [(GROUP, 4)]


@pytest.mark.slow
def test_the_screen_of_monitor_shows_groups(worked: Path) -> None:
    with Terminal("monitor", "--once", worked) as terminal:
        rows = [line.split() for line in _COLOURS.sub("", terminal.read_rest().decode()).splitlines()]
        assert [row[1] for row in rows if row[:1] == [GROUP]] == ["4"]


@pytest.mark.parametrize("name", ["stat", "peek", "log", "check"])
def test_a_group_that_does_not_exist_cannot_be_opened(log: Path, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    fill(log, [b"one"])
    assert "no consumer group 'none'" in _say(capfd, "group", name, log, "none", code=3)


@pytest.mark.slow
def test_a_pipe_gets_the_same(worked: Path, capfd: pytest.CaptureFixture[str]) -> None:
    done = run("group", "peek", worked, GROUP, "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == _say(capfd, "group", "peek", worked, GROUP, "--json")
