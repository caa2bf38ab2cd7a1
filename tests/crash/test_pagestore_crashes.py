"""A page store: power cuts, kills and faults at each call (docs/testing.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.crashing import crash, states

_ROWS = {
    "pagestore-power": ("puts", "checkpoints", "prepared", "indexes", "backups"),
    "pagestore-kill": ("recovery",),
    "pagestore-faults": (),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "count"), [("pagestore-power", 400), ("pagestore-kill", 200), ("pagestore-faults", 40)]
)
def test_nothing_promised_is_lost_of_a_page_store(tmp_path: Path, part: str, count: int) -> None:
    done = crash("--parts", part, "--states", count, "--processes", 2, "--keep", tmp_path / "kept")
    assert done.returncode == 0, done.stdout
    found = states(done.stdout)
    assert found[part] >= count
    assert all(found[f"{part}/{row}"] > 0 for row in _ROWS[part])
