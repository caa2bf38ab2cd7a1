"""Flipped bits: one of each byte of a header, an index, a turn; a few of all else.  `make flips` does all of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_one_bit_of_each_byte() -> None:
    # A process of its own: what it has in memory is measured.
    command = [sys.executable, "-m", "stress.crash.flips", "--quick", "--processes", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 of " in done.stdout.splitlines()[-1]
