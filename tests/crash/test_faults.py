"""Faults: a system call fails or is short, at every place, once and for ever."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.crashing import crash, states


def test_some_faults(tmp_path: Path) -> None:
    done = crash("--parts", "faults", "--states", 100, "--processes", 1, "--keep", tmp_path / "kept")
    assert done.returncode == 0, done.stdout
    assert states(done.stdout)["faults"] >= 100


@pytest.mark.slow
def test_faults_of_every_kind(tmp_path: Path, figure: Callable[[str], None]) -> None:
    done = crash("--parts", "faults", "--states", 4_000, "--processes", 2, "--keep", tmp_path / "kept", seconds=900)
    assert done.returncode == 0, done.stdout
    found = states(done.stdout)
    assert min(found.values()) > 0
    figure(f"faults: {found['faults']:,}, none with a violation")
