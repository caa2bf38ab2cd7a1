"""`binlog monitor`, on a terminal and without one."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

import binlog
from binlog.cli.main import main
from tests.unit.cli.run_command import ENVIRONMENT, Terminal, ended, fill, read_line_with, read_lines, started

_HOME, _SHOW_CURSOR, _LEAVE_SCREEN = b"\x1b[H", b"\x1b[?25h", b"\x1b[?1049l"


@pytest.mark.slow
def test_without_a_terminal_it_prints_a_line_each_interval(log: Path) -> None:
    fill(log, [b"one", b"two"])
    with started("monitor", "--interval", "0.05", log) as process:
        first, second = read_lines(process.stdout, 2)
        assert b"Z tail 1:270, 2 records, 1 file, " in first
        assert b"2 records (0/s, 0 B/s), " in second
        with binlog.Writer(log) as writer:
            writer.append(b"three")
            writer.cutover()
        assert b"problem" not in read_line_with(process.stdout, b" tail 2:256, 3 records (")
        process.send_signal(signal.SIGINT)
        assert ended(process) == (-signal.SIGINT, b"")


def test_once_shows_the_lag_of_followers(log: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    refs = fill(log, [b"one", b"two"], [b"three"])
    (log / "a.position").write_text(f"{refs[1]}\n")
    (log / "b.position").write_text("nonsense")
    (tmp_path / "elsewhere").write_text("2:265\n")
    assert main(["monitor", "--once", "--json", "--position", str(tmp_path / "elsewhere"), str(log)]) == 0
    out = json.loads(capfd.readouterr().out)
    assert (out["tail"], out["record_count"], out["file_count"], out["problem"]) == ("2:265", 3, 2, None)
    assert out["records_per_second"] is None
    behind = {lag["name"]: (lag["records_behind"], lag["bytes_behind"], lag["problem"]) for lag in out["followers"]}
    assert behind == {
        "elsewhere": (0, 0, None),
        "a.position": (2, 16, None),
        "b.position": (None, None, "no ref in the file"),
    }


@pytest.mark.slow
def test_an_empty_directory_is_watched_and_a_missing_one_exits_with_3(log: Path) -> None:
    assert main(["monitor", "--once", str(log)]) == 3
    log.mkdir()
    with started("monitor", log) as process:
        assert b" tail -, 0 records, 0 files, " in read_lines(process.stdout, 1)[0]
        fill(log, [b"one"])
        assert read_line_with(process.stdout, b" 1 record ")


@pytest.mark.slow
def test_a_terminal_is_redrawn_for_records_a_cutover_and_a_resize(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log.mkdir()
    monkeypatch.setitem(ENVIRONMENT, "COLUMNS", "100")  # some shells export them, stale
    monkeypatch.setitem(ENVIRONMENT, "LINES", "30")
    with Terminal("monitor", log) as terminal:
        assert b"no files yet" in terminal.read_until(b"no records seen yet")
        with binlog.Writer(log) as writer:
            writer.append(b"hello [bold]\x1b[31m")
            assert b"\x1b[31m" not in terminal.read_until(b"hello [bold]\\x1b[31m")
            assert writer.cutover() == 2
            terminal.read_until(b"closed")
            for number in range(100):
                writer.append(b"record <%d>" % number)
            terminal.read_until(b"<99>")
        terminal.resize(12, 40)
        # The view fills the screen, with the latest record in the last row.
        terminal.read_until(_HOME)
        for _ in range(10):
            if (drawn := terminal.read_until(_HOME)).count(b"\n") < 12:
                break
        assert b"<99>" in drawn
        assert b"<90>" not in drawn
        terminal.type(b"\x03")  # Ctrl-C
        rest = terminal.read_rest()
        assert _SHOW_CURSOR in rest
        assert rest.endswith(_LEAVE_SCREEN)
        assert terminal.process.wait() == -signal.SIGINT


@pytest.mark.slow
def test_sigterm_restores_the_terminal_first(log: Path) -> None:
    fill(log, [b"one"])
    with Terminal("monitor", log) as terminal:
        terminal.read_until(b"one")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.read_rest().endswith(_LEAVE_SCREEN)
        assert terminal.process.wait() == -signal.SIGTERM


@pytest.mark.slow
def test_damage_is_shown_and_the_watch_continues(tmp_path: Path) -> None:
    fill(tmp_path, [b"one"])
    with started("monitor", "--interval", "0.05", tmp_path) as process:
        read_lines(process.stdout, 1)
        with open(tmp_path / "00000001.dat", "rb+") as file:
            file.write(b"\xff")
            file.flush()
            read_line_with(process.stdout, b"problem: ")
            file.seek(0)
            file.write(b"\x00")
        fill(tmp_path, [b"two"])
        read_line_with(process.stdout, b" 2 records")


@pytest.mark.slow
def test_a_terminal_without_unicode_shows_question_marks(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(log, ["grüße".encode()])
    for name, value in (("LC_ALL", "C"), ("PYTHONUTF8", "0"), ("PYTHONCOERCECLOCALE", "0")):
        monkeypatch.setitem(ENVIRONMENT, name, value)
    with Terminal("monitor", "--once", log) as terminal:
        terminal.read_until(b"gr??e")
        assert terminal.process.wait() == 0


@pytest.mark.slow
def test_groups_are_a_table_with_trends_and_members_and_events_have_the_colour_of_their_level(log: Path) -> None:
    fill(log, [b'{"severity":17,"level":"ERROR","logger":"app","body":"bad <1>"}', b"plain <2>"])
    binlog.ConsumerGroup(log, "idle").close()
    with binlog.ConsumerGroup(log, "busy") as group, Terminal("monitor", log, rows=40) as terminal:
        item = group.get(timeout=10)
        assert item is not None
        screen = terminal.read_until(b"plain <2>").decode()
        assert re.search(r"group +lag +lag time +trend +members +in hand +delayed +dead +state", screen)
        assert re.search(r"busy +2 .* 1 +1 +0 +0 +working", screen)
        assert re.search(r"idle +2 .* no members", screen)
        assert re.search(r"busy +\d+ +1 +pid \d+ on \S+ +0", screen)
        assert "\x1b[31mERROR    app: bad <1>" in screen
        with binlog.Writer(log) as writer:
            writer.append_many([b"more"] * 1000)
        # A trend is known after some seconds.
        terminal.read_until(b"rising")
        item.ack()
