"""A store of messages: power cuts, kills and faults, with each way of flushing (docs/testing.md)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.crashing import FLUSHES, STORE_WORKLOADS, crash, states


@pytest.mark.slow
def test_power_cuts_of_a_store(tmp_path: Path, figure: Callable[[str], None]) -> None:
    done = crash("--parts", "store-power", "--states", 900, "--processes", 2, "--keep", tmp_path / "kept")
    assert done.returncode == 0, done.stdout
    found = states(done.stdout)
    assert found["store-power"] >= 900
    assert all(found[f"store-power/{workload}"] > 0 for workload in STORE_WORKLOADS)
    first, *_, rates, _ = done.stdout.splitlines()
    figure(f"power cuts of stores: {rates} ({first})")


@pytest.mark.slow
def test_deaths_of_who_has_a_store(tmp_path: Path, figure: Callable[[str], None]) -> None:
    done = crash("--parts", "store-kill", "--states", 500, "--processes", 2, "--keep", tmp_path / "kept")
    assert done.returncode == 0, done.stdout
    found = states(done.stdout)
    assert all(found[f"store-kill/{row}"] > 0 for row in (*FLUSHES, "recovery", "storm"))
    figure(f"kills of stores: {found['store-kill']:,}, none with a violation")


@pytest.mark.slow
def test_faults_of_a_store(tmp_path: Path, figure: Callable[[str], None]) -> None:
    done = crash("--parts", "store-faults", "--states", 300, "--processes", 2, "--keep", tmp_path / "kept")
    assert done.returncode == 0, done.stdout
    found = states(done.stdout)
    assert all(found[f"store-faults/{flush}"] > 0 for flush in FLUSHES)
    figure(f"faults of stores: {found['store-faults']:,}, none with a violation")
