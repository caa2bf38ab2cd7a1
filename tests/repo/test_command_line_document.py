"""docs/cli.md is the one that the commands give."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from binlog.cli.document import PATH, document
from tests.support.checkout import ROOT


def test_the_document_of_the_command_line_is_current() -> None:
    assert (ROOT / PATH).read_text() == document()


def test_a_stale_document_is_reported_and_written(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / PATH).write_text("stale\n")
    command = [sys.executable, "-m", "binlog.cli.document", "--root", str(tmp_path)]
    done = subprocess.run([*command, "--check"], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, b"--write" in done.stderr) == (1, True)
    subprocess.run([*command, "--write"], cwd=ROOT, capture_output=True, check=True)
    assert (tmp_path / PATH).read_text() == document()
    subprocess.run([*command, "--check"], cwd=ROOT, check=True)
