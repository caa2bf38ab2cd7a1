"""The program that measures the CPU time of `binlog monitor` and `binlog top` runs."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.checkout import ROOT


@pytest.mark.slow
@pytest.mark.turn(1)
def test_both_programs_are_measured_idle_and_with_a_writer() -> None:
    options = ("--seconds", "1", "--filled-records", "1000", "--records-per-second", "500")
    command = [sys.executable, "-m", "stress.watching", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"^(\w+) +80x24 +(\d+) records/s +[\d.]+ % of a core$", done.stdout, re.MULTILINE)
    assert [name for name, _ in lines] == ["monitor", "monitor", "top", "top"]
    idle, busy = [int(count) for _, count in lines[::2]], [int(count) for _, count in lines[1::2]]
    assert idle == [0, 0]
    assert min(busy) > 0
