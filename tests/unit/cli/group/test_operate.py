"""Commands of `binlog group` that change a group, end deliveries, or are about dead letters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from binlog import GoneError, LeaseLostError, Sequence
from binlog.cli.main import main
from binlog.consumers import ConsumerGroup, Item, Retry, peek, read_dead_letters, stat_group
from binlog.format.consumers.message import Message
from tests.unit.cli.run_command import fill

GROUP = "billing"


@pytest.fixture
def log(log: Path) -> Path:
    """A log with six messages."""
    fill(log, [b"%d" % number for number in range(6)])
    return log


def _say(capfd: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    capfd.readouterr()
    assert main(["group", *map(str, arguments)]) == code
    captured = capfd.readouterr()
    assert captured.err.count("\n") == (0 if code == 0 or captured.out else 1)
    return captured.out if code == 0 else captured.out + captured.err


def _object(capfd: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> dict[str, Any]:
    found = json.loads(_say(capfd, *arguments, "--json", code=code))
    assert isinstance(found, dict)
    return found


def _taken(group: ConsumerGroup) -> Item:
    item = group.get(timeout=10)
    assert item is not None
    return item


@pytest.mark.parametrize(
    ("start", "first"), [("beginning", 0), ("end", 6), ("3", 3), ("1:256", 0), ("1h", 0), ("2020-01-01", 0)]
)
def test_create_begins_at_a_place(log: Path, start: str, first: int, capfd: pytest.CaptureFixture[str]) -> None:
    said = _say(capfd, "create", log, GROUP, "--start", start)
    assert said == f"created {GROUP}, which begins with message {first}\n"
    assert stat_group(log, GROUP).next == first


def test_create_and_set_change_settings(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options = ["--deliveries-max", 3, "--first", "2s", "--order", "strict", "--holds", "7d", "--on-expiry", "drop"]
    found = _object(capfd, "create", log, GROUP, *options)["settings"]
    assert (found["deliveries_max"], found["first_ns"], found["order"]) == (3, 2 * 10**9, "strict")
    assert (found["holds_ns"], found["on_expiry"]) == (7 * 86400 * 10**9, "drop")
    found = _object(capfd, "set", log, GROUP, "--most", "1m", "--deliveries-max", 0, "--in-hand-max", 5)["settings"]
    assert (found["most_ns"], found["deliveries_max"], found["in_hand_max"]) == (60 * 10**9, 0, 5)
    assert (found["first_ns"], found["on_expiry"]) == (2 * 10**9, "drop")
    assert stat_group(log, GROUP).settings.retry == Retry(deliveries_max=None, first=2, most=60)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["create", "LOG", GROUP, "--start", "nonsense"], 2, "no sequence number"),
        (["create", "LOG", GROUP, "--start", "99"], 2, "sequence 99"),
        (["create", "LOG", GROUP, "--start", "1:300"], 2, "1:300"),
        (["create", "LOG", "a/b"], 2, "name"),
        (["create", "LOG", GROUP, "--holds", "nonsense"], 2, "holds"),
        (["create", "LOG", GROUP, "--order", "nonsense"], 2, "order"),
        (["create", "LOG", "exists"], 1, "already"),
        (["set", "LOG", "exists"], 2, "at least one setting"),
        (["set", "LOG", "exists", "--factor", "0"], 2, "factor"),
        (["set", "LOG", "none", "--factor", "3"], 3, "no consumer group 'none'"),
        (["reset", "LOG", "exists"], 2, "--to"),
        (["reset", "LOG", "exists", "--to", "99"], 2, "sequence 99"),
        (["release", "LOG", "exists", "7"], 1, "seat 7"),
        (["ack", "LOG", "exists", "nonsense"], 2, "token"),
        (["ack", "LOG", "exists", "0123456789abcdef-0-0-1"], 2, "another group"),
        (["retry", "LOG", "exists"], 2, "--all"),
        (["retry", "LOG", "exists", "--all", "3"], 2, "--all"),
        (["dead", "drop", "LOG", "exists"], 2, "--all"),
        (["dead", "retry", "LOG", "exists"], 2, "--all"),
        (["dead", "ls", "LOG", "exists", "--reason", "("], 2, "regular expression"),
        (["dead", "ls", "LOG", "none"], 3, "no consumer group 'none'"),
        (["take", "LOG", "none"], 3, "binlog group create"),
        (["work", "LOG", "none", "--", "true"], 3, "binlog group create"),
        (["work", "LOG", "exists", "--", "binlog-nonsense"], 2, "no such command"),
        (["work", "LOG", "exists"], 2, "COMMAND"),
        (["nonsense"], 2, "No such command"),
    ],
)
def test_wrong_arguments_have_a_code_and_one_line(
    log: Path, arguments: list[str], code: int, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    ConsumerGroup(log, "exists").close()
    error = _say(capfd, *(log if word == "LOG" else word for word in arguments), code=code)
    assert error.startswith("binlog: ")
    assert message in error
    if code != 3:
        assert not (log / "groups" / GROUP).exists()


def test_a_paused_group_delivers_nothing_until_it_is_resumed(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with ConsumerGroup(log, GROUP) as group:
        assert _object(capfd, "pause", log, GROUP) == {"paused": True}
        assert group.get(timeout=0) is None
        assert _say(capfd, "resume", log, GROUP) == ""
        assert _taken(group).sequence == 0


def test_a_reset_delivers_messages_again(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with ConsumerGroup(log, GROUP, start=Sequence(4)) as group:
        item = _taken(group)
        assert _say(capfd, "reset", log, GROUP, "--to", 2) == "the group continues with message 2\n"
        with pytest.raises(LeaseLostError):
            item.ack()
        assert [each.sequence for each in group.consume(timeout=0.1, prefetch=0) if each.ack() is None] == [2, 3, 4, 5]
        assert _object(capfd, "reset", log, GROUP, "--to", "end") == {"sequence": 6}


def test_a_reset_may_keep_what_is_outstanding(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with ConsumerGroup(log, GROUP) as group:
        assert _taken(group).sequence == 0
        _say(capfd, "reset", log, GROUP, "--to", 5, "--keep-outstanding")
        assert sorted(item.sequence for item in group.consume(timeout=0.1) if item.ack() is None) == [0, 5]


def test_release_takes_the_items_of_a_member(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with ConsumerGroup(log, GROUP) as group:
        item = _taken(group)
        (member,) = stat_group(log, GROUP).members
        assert _say(capfd, "release", log, GROUP, member.seat) == "released 1 message: 0\n"
        with ConsumerGroup(log, GROUP) as other:
            assert _taken(other).sequence == 0
            with pytest.raises(LeaseLostError):
                item.ack()
            (seat,) = [each.seat for each in stat_group(log, GROUP).members if each.in_hand]
            assert _object(capfd, "release", log, GROUP, seat) == {"sequences": [0]}


def test_a_deleted_group_is_gone_with_its_members(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    group = ConsumerGroup(log, GROUP)
    _taken(group)
    assert _object(capfd, "delete", log, GROUP) == {"deleted": True}
    with pytest.raises(GoneError):
        group.get(timeout=0)
    group.close()
    assert _say(capfd, "ls", log) == "no groups\n"
    assert "no consumer group" in _say(capfd, "delete", log, GROUP, code=3)


def test_a_token_ends_a_delivery_once(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with ConsumerGroup(log, GROUP) as group:
        done, failed, rejected = _taken(group), _taken(group), _taken(group)
        assert _say(capfd, "ack", log, GROUP, done.token) == ""
        assert "it is done" in _say(capfd, "ack", log, GROUP, done.token, code=1)
        assert _object(capfd, "nack", log, GROUP, failed.token, "--delay", "1h", "--error", "no answer") == {
            "token": failed.token, "what": "nack",
        }  # fmt: skip
        _say(capfd, "reject", log, GROUP, rejected.token, "--error", "bad")
        found = {item.sequence: (item.status.value, item.reason) for item in peek(log, GROUP, count=2)}
    assert found == {1: ("delayed", ""), 2: ("dying", "bad")}


def test_retry_ends_the_wait_of_messages(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with ConsumerGroup(log, GROUP) as group:
        for _ in range(4):
            _taken(group).nack(delay=3600)
        assert _say(capfd, "retry", log, GROUP, 1, 3, 5) == "delivering 2 messages now\n"
        assert _object(capfd, "retry", log, GROUP, "--all") == {"count": 2}
        assert stat_group(log, GROUP).delayed == 0


def test_retry_chooses_messages_by_key(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path, [Message(body=b"%d" % number, key=b"k%d" % (number % 2)).pack() for number in range(4)])
    with ConsumerGroup(tmp_path, GROUP) as group:
        for _ in range(4):
            _taken(group).nack(delay=3600)
        assert _object(capfd, "retry", tmp_path, GROUP, "--key", "k1") == {"count": 2}
        assert _object(capfd, "retry", tmp_path, GROUP, "--key", "k0", 2) == {"count": 1}
        assert _object(capfd, "retry", tmp_path, GROUP, "--key", "other") == {"count": 0}


def _reject_all(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group:
        for item in group.consume(timeout=0.1):
            item.reject("odd" if item.sequence % 2 else "even")


@pytest.mark.slow
def test_dead_letters_are_listed_and_printed(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ConsumerGroup(log, GROUP).close()
    assert _say(capfd, "dead", "ls", log, GROUP) == "no dead letters\n"
    _reject_all(log)
    head, *rows = _say(capfd, "dead", "ls", log, GROUP).splitlines()
    assert head.split() == ["SEQUENCE", "REF", "DIED", "DELIVERIES", "DEATHS", "REASON", "MESSAGE"]
    assert [(row.split()[0], row.split()[-2:]) for row in rows[:2]] == [("0", ["even", "0"]), ("1", ["odd", "1"])]
    assert len(rows) == 6
    said = _say(capfd, "dead", "ls", log, GROUP, "--reason", "^odd", "--json")
    found = [json.loads(line) for line in said.splitlines()]
    assert [(each["sequence"], each["reason"], each["text"]) for each in found] == [
        (1, "odd", "1"), (3, "odd", "3"), (5, "odd", "5"),
    ]  # fmt: skip
    assert _say(capfd, "dead", "cat", log, GROUP, 4, 2) == "2\n4\n"
    assert _say(capfd, "dead", "cat", log, GROUP, "--since", "2100-01-01") == ""
    assert _say(capfd, "dead", "cat", "-0", log, GROUP, 0) == "0\0"


@pytest.mark.slow
@pytest.mark.slow
def test_dead_letters_are_retried(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _reject_all(log)
    assert _say(capfd, "dead", "retry", log, GROUP, "--reason", "even") == "delivering 3 messages again\n"
    assert "message 0: " in _say(capfd, "dead", "retry", log, GROUP, 0, code=1)
    found = _object(capfd, "dead", "retry", log, GROUP, "--all", code=1)
    assert found == {"count": 3, "impossible": [0, 2, 4]}
    with ConsumerGroup(log, GROUP) as group:
        got = [(item.sequence, item.delivery) for item in group.consume(timeout=0.1) if item.ack() is None]
    assert sorted(got) == [(number, 1) for number in range(6)]


def test_dead_letters_are_dropped(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _reject_all(log)
    assert _object(capfd, "dead", "drop", log, GROUP, "--keep-age", "1h")["record_count"] == 0
    assert _say(capfd, "dead", "drop", log, GROUP, "--all").startswith("removed 6 dead letters, ")
    assert list(read_dead_letters(log, GROUP)) == []
    assert _object(capfd, "dead", "drop", log, GROUP, "--all")["files"] == []
