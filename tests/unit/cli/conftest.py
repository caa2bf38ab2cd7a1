"""A log's directory for each test, checked when the test is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.logs import problems_so_far


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """A path for a log that is to be whole in the end."""
    path = tmp_path / "log"
    yield path
    assert problems_so_far(path) == []
