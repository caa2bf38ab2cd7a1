"""Power cuts, kills, faults and damage of each system (docs/testing.md).

Each run draws a seed of its own, which a failure prints with the command that looks at the state again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from stress.crash.parts import PARTS
from tests.support.crashing import crash, states

COUNTS = {
    "power": 20_400, "kill": 2_000, "faults": 1_500, "damage": 1_500,
    "store-power": 900, "store-kill": 500, "store-faults": 300,
    "journal-power": 1_500, "journal-kill": 500, "journal-faults": 300,
    "paging-power": 400, "paging-kill": 200, "paging-faults": 120,
    "depage-power": 200, "depage-kill": 100, "depage-faults": 40,
    "pagestore-power": 400, "pagestore-kill": 200, "pagestore-faults": 40,
}  # fmt: skip
_FEW, _MANY = 500, 1_000


def _rows(name: str) -> list[str]:
    """Those that must have states."""
    system = PARTS[name].system
    if name.endswith("power"):
        # What a power cut left is set aside one time in thirty, for a recovery.
        return [row for row in system.workloads if row != "recovery" or COUNTS[name] > _FEW]
    if name.endswith("kill"):
        rows = ["recovery", *(system.kept if system.by_kept else ()), *system.deaths]
        return [*rows, *["storm"] * bool(system.storm), *["poisoned"] * bool(system.fails_first)]
    if name == "store-faults":
        return [*system.kept]
    return ["files"] if name == "damage" else []


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTS)
def test_nothing_promised_is_lost(tmp_path: Path, figure: Callable[[str], None], name: str) -> None:
    count = COUNTS[name]
    processes = 1 if name == "damage" else 2
    seconds = 900 if count > _MANY else 240
    done = crash(
        "--parts", name, "--states", count, "--processes", processes, "--keep", tmp_path / "kept", seconds=seconds
    )
    assert done.returncode == 0, done.stdout
    found = states(done.stdout)
    assert sum(states for row, states in found.items() if "/" in row) >= count
    assert all(found[f"{name}/{row}"] > 0 for row in _rows(name))
    first, *_, rates, _ = done.stdout.splitlines()
    figure(f"{name}: {rates} ({first})")
    if name == "kill":
        (storm,) = (line for line in done.stdout.splitlines() if line.startswith("kill/storm: "))
        inside = re.search(r"(\d+) % between lock and unlock", storm)
        assert inside is not None
        assert int(inside[1]) >= 50
        figure(storm)


def test_each_part_is_run() -> None:
    assert set(COUNTS) == set(PARTS)
