"""Kill: processes die at each of their system calls, and in storms, and nothing that was acknowledged is lost."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.crashing import crash, states

ROWS = ("kill/leader", "kill/poisoned", "kill/recovery", "kill/storm", "kill/sweep")


@pytest.mark.slow
def test_deaths_of_every_kind(tmp_path: Path, figure: Callable[[str], None]) -> None:
    done = crash("--parts", "kill", "--states", 2_000, "--processes", 2, "--keep", tmp_path / "kept", seconds=900)
    assert done.returncode == 0, done.stdout
    found = states(done.stdout)
    assert all(found[row] > 0 for row in ROWS)
    (storm,) = (line for line in done.stdout.splitlines() if line.startswith("kill/storm: "))
    inside = re.search(r"(\d+) % between lock and unlock", storm)
    assert inside is not None
    assert int(inside[1]) >= 50
    figure(storm)
