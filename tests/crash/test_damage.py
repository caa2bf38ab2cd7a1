"""Damage: sound logs changed at random never crash anything and never give a wrong record in place of an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.crashing import crash, states


@pytest.mark.slow
def test_damaged_logs(tmp_path: Path) -> None:
    done = crash("--parts", "damage", "--states", 1_500, "--processes", 1, "--keep", tmp_path / "kept")
    assert done.returncode == 0, done.stdout
    assert states(done.stdout)["damage/files"] >= 1_500
