"""`binlog shell`."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

import binlog
from binlog.cli.main import main
from tests.unit.cli.run_command import Terminal, fill, run


@pytest.mark.slow
def test_a_line_of_commands_for_cron(log: Path) -> None:
    fill(log, [b"one"])
    done = run("shell", log, "-c", "cutover; exit; cutover")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"file 2 is open now\n", b"")
    assert len(binlog.stat(log).files) == 2


@pytest.mark.parametrize(
    ("line", "code", "out"),
    [
        ("check; stat --nonsense; cutover", 2, "no problems found\n"),
        ("nonsense; cutover", 2, ""),
        ("tail --grep 'a; b", 2, ""),
        ("tail --grep 'a; b' ;; ; tail -n 1 --from end; cutover", 2, "a; b\n"),
        ("tail -n 1 # cutover", 3, ""),
        ("", 0, ""),
        ("EOF", 0, ""),
    ],
)
def test_the_first_command_that_fails_ends_the_line(
    log: Path, line: str, code: int, out: str, capfd: pytest.CaptureFixture[str]
) -> None:
    fill(log, [b"a; b", b"c"])
    assert main(["shell", str(log), "-c", line]) == code
    captured = capfd.readouterr()
    assert captured.out == out
    assert captured.err.count("\n") == (1 if code else 0)
    assert len(binlog.stat(log).files) == 1


@pytest.mark.slow
def test_the_exit_code_is_that_of_the_failed_command_in_a_script_too(log: Path) -> None:
    fill(log, [b"one"])
    with open(log / "00000001.dat", "rb+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        done = run("shell", log, data=b"check\n\ncutover --timeout 0.01\nstat\n")
    assert (done.returncode, done.stdout) == (4, b"no problems found\n")
    assert done.stderr.count(b"\n") == 1


def test_a_missing_directory_exits_with_3(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["shell", str(log), "-c", "stat"]) == 3
    assert capfd.readouterr().err == f"binlog: {log}: no such directory\n"


def test_help_lists_the_commands_and_explains_one(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(log, [b"one"])
    assert main(["shell", str(log), "-c", "help; help cutover; cutover -h"]) == 0
    out = capfd.readouterr().out
    assert "exit " in out
    assert out.count("--expected") == 2


@pytest.mark.slow
def test_at_a_prompt_ctrl_c_ends_the_command_and_a_failure_does_not_end_the_shell(log: Path) -> None:
    fill(log, [b"one"])
    with Terminal("shell", log) as terminal:
        terminal.read_until(b"binlog> ")
        terminal.type(b"nonsense\r")
        terminal.read_until(b"no such command")
        terminal.type(b"cutover\r")
        terminal.read_until(b"file 2 is open now")
        terminal.read_until(b"binlog> ")
        terminal.type(b"\r\r")  # an empty line does not repeat the command
        terminal.type(b"monitor\r")
        with binlog.Writer(log) as writer:
            # The command may still be starting, so append until it prints a record.
            while not terminal.comes(b"as it came\r\n", 0.05):
                writer.append(b"as it came")
        terminal.type(b"\x03")
        terminal.read_until(b"binlog> ")
        terminal.type(b"watch\r")
        terminal.read_until(b"last records")
        terminal.type(b"\x03")
        terminal.read_until(b"binlog> ")
        terminal.type(b"abandoned")
        terminal.read_until(b"abandoned")
        terminal.type(b"\x03")
        while not terminal.comes(b"binlog> ", 1.0):
            # Python's readline checks for signals before it waits for a key; one that arrives just between is handled
            # at the next key.  No user is that fast.
            terminal.type(b"\x03")
        terminal.read_until(b"binlog> ")
        terminal.type(b"exit\r")
        assert terminal.process.wait(30) == 0
    assert len(binlog.stat(log).files) == 2
