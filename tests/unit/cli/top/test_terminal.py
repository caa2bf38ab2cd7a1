"""`binlog top` in a process, on a terminal: its end, its needs, and colours."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.unit.cli.run_command import ENVIRONMENT, Terminal, fill, run

pytestmark = pytest.mark.slow

_ENTER_SCREEN, _LEAVE_SCREEN, _SHOW_CURSOR = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?25h"
_COLOUR = re.compile(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9;]*)?m")


def _end(terminal: Terminal) -> int:
    """Return the exit code, once the terminal is as it was before."""
    rest = terminal.read_rest()
    assert rest.rindex(_LEAVE_SCREEN) > rest.rfind(_ENTER_SCREEN)
    assert _SHOW_CURSOR in rest
    return terminal.process.wait()


@pytest.mark.parametrize(
    ("number", "keys"),
    [
        (0, b"q"),
        (signal.SIGINT, b"\x03"),
        (signal.SIGINT, b""),
        (signal.SIGTERM, b""),
        (signal.SIGHUP, b""),
    ],
    ids=["q", "Ctrl-C", "SIGINT", "SIGTERM", "SIGHUP"],
)
def test_the_terminal_is_restored_at_the_end(log: Path, number: int, keys: bytes) -> None:
    fill(log, [b"first <1>"])
    with Terminal("top", log) as terminal:
        before = termios.tcgetattr(terminal.fd)[3]
        terminal.read_until(b"first <1>")
        assert not termios.tcgetattr(terminal.fd)[3] & termios.ECHO
        if keys:
            terminal.type(keys)
        else:
            terminal.process.send_signal(number)
        assert _end(terminal) == -number
        assert before & termios.ECHO


def test_it_ends_when_its_terminal_is_closed(log: Path) -> None:
    fill(log, [b"first <1>"])
    with Terminal("top", log) as terminal:
        terminal.read_until(b"first <1>")
        os.close(terminal.fd)
        try:
            assert terminal.process.wait(30) == -signal.SIGHUP
        finally:
            terminal.fd = os.open(os.devnull, os.O_RDONLY)


def test_a_record_full_of_escape_codes_sends_none_to_the_terminal(log: Path) -> None:
    fill(log, [b"<begin> \x1b]0;title\x07\x1b[2J[bold]x[/bold] \xc2\x9b31m <end>"])
    with Terminal("top", log) as terminal:
        seen = terminal.read_until(b"<end>")
        assert b"<begin> \\x1b]0;title\\x07\\x1b[2J[bold]x[/bold] \\u009b31m <end>" in seen
        terminal.type(b"q")
        assert _end(terminal) == 0


def test_without_colours_none_are_sent(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(log, [b'{"severity":17,"level":"ERROR","body":"bad"}', b"<end>"])
    monkeypatch.setitem(ENVIRONMENT, "NO_COLOR", "1")
    for command in ("top", "monitor"):
        with Terminal(command, log) as terminal:
            seen = terminal.read_until(b"<end>")
            terminal.type(b"\x03")
            assert _COLOUR.search(seen + terminal.read_rest()) is None, command
    monkeypatch.delitem(ENVIRONMENT, "NO_COLOR")
    with Terminal("top", log) as terminal:
        assert _COLOUR.search(terminal.read_until(b"<end>")) is not None


def test_a_terminal_without_unicode_gets_ascii(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(log, ["grüße <end>".encode()])
    for name, value in (("LC_ALL", "C"), ("PYTHONUTF8", "0"), ("PYTHONCOERCECLOCALE", "0")):
        monkeypatch.setitem(ENVIRONMENT, name, value)
    with Terminal("top", log) as terminal:
        seen = terminal.read_until(b"<end>")
        assert b"gr??e <end>" in seen
        assert seen.isascii()


def test_without_a_terminal_it_refuses(log: Path) -> None:
    fill(log, [b"one"])
    done = run("top", log)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"'binlog top' needs a terminal" in done.stderr


def test_a_missing_log_and_a_wrong_filter_are_refused(log: Path, tmp_path: Path) -> None:
    fill(log, [b"one"])
    with Terminal("top", tmp_path / "nothing") as terminal:
        terminal.read_until(b"nothing")
        assert terminal.process.wait() == 3
    with Terminal("top", "--filter", "--level x", log) as terminal:
        terminal.read_until(b"not one of trace")
        assert terminal.process.wait() == 2


def test_without_textual_the_error_says_how_to_install_it(log: Path) -> None:
    fill(log, [b"one"])
    hidden = "import sys; sys.modules['textual'] = None; from binlog.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", hidden, "top", str(log)]
    done = subprocess.run(command, capture_output=True, env=ENVIRONMENT, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"'binlog top' needs the package textual; install binlog's extra 'tui': pip install '.[tui]'" in done.stderr


def test_a_terminal_that_cannot_draw_gets_no_escape_codes(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(log, [b"one"])
    monkeypatch.setitem(ENVIRONMENT, "TERM", "dumb")
    with Terminal("top", log) as terminal:
        assert b"\x1b" not in terminal.read_until(b"needs a terminal")
        assert terminal.process.wait() == 2
