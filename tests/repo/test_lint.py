"""mypy --strict and ruff report nothing: `make lint`, as tests."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support import checkout


# mypy without its cache, as in a fresh checkout, takes half a minute.
@pytest.mark.parametrize(
    "tool",
    [pytest.param(["mypy"], marks=pytest.mark.slow), ["ruff", "check", "--no-fix"]],
    ids=["mypy", "ruff"],
)
def test_lint(tool: list[str]) -> None:
    command = [sys.executable, "-m", *tool]
    done = subprocess.run(command, cwd=checkout.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
