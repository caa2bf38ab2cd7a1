"""The command as a whole: help, wrong usage, exit codes, and lazy imports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import binlog
from binlog.cli.commands import NAMES
from binlog.cli.exits import CommandError, ExitCode, run
from binlog.cli.main import main
from binlog.commitlog import Message, MessageStore
from binlog.errors import BusyError, FullError, PoisonedError
from tests.support.checked_stores import OPTIONS
from tests.unit.cli.run_command import ENVIRONMENT, ended, fill, read_lines, started


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_help(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    out = capfd.readouterr().out
    assert out.startswith(f"Usage: binlog {name} ")
    assert "DIR" in out


def test_without_a_command_help_goes_to_standard_error_and_exits_with_2(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert all(name in captured.err for name in NAMES)


def test_the_version_is_that_of_the_package(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capfd.readouterr().out == f"binlog {binlog.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "No such command 'nonsense' (see 'binlog --help')"),
        (["tial"], "No such command 'tial', did you mean 'tail'? (see 'binlog --help')"),
        (["group", "sat"], "group: No such command 'sat', did you mean 'stat'? (see 'binlog group --help')"),
        (["journal", "exprot"], "journal: No such command 'exprot', did you mean 'export'?"),
        (["cat"], "cat: Missing argument 'DIR...' (see 'binlog cat --help')"),
        (["cat", "--nonsense", "x"], "cat: No such option"),
    ],
)
def test_wrong_usage_is_one_line_and_2(arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    captured = capfd.readouterr()
    assert captured.err.startswith(f"binlog: {message}")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BusyError("busy"), 4),
        (FullError("full"), 1),
        (PoisonedError("poisoned"), 1),
        (OSError(5, "Input/output error"), 1),
        (CommandError("three", ExitCode.CANNOT_OPEN), 3),
        (CommandError("two\nlines \x1b[31m", ExitCode.USAGE), 2),
    ],
)
def test_every_error_has_a_code_and_one_line(error: Exception, code: int, capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise error

    assert run(fail) == code
    message = capfd.readouterr().err
    assert message.startswith("binlog: ")
    assert message.count("\n") == 1
    assert "\x1b" not in message


@pytest.mark.slow
def test_printing_records_does_not_import_the_live_display(log: Path) -> None:
    fill(log, [b"one"])
    program = "import sys; from binlog.cli.main import main; main(sys.argv[1:]); sys.exit('rich' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program, "cat", log], env=ENVIRONMENT, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"one\n")


@pytest.mark.slow
def test_a_directory_without_permission_exits_with_3(tmp_path: Path) -> None:
    """Run as an unprivileged user, because root may do anything."""
    log = tmp_path / "log"
    with binlog.Writer(log) as writer:
        writer.append(b"secret")
    log.chmod(0)
    # Import first, because that user may not be able to read Python's directory.
    program = "import os, sys; from binlog.cli.main import main; from binlog.cli.commands import NAMES, load"
    program += "; [load(name) for name in NAMES]; os.chdir(sys.argv[1])"
    program += "; os.geteuid() or (os.setgid(65534), os.setuid(65534)); sys.exit(main(sys.argv[2:]))"
    for name in ("cat", "tail", "stat", "check", "monitor", "cutover", "append"):
        done = subprocess.run(
            [sys.executable, "-c", program, tmp_path, name, "log"],
            env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr.count(b"\n")) == (3, 1), (name, done.stderr)
    log.chmod(0o700)


def test_an_invalid_duration_exits_with_2(log: Path) -> None:
    for arguments in (["cutover", "--timeout", "nan"], ["monitor", "--once", "--interval", "inf"]):
        assert main([*arguments, str(log)]) == 2


def test_a_fifo_as_a_position_file_does_not_hang_a_monitor(log: Path) -> None:
    with binlog.Writer(log) as writer:
        writer.append(b"1")
    os.mkfifo(log / "other.position")
    assert main(["monitor", "--once", str(log)]) == 0


def test_a_directory_that_cannot_be_opened_exits_with_3(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    # A loop of symbolic links, because root may open everything else.
    log.symlink_to(log)
    try:
        for name in ("cat", "tail", "stat", "check", "monitor", "cutover", "append"):
            assert main([name, str(log), *(["/dev/null"] if name == "append" else [])]) == 3, name
            assert capfd.readouterr().err.count("\n") == 1
    finally:
        Path(log).unlink()


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["tail", "-f", "LOG"],
        ["tail", "-F", "--position", "POSITION", "LOG"],
        ["monitor", "LOG"],
        ["append", "--json", "LOG"],
        ["append", "--json", "--mode", "flush", "--cutover-age", "1h", "LOG"],
        ["shell", "LOG", "-c", "tail; monitor"],
        ["commitlog", "tail", "-f", "--topic", "topic", "STORE"],
    ],
    ids=" ".join,
)
def test_ctrl_c_kills_a_waiting_command_with_sigint(log: Path, arguments: list[str]) -> None:
    fill(log, [b"one"])
    store = log.parent / "store"
    with MessageStore(store, OPTIONS) as made:
        made.append(Message.of("topic", b"one"))
    places = {"LOG": log, "STORE": store, "POSITION": log.parent / "position"}
    with started(*(places.get(word, word) for word in arguments)) as process:
        assert process.stdin is not None
        process.stdin.write(b"two\n")
        read_lines(process.stdout, 1)  # it has started
        process.send_signal(signal.SIGINT)
        code, message = ended(process)
    assert (code, message) == (-signal.SIGINT, b"")


@pytest.mark.slow
def test_python_m_binlog_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "binlog", "--version"], env=ENVIRONMENT, capture_output=True, check=True
    )
    assert done.stdout == f"binlog {binlog.__version__}\n".encode()


def test_a_variable_takes_the_place_of_the_directory(
    log: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fill(log, [b"one"])
    monkeypatch.setenv("BINLOG_DIR", str(log))
    for words, out in ((["cat"], "one\n"), (["tail", "-n", "1"], "one\n"), (["check"], "no problems found\n")):
        assert main(words) == 0
        assert capfd.readouterr().out == out
    assert main(["backup", str(log.parent / "copy")]) == 0
    assert main(["group", "create", "billing"]) == 0
    assert main(["group", "stat", "billing"]) == 0
    capfd.readouterr()
    other = log.parent / "copy"
    monkeypatch.setenv("BINLOG_DIR", "missing")
    assert main(["cat", str(other)]) == 0  # a directory that is given counts
    assert main(["group", "stat", str(log), "billing"]) == 0
    assert main(["cat"]) == 3
    monkeypatch.delenv("BINLOG_DIR")
    assert main(["group", "stat", "billing"]) == 2
