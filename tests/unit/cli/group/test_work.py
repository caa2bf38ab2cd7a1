"""`binlog group work`: a command for each message, in real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from binlog import Writer
from binlog.consumers import ConsumerGroup, Retry, Status, events, peek, read_dead_letters, stat_group
from binlog.format.consumers.message import Message
from tests.support.waiting import until
from tests.unit.cli.run_command import Terminal, ended, fill, read_lines, run, started

# Each test starts processes.
pytestmark = pytest.mark.slow

GROUP = "billing"
QUICKLY = ("--timeout", "0.2s")


@pytest.fixture
def log(log: Path) -> Path:
    """A log with eight messages, and a group that retries at once."""
    fill(log, [b"%d" % number for number in range(8)])
    ConsumerGroup(log, GROUP, retry=Retry(deliveries_max=2, first=0)).close()
    return log


def _work(log: Path, *options: object, shell: str = "cat") -> subprocess.CompletedProcess[bytes]:
    return run("group", "work", log, GROUP, *QUICKLY, *options, "--", "sh", "-c", shell)


def _check_nothing_is_left(log: Path) -> None:
    """Check that the workers have left, and that no message has a delivery that did not end."""
    found = stat_group(log, GROUP)
    assert (found.in_hand, found.counters.died, found.members) == (0, 0, ())
    assert {item.delivery for item in peek(log, GROUP)} <= {0}


@contextmanager
def _working(log: Path, shell: str, *options: object) -> Iterator[subprocess.Popen[bytes]]:
    with started("group", "work", log, GROUP, *options, "--", "sh", "-c", shell) as process:
        yield process


def test_each_message_is_the_input_of_a_command(log: Path) -> None:
    done = _work(log, shell="cat; echo")
    assert (done.returncode, done.stderr) == (0, b"")
    assert sorted(done.stdout.split()) == [b"%d" % number for number in range(8)]
    assert stat_group(log, GROUP).floor == 8


@pytest.mark.parametrize(
    ("code", "what"), [(0, ["ack"]), (65, ["reject"]), (75, ["nack", "nack"]), (1, ["nack", "nack"])]
)
def test_the_exit_code_says_what_becomes_of_the_message(log: Path, code: int, what: list[str]) -> None:
    done = _work(log, "--json", shell=f'if test "$BINLOG_SEQUENCE" = 3; then exit {code}; fi')
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["what"] for each in found if each["sequence"] == 3] == what
    assert [each["delivery"] for each in found if each["sequence"] == 3] == [1, 2][: len(what)]
    assert {each["code"] for each in found if each["sequence"] == 3} == {code}
    reasons = [(letter.sequence, letter.reason) for letter in read_dead_letters(log, GROUP)]
    assert reasons == ([] if code == 0 else [(3, f"exit code {code}")])
    assert stat_group(log, GROUP).floor == 8


def test_a_command_that_a_signal_ends_is_retried(log: Path) -> None:
    _work(log, shell='test "$BINLOG_DELIVERY" = 2 || kill -SEGV $$')
    assert stat_group(log, GROUP).floor == 8
    assert {event.detail for event in events(log, GROUP) if event.what == "nack"} == {
        "again at once: killed by SIGSEGV"
    }


def test_the_environment_has_the_key_and_the_delivery(tmp_path: Path) -> None:
    keys = [b"k 1", None, b"\xff", b"a\0b"]
    fill(tmp_path, [b"plain" if key is None else Message(body=b"body", key=key).pack() for key in keys])
    ConsumerGroup(tmp_path, GROUP).close()
    shell = 'printf "%s,%s,%s,%s;" "$BINLOG_SEQUENCE" "${BINLOG_KEY-none}" "$BINLOG_DELIVERY" "$BINLOG_TOKEN"'
    done = run("group", "work", tmp_path, GROUP, *QUICKLY, "--", "sh", "-c", shell)
    found = sorted(line.split(b",") for line in done.stdout.split(b";")[:-1])
    assert [each[:3] for each in found] == [
        [b"0", b"k 1", b"1"], [b"1", b"none", b"1"], [b"2", b"\xff", b"1"], [b"3", b"none", b"1"],
    ]  # fmt: skip
    assert len({each[3] for each in found}) == 4


def test_a_command_may_ack_by_its_token_itself(log: Path) -> None:
    command = f"{sys.executable} -m binlog group ack {log} {GROUP} $BINLOG_TOKEN"
    done = _work(log, shell=f'test "$BINLOG_SEQUENCE" != 0 || {command}')
    assert done.returncode == 0
    assert done.stderr.count(b"\n") == 1
    assert b"message 0: it is done" in done.stderr
    assert stat_group(log, GROUP).counters.done == 8


def test_a_large_message_that_is_not_read_does_not_block(tmp_path: Path) -> None:
    fill(tmp_path, [bytes(1 << 20)])
    ConsumerGroup(tmp_path, GROUP).close()
    assert run("group", "work", tmp_path, GROUP, *QUICKLY, "--", "true").returncode == 0
    assert stat_group(tmp_path, GROUP).floor == 1


def test_commands_run_at_the_same_time(log: Path, tmp_path: Path) -> None:
    """Each of four commands waits until all four run."""
    meeting = tmp_path / "meeting"
    meeting.mkdir()
    wait = f"touch {meeting}/$BINLOG_SEQUENCE; while test $(ls {meeting} | wc -l) -lt 4; do sleep 0.01; done"
    assert _work(log, "-P", 4, shell=wait).returncode == 0
    assert len(list(meeting.iterdir())) == 8
    assert len({event.seat for event in events(log, GROUP) if event.what == "ack"}) == 4


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_command_finish(log: Path, tmp_path: Path, number: signal.Signals) -> None:
    go = tmp_path / "go"
    with _working(log, f"echo begun; while ! test -e {go}; do sleep 0.01; done; echo done", "-P", 2) as process:
        assert read_lines(process.stdout, 2) == [b"begun\n"] * 2
        process.send_signal(number)
        go.touch()
        assert process.stdout is not None
        lines = process.stdout.read().split()
        assert ended(process) == (-number, b"")
    # A worker that had not got the signal by then may have begun another command.
    assert 2 <= lines.count(b"done") == lines.count(b"begun") + 2
    _check_nothing_is_left(log)


def test_a_second_signal_ends_the_command(log: Path) -> None:
    with _working(log, "echo $$; exec sleep 600") as process:
        command = int(read_lines(process.stdout, 1)[0])
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        assert ended(process) in ((-signal.SIGTERM, b""), (-signal.SIGINT, b""))
    until(lambda: not os.path.exists(f"/proc/{command}"))
    assert next(peek(log, GROUP)).status is Status.READY
    assert stat_group(log, GROUP).counters.died == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_idle_workers(log: Path, number: signal.Signals) -> None:
    run("group", "reset", log, GROUP, "--to", "end")
    with _working(log, "cat", "-P", 3) as process:
        until(lambda: len(stat_group(log, GROUP).members) == 3)
        process.send_signal(number)
        assert ended(process) == (-number, b"")
    assert stat_group(log, GROUP).members == ()
    assert stat_group(log, GROUP).counters.died == 0


def test_ctrl_c_at_a_terminal_lets_the_command_finish(log: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    shell = f"echo begun; while ! test -e {go}; do sleep 0.01; done; echo finished"
    with Terminal("group", "work", log, GROUP, "--", "sh", "-c", shell) as terminal:
        terminal.read_until(b"begun")
        terminal.type(b"\x03")
        go.touch()
        terminal.read_until(b"finished")
        terminal.read_rest()
        assert terminal.process.wait() == -signal.SIGINT
    _check_nothing_is_left(log)


def test_the_death_of_the_parent_stops_the_workers(log: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    with _working(log, f"echo begun; while ! test -e {go}; do sleep 0.01; done", "-P", 2) as process:
        read_lines(process.stdout, 2)
        process.kill()
        process.wait()
        go.touch()
        until(lambda: stat_group(log, GROUP).members == ())
    _check_nothing_is_left(log)


def test_a_worker_that_is_killed_stops_the_others(log: Path) -> None:
    run("group", "reset", log, GROUP, "--to", "end")
    with _working(log, "cat", "-P", 2) as process:
        until(lambda: len(stat_group(log, GROUP).members) == 2)
        hint = stat_group(log, GROUP).members[0].hint
        os.kill(int(hint.split()[1]), signal.SIGKILL)
        code, message = ended(process)
    assert (code, message.count(b"\n")) == (1, 1)
    assert b"was killed by SIGKILL" in message


def test_a_deleted_group_ends_the_work(log: Path) -> None:
    run("group", "reset", log, GROUP, "--to", "end")
    with _working(log, "cat") as process:
        until(lambda: len(stat_group(log, GROUP).members) == 1)
        assert run("group", "delete", log, GROUP).returncode == 0
        code, message = ended(process)
    assert (code, message.count(b"\n")) == (1, 1)


def test_a_message_that_comes_while_it_waits_is_handled(log: Path) -> None:
    run("group", "reset", log, GROUP, "--to", "end")
    with _working(log, "cat; echo") as process:
        until(lambda: len(stat_group(log, GROUP).members) == 1)
        with Writer(log) as writer:
            writer.append(b"new")
        assert read_lines(process.stdout, 1) == [b"new\n"]
        until(lambda: stat_group(log, GROUP).floor == 9)
