"""Each `binlog web` of docs/watching.md serves the page."""

from __future__ import annotations

import re
import shlex
import socket
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.support.web_pages import Page
from tests.unit.cli.run_command import fill, read_lines, started

TEXT = (ROOT / "docs" / "watching.md").read_text()
COMMANDS = re.findall(r"^\$ binlog (web .*)$", TEXT, re.MULTILINE)


def test_the_document_has_commands_and_pictures() -> None:
    assert len(COMMANDS) >= 4
    pictures = re.findall(r"\(pictures/(web[^)]*)\)", TEXT)
    assert pictures
    assert all((ROOT / "docs" / "pictures" / name).exists() for name in pictures)


@pytest.mark.slow
@pytest.mark.xdist_group("web-document")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_document_serves_the_page(tmp_path: Path, command: str) -> None:
    words = shlex.split(command)
    for name in ("orders", "payments"):
        fill(tmp_path / name, [b"one"])
    logs = [word for word in words if word in ("orders", "payments")]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    with started(*(word.replace("8765", port) for word in words), cwd=tmp_path) as process:
        page = Page(tmp_path / "orders", read_lines(process.stdout, 1)[0].decode().strip(), process)
        token = page.token or (tmp_path / "web.token").read_text().strip()
        answer = page.ask("GET", "/api/logs", cookie=f"binlog-{page.port}={token}")
        assert answer.json == {"logs": logs, "read_only": "--read-only" in words}
        assert page.ask("GET", "/api/logs", cookie=None).status == 401
