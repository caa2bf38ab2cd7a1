"""The recipes and commands of docs/logging.md run as they are, with the real packages."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from binlog.logging import MODES, Handler
from tests.repo.test_journal_document import run
from tests.support.events import bodies, events
from tests.support.waiting import until

TEXT = (Path(__file__).parents[2] / "docs" / "logging.md").read_text()


def _recipe(title: str) -> str:
    """Return the first block of Python in a section; "" for the part before the first section."""
    section = TEXT.partition(f"# {title}\n")[2] if title else TEXT
    (block, *_) = re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    return str(block)


def _run(title: str, folder: Path) -> list[str]:
    """Run a recipe in an empty folder, and return the bodies of its log."""
    assert run([sys.executable, "-W", "error", "-c", _recipe(title)], folder) == []
    (log,) = [path for path in folder.iterdir() if path.is_dir()]
    return bodies(log)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("", "sold out"),
        ("asyncio", "shutting down"),
        ("Audit events", "ann order.delete order 7: success"),
        ("Django", "Not Found: /no-such-page"),
        ("structlog", "sold out"),
        ("loguru", "sold out"),
        ("OpenTelemetry", "sold out"),
    ],
)
def test_a_recipe_logs(tmp_path: Path, title: str, expected: str) -> None:
    assert _run(title, tmp_path) == [expected]


@pytest.mark.slow
def test_the_recipe_for_uvicorn_logs_requests(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    recipe = _recipe("uvicorn")
    assert "port=8000" in recipe
    command = [sys.executable, "-c", recipe.replace("port=8000", f"port={port}")]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        until(lambda: (tmp_path / "app").exists() and any("running on" in body for body in bodies(tmp_path / "app")))
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        assert opener.open(f"http://127.0.0.1:{port}/orders").read() == b"ok"
        server.send_signal(signal.SIGINT)
        assert server.stdout is not None
        printed = server.stdout.read()
        server.wait()
    assert [body.partition(" - ")[2] for body in bodies(tmp_path / "access")] == ['"GET /orders HTTP/1.1" 200']
    assert any(body.startswith("Finished server process") for body in bodies(tmp_path / "app")), printed


@pytest.mark.slow
def test_the_log_is_read_as_the_document_says(tmp_path: Path) -> None:
    run([sys.executable, "-c", _recipe("")], tmp_path)
    (read,) = run([sys.executable, "-c", _recipe("Reading the log")], tmp_path)
    assert read.endswith(" WARNING sold out")
    commands = re.findall(r"^\$ (binlog .*)$", TEXT, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        (line,) = run(["sh", "-c", command], tmp_path)
        assert '"body":"sold out","attributes":{"order":7}' in line
    assert list(events(tmp_path / "app")[0])[:5] == re.findall(r"^\| `(\w+)` \|", _schema(), re.MULTILINE)[:5]


def _schema() -> str:
    return TEXT.partition("## The events")[2].partition("## ")[0]


def test_the_tables_have_the_arguments_and_modes() -> None:
    section = TEXT.partition("## Arguments")[2].partition("## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (?:`([^`]*)`)?", section, re.MULTILINE)
    named = Handler.__init__.__kwdefaults__
    assert {name for name, _ in rows} == {"path", *named}
    assert [str(mode) for mode in re.findall(r"\| `Mode\.(\w+)` \|", TEXT)] == [mode.name for mode in MODES.values()]  # type: ignore[union-attr]
