"""Wrong arguments of the demo are reported in one line, before anything is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.checkout import ROOT


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stress.demo", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--writers", "1"], "--writers must be at least 2"),
        (["--events", "100"], "--events must be at least 200 for 4 writers"),
        (["--input", "/nonexistent"], "--input: /nonexistent is not a readable file"),
        (["--input", "/"], "--input: / is not a readable file"),
        (["--keep", "/etc"], "--keep: /etc is not a new or empty directory"),
        (["--keep", "/etc/passwd"], "--keep: /etc/passwd is not a new or empty directory"),
    ],
)
def test_wrong_usage(arguments: list[str], text: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"python -m stress.demo: error: {text}"
    assert done.stdout == ""


@pytest.mark.slow
def test_a_given_file_that_is_too_short(tmp_path: Path) -> None:
    own = tmp_path / "app.log"
    own.write_text("one line\n")
    done = run("--input", str(own), "--keep", str(tmp_path / "kept"))
    assert done.returncode == 1
    assert done.stderr == "demo: 1 events are too few for 4 writers; each needs 50\n"


@pytest.mark.slow
def test_help() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert all(option in done.stdout for option in ("--events", "--writers", "--input", "--keep"))
