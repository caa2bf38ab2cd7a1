"""Flipped bits: one of each byte of a header, an index, a producer batch; a few of all others.  `make flips` flips
all."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_one_bit_of_each_byte(figure: Callable[[str], None]) -> None:
    # Each run draws which third of the bytes it takes.
    first = random.SystemRandom().randrange(3)
    # A separate process, because its memory is measured.
    command = [sys.executable, "-m", "stress.crash.flips", "--quick", "--processes", "1"]
    command += ["--step", "3", "--first", str(first)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert "0 of " in last
    figure(f"every third byte from {first}: {last}")
