"""A short soak: it runs, checks every process, and fails if something grows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stress.soak.__main__ import _compare
from stress.soak.resource_usage import ResourceUsage


@pytest.mark.slow
@pytest.mark.turn(0)
def test_a_short_soak(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "stress.soak", "--seconds", "10", "--directory", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("soak: ") and "fds" in line], done.stderr
    assert "writers were killed" in done.stdout
    for name in ("sync 0", "sync 1", "flush 2", "stage 3", "follow 4", "visit 5", "prune 6"):
        assert any(line.startswith(f"{name}: ") for line in lines)
    # In the first seconds memory still grows a little; the hour's run checks that it does not.
    assert not [line for line in lines if line.startswith("check: ")]


@pytest.mark.parametrize(
    ("then", "good"),
    [
        (ResourceUsage(1050, 12), True),
        (ResourceUsage(1051, 10), False),
        (ResourceUsage(1000, 13), False),
        (ResourceUsage(900, 9), True),
    ],
)
def test_growth_is_reported(then: ResourceUsage, capsys: pytest.CaptureFixture[str], *, good: bool) -> None:
    assert _compare({"sync 0": ResourceUsage(1000, 10)}, {"sync 0": then}) is good
    assert ("it GREW" in capsys.readouterr().out) is not good
