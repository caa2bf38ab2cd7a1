"""A journal: power cuts, kills and faults (docs/testing.md)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.crashing import JOURNAL_WORKLOADS, crash, states


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "count", "rows"),
    [
        ("journal-power", 1500, JOURNAL_WORKLOADS),
        ("journal-kill", 500, ("storm", "recovery")),
        ("journal-faults", 300, ()),
    ],
)
def test_nothing_promised_is_lost_of_a_journal(
    tmp_path: Path, figure: Callable[[str], None], part: str, count: int, rows: tuple[str, ...]
) -> None:
    done = crash("--parts", part, "--states", count, "--processes", 2, "--keep", tmp_path / "kept")
    assert done.returncode == 0, done.stdout
    found = states(done.stdout)
    assert found[part] >= count
    assert all(found[f"{part}/{row}"] > 0 for row in rows)
    first, *_, rates, _ = done.stdout.splitlines()
    figure(f"{part}: {rates} ({first})")
