"""docs/cli.md is the one that the commands give; the commands of docs/operations.md that read a log run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from binlog.cli.document import PATH, document
from tests.support.checkout import ROOT
from tests.support.sample_events import event_record
from tests.unit.cli.run_command import fill


def test_the_document_of_the_command_line_is_current() -> None:
    assert (ROOT / PATH).read_text() == document()


@pytest.mark.slow
def test_a_stale_document_is_reported_and_written(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / PATH).write_text("stale\n")
    command = [sys.executable, "-m", "binlog.cli.document", "--root", str(tmp_path)]
    done = subprocess.run([*command, "--check"], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, b"--write" in done.stderr) == (1, True)
    subprocess.run([*command, "--write"], cwd=ROOT, capture_output=True, check=True)
    assert (tmp_path / PATH).read_text() == document()
    subprocess.run([*command, "--check"], cwd=ROOT, check=True)


@pytest.mark.slow
def test_the_commands_that_read_a_log_run(tmp_path: Path) -> None:
    for name in ("events", "audit"):
        fill(tmp_path / name, [event_record(number) for number in range(1, 13)])
    text = (ROOT / "docs" / "operations.md").read_text()
    commands = re.findall(r"^\$ (binlog (?:tail|cat) .*)$", text, re.MULTILINE)
    assert len(commands) >= 6
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    said = []
    for command in commands:
        done = subprocess.run(
            ["sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), command
        said.append(done.stdout)
    assert said[0].count("\n") == 10
    assert "WARNING" in said[1]
    assert "INFO" not in said[1]
    assert said[3] == "0\n"
    assert "audit: " in said[-1]
