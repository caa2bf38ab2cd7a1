"""A journal: power cuts, kills and faults (docs/testing.md)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.crashing import JOURNAL_WORKLOADS, crash, states


@pytest.mark.slow
def test_power_cuts_of_a_journal(tmp_path: Path, figure: Callable[[str], None]) -> None:
    done = crash("--parts", "journal-power", "--states", 1500, "--processes", 2, "--keep", tmp_path / "kept")
    assert done.returncode == 0, done.stdout
    found = states(done.stdout)
    assert found["journal-power"] >= 1500
    assert all(found[f"journal-power/{workload}"] > 0 for workload in JOURNAL_WORKLOADS)
    first, *_, rates, _ = done.stdout.splitlines()
    figure(f"power cuts of journals: {rates} ({first})")


@pytest.mark.slow
def test_deaths_of_who_has_a_journal(tmp_path: Path, figure: Callable[[str], None]) -> None:
    done = crash("--parts", "journal-kill", "--states", 500, "--processes", 2, "--keep", tmp_path / "kept")
    assert done.returncode == 0, done.stdout
    found = states(done.stdout)
    assert found["journal-kill"] >= 500
    assert found["journal-kill/storm"] > 0
    figure(f"kills of journals: {found['journal-kill']:,}, none with a violation")


@pytest.mark.slow
def test_faults_of_a_journal(tmp_path: Path, figure: Callable[[str], None]) -> None:
    done = crash("--parts", "journal-faults", "--states", 300, "--processes", 2, "--keep", tmp_path / "kept")
    assert done.returncode == 0, done.stdout
    found = states(done.stdout)
    assert found["journal-faults"] >= 300
    figure(f"faults of journals: {found['journal-faults']:,}, none with a violation")
