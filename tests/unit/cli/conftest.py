"""A log directory for each test, checked after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.logs import problems_so_far


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """A path for a log, checked after the test."""
    path = tmp_path / "log"
    yield path
    assert problems_so_far(path) == []
