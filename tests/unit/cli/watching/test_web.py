"""`binlog web`: its address, its token, and its refusals before it serves anything."""

from __future__ import annotations

import os
import socket
import stat
import sys
from pathlib import Path

import pytest

from binlog.cli.main import main
from binlog.cli.watching.web_log import _trend
from binlog.watching.trends import Key, Trend
from tests.support.web_pages import running
from tests.unit.cli.run_command import fill, run


@pytest.mark.slow
def test_each_run_has_a_port_and_a_token_of_its_own(log: Path) -> None:
    fill(log, [b"one"])
    with running(log) as first, running(log) as second:
        assert first.port != second.port
        assert len(first.token) == len(second.token) == 43
        assert first.token != second.token
        assert first.get("/api/record", log=0, ref="1:256").json["text"] == "one"
        assert first.ask("GET", "/api/logs", cookie=f"binlog-{first.port}={second.token}").status == 401


@pytest.mark.slow
def test_a_token_file_is_made_for_its_owner_only_and_used_again(log: Path, tmp_path: Path) -> None:
    fill(log, [b"one"])
    path = tmp_path / "token"
    with running(log, options=["--token-file", path]) as page:
        assert page.url == f"http://127.0.0.1:{page.port}/"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        token = path.read_text().strip()
        assert page.ask("GET", "/api/logs", cookie=f"binlog-{page.port}={token}").status == 200
    with running(log, options=["--token-file", path]) as page:
        assert path.read_text().strip() == token
        assert page.ask("GET", f"/?token={token}", cookie=None).status == 303


@pytest.mark.parametrize(
    ("mode", "content", "message"),
    [
        (0o644, "a" * 43, "its mode must be 600"),
        (0o620, "a" * 43, "its mode must be 600"),
        (0o600, "short", "a token is 16 to 512"),
        (0o600, "a" * 42 + "\n" + "b", "a token is 16 to 512"),
        (0o600, "a" * 42 + "\x00", "a token is 16 to 512"),
        (0o600, "", "a token is 16 to 512"),
    ],
)
def test_a_token_file_that_others_may_read_or_without_a_token_is_refused(
    log: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], mode: int, content: str, message: str
) -> None:
    fill(log, [b"one"])
    path = tmp_path / "token"
    path.write_text(content)
    path.chmod(mode)
    assert main(["web", "--token-file", str(path), str(log)]) == 2
    said = capfd.readouterr()
    assert (said.out, message in said.err) == ("", True)


def test_a_token_file_that_is_no_file_is_refused(log: Path, tmp_path: Path) -> None:
    fill(log, [b"one"])
    os.mkfifo(tmp_path / "fifo")
    assert main(["web", "--token-file", str(tmp_path / "fifo"), str(log)]) == 2
    assert main(["web", "--token-file", str(tmp_path), str(log)]) == 1
    assert main(["web", "--token-file", str(tmp_path / "missing" / "token"), str(log)]) == 1


@pytest.mark.parametrize(
    "options",
    [
        ["--no-token", "--listen", "0.0.0.0:0"],
        ["--no-token", "--token-file", "token"],
        ["--port", "1", "--listen", "127.0.0.1:1"],
        ["--port", "65536"],
        ["--listen", "127.0.0.1"],
        ["--listen", ":80"],
        ["--listen", "127.0.0.1:65536"],
        ["--listen", "192.0.2.1:0"],
        ["--listen", "no such host:0"],
    ],
)
def test_options_that_contradict_each_other_or_name_no_place_are_refused(log: Path, options: list[str]) -> None:
    fill(log, [b"one"])
    assert main(["web", *options, str(log)]) == 2


def test_a_port_in_use_is_busy(log: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fill(log, [b"one"])
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        assert main(["web", "--port", port, str(log)]) == 4
    assert f"port {port} of 127.0.0.1 is in use" in capfd.readouterr().err


def test_without_the_extra_it_is_named(
    log: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(log, [b"one"])
    monkeypatch.setitem(sys.modules, "starlette", None)
    assert main(["web", str(log)]) == 1
    assert "install binlog's extra 'web'" in capfd.readouterr().err


@pytest.mark.slow
def test_a_log_of_another_directory_is_not_made(tmp_path: Path) -> None:
    done = run("web", tmp_path / "typo")
    assert (done.returncode, done.stdout) == (3, b"")
    assert not (tmp_path / "typo").exists()


def test_a_steady_lag_has_the_trend_0_and_one_that_is_not_known_has_none() -> None:
    trends: dict[Key, Trend] = {("group", "mail"): Trend(0.04, "steady"), ("follower", "a"): Trend(-2.26, "falling")}
    assert [_trend(trends, key) for key in (("group", "mail"), ("follower", "a"), ("follower", "b"))] == [0, -2.3, None]
