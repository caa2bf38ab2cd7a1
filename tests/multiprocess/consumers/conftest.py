"""Every test ends with the full check of its logs, which covers their groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from binlog import check


@pytest.fixture(autouse=True)
def _checked(tmp_path: Path) -> Iterator[None]:
    yield
    for log in {folder.parent for folder in tmp_path.rglob("groups")}:
        # Some tests move the wall clock ahead, so records were appended in the future.
        assert [problem for problem in check(log) if problem.rule != "time"] == []
