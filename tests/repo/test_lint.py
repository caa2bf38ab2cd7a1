"""mypy --strict and ruff have nothing to say: what `make lint` runs, as tests."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support import checkout


@pytest.mark.parametrize("tool", [["mypy"], ["ruff", "check", "--no-fix"]], ids=["mypy", "ruff"])
def test_lint(tool: list[str]) -> None:
    command = [sys.executable, "-m", *tool]
    done = subprocess.run(command, cwd=checkout.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
