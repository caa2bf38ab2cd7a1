"""Power: what was not synced is lost, kept or torn, at every moment of recorded runs (docs/testing.md).

Each run draws a seed of its own, which a failure prints with the command that looks at the state again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.crashing import WORKLOADS, crash, states


@pytest.mark.slow
def test_no_power_cut_takes_what_was_acknowledged(tmp_path: Path, figure: Callable[[str], None]) -> None:
    done = crash("--parts", "power", "--states", 20_400, "--processes", 2, "--keep", tmp_path / "kept", seconds=900)
    assert done.returncode == 0, done.stdout
    found = states(done.stdout)
    assert found["power"] >= 20_000
    assert min(found[f"power/{workload}"] for workload in WORKLOADS) >= found["power"] / 10
    first, *_, rates, _ = done.stdout.splitlines()
    figure(f"power cuts: {rates} ({first})")
