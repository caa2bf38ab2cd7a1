"""Power cuts, kills, faults and damage of each system (docs/testing.md).

Each run draws a seed, which a failure prints with the command that replays the state.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from stress.crash.parts import PARTS
from tests.support.crash_harness import crash, states

# States that one seed does not reach, the seed of the next run does; `make crash` runs as long as it is asked to.
COUNTS = {
    "power": 1_000, "kill": 250, "faults": 100, "damage": 350,
    "commitlog-power": 250, "commitlog-kill": 50, "commitlog-faults": 35,
    "journal-power": 300, "journal-kill": 65, "journal-faults": 35,
    "paging-power": 100, "paging-kill": 35, "paging-faults": 15,
    "depage-power": 50, "depage-kill": 25, "depage-faults": 10,
    "pagestore-power": 100, "pagestore-kill": 40, "pagestore-faults": 10,
    "group-power": 50, "group-kill": 25, "group-faults": 15, "group-damage": 50,
    "seal-power": 50, "seal-kill": 15, "seal-faults": 7,
}  # fmt: skip
# With fewer states than that, some rows may have none, depending on the seed.
_FEW = 200
_SECONDS_MAX = 600


def _rows(name: str) -> list[str]:
    """Return the rows that must have states."""
    if COUNTS[name] <= _FEW:
        return []
    system = PARTS[name].system
    if name.endswith("power"):
        # One state in thirty after a power cut is kept for a recovery.
        return [row for row in system.workloads if row != "recovery" or name == "power"]
    if name.endswith("kill"):
        rows = ["recovery", *(system.variants if system.rows_by_variant else ()), *system.deaths]
        return [*rows, *["storm"] * bool(system.storm), *["poisoned"] * bool(system.fails_first)]
    if name == "commitlog-faults":
        return [*system.variants]
    return ["files"] if name == "damage" else []


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTS)
def test_nothing_promised_is_lost(tmp_path: Path, figure: Callable[[str], None], name: str) -> None:
    count = COUNTS[name]
    # One process, because another worker of pytest has the other core.
    limits = ("--states", count, "--processes", 1)
    done = crash("--parts", name, *limits, "--keep", tmp_path / "kept", seconds=_SECONDS_MAX)
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
