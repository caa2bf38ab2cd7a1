"""What tests of paging share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from binlog.paging.inspection import check_paging


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """For a queue, in which nothing is to be wrong in the end."""
    path = tmp_path / "queue"
    yield path
    if path.exists():
        assert check_paging(path) == []
