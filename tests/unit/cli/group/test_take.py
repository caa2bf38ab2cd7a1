"""`binlog group take`: a program on two pipes is a worker."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from binlog import Writer
from binlog.consumers import ConsumerGroup, Status, peek, stat_group
from binlog.format.consumers.message import Message
from tests.support.waiting import until
from tests.unit.cli.run_command import ended, fill, read_lines, run, started

# Each test starts processes.
pytestmark = pytest.mark.slow

GROUP = "billing"


@pytest.fixture
def log(log: Path) -> Path:
    """A log with three messages, and a group."""
    fill(log, [b"%d" % number for number in range(3)])
    ConsumerGroup(log, GROUP).close()
    return log


@contextmanager
def _taking(log: Path, *options: object) -> Iterator[subprocess.Popen[bytes]]:
    with started("group", "take", log, GROUP, *options) as process:
        yield process


def _answer(process: subprocess.Popen[bytes], *lines: str) -> None:
    assert process.stdin is not None
    process.stdin.write("".join(f"{line}\n" for line in lines).encode())


def _item(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    found = json.loads(read_lines(process.stdout, 1)[0])
    assert isinstance(found, dict)
    return found


def _statuses(log: Path) -> dict[int, tuple[Status, int]]:
    return {item.sequence: (item.status, item.delivery) for item in peek(log, GROUP)}


def test_the_message_is_held_while_the_input_is_open(log: Path) -> None:
    with _taking(log) as process:
        token, body = read_lines(process.stdout, 2)
        assert token.count(b"-") == 3
        assert body == b"0\n"
        assert _statuses(log)[0] == (Status.IN_HAND, 1)
        assert process.stdin is not None
        process.stdin.close()
        assert ended(process) == (0, b"")
    assert _statuses(log)[0] == (Status.READY, 0)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ("ack", None),
        ("nack", Status.DELAYED),
        ("nack 1h", Status.DELAYED),
        ("nack 1h no answer", Status.DELAYED),
        ("reject", Status.DYING),
        ("reject bad amount", Status.DYING),
        ("back", Status.READY),
    ],
)
def test_a_line_ends_the_delivery(log: Path, answer: str, status: Status | None) -> None:
    done = run("group", "take", log, GROUP, data=f"{answer}\n".encode())
    assert (done.returncode, done.stderr) == (0, b"")
    found = _statuses(log).get(0)
    assert (None if found is None else found[0]) == status
    if answer.startswith("reject "):
        assert next(peek(log, GROUP, statuses=[Status.DYING])).reason == "bad amount"


def test_any_other_line_gives_the_message_back(log: Path) -> None:
    for line in (b"maybe\n", b"nack soon\n", b"ack twice\n", b"\xff\n"):
        done = run("group", "take", log, GROUP, data=line)
        assert done.returncode == 2
        assert done.stderr.count(b"\n") == 1
        assert _statuses(log)[0] == (Status.READY, 0)


def test_another_process_ends_the_delivery_by_its_token(log: Path) -> None:
    with _taking(log, "--json") as process:
        item = _item(process)
        assert (item["sequence"], item["ref"], item["delivery"], item["text"]) == (0, "1:256", 1, "0")
        assert run("group", "ack", log, GROUP, item["token"]).returncode == 0
        _answer(process, "ack")
        code, message = ended(process)
    assert code == 1
    assert b"message 0" in message
    assert stat_group(log, GROUP).floor == 1


def test_with_follow_it_continues_after_each_answer(log: Path) -> None:
    with _taking(log, "--follow", "--json") as process:
        for number in range(3):
            assert _item(process)["text"] == str(number)
            _answer(process, "ack")
        with Writer(log) as writer:
            writer.append(Message(body=b"\xff", key=b"k", headers={"a": b"\xfe"}).pack())
        item = _item(process)
        assert (item["base64"], item["key"], item["headers"]) == ("/w==", "k", {"a": {"base64": "/g=="}})
        assert process.stdin is not None
        process.stdin.close()
        assert ended(process) == (0, b"")
    assert stat_group(log, GROUP).floor == 3


def test_the_answers_may_be_written_ahead(log: Path) -> None:
    done = run("group", "take", "-f", "-0", "--timeout", "0.1s", log, GROUP, data=b"ack\nreject no\nack\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split(b"\0")[1::2] == [b"0", b"1", b"2"]


def test_a_program_that_dies_gives_its_message_to_another(log: Path) -> None:
    with _taking(log) as process:
        assert read_lines(process.stdout, 2)[1] == b"0\n"
        process.kill()
        process.wait()
    with _taking(log, "--json") as process:
        assert (_item(process)["sequence"], stat_group(log, GROUP).counters.died) == (0, 1)


def test_without_a_message_it_waits_for_one_or_times_out(log: Path) -> None:
    assert run("group", "reset", log, GROUP, "--to", "end").returncode == 0
    done = run("group", "take", log, GROUP, "--timeout", "0")
    assert (done.returncode, done.stdout) == (1, b"")
    with _taking(log) as process:
        until(lambda: len(stat_group(log, GROUP).members) == 1)
        with Writer(log) as writer:
            writer.append(b"new")
        assert read_lines(process.stdout, 2)[1] == b"new\n"


def test_a_lease_gives_the_message_to_another_member(log: Path) -> None:
    with _taking(log, "--lease", "0.05s", "--json") as process, ConsumerGroup(log, GROUP) as group:
        assert _item(process)["sequence"] == 0
        assert {item.sequence for item in group.consume(timeout=1) if item.ack() is None} == {0, 1, 2}
        _answer(process, "ack")
        assert ended(process)[0] == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_gives_the_message_back(log: Path, number: signal.Signals) -> None:
    with _taking(log) as process:
        read_lines(process.stdout, 2)
        process.send_signal(number)
        assert ended(process) == (-number, b"")
    assert _statuses(log)[0] == (Status.READY, 0)


def test_the_end_of_the_input_ends_a_wait_for_a_message(log: Path) -> None:
    with ConsumerGroup(log, GROUP) as group:
        for item in group.consume(timeout=0):
            item.ack()
    done = run("group", "take", "-f", log, GROUP, data=b"")
    assert (done.returncode, done.stdout) == (0, b"")
