"""Interruption raises only in the package's own code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import binlog
from tests.support.interruptions import Interruption

PACKAGE = Path(binlog.__file__).parent


def function_in(file: Path) -> Callable[[], None]:
    """Make a function that seems to be from a file."""
    names: dict[str, Callable[[], None]] = {}
    exec(compile("def function(): pass", str(file), "exec"), names)
    return names["function"]


@pytest.mark.parametrize(
    ("file", "interrupted"),
    [
        (PACKAGE / "log" / "writer.py", True),
        (PACKAGE.parent / "tests" / "unit" / "test_x.py", False),
        # A checkout in a folder named binlog, with its virtual environment.
        (Path("/home/user/binlog/.venv/lib/python3/site-packages/other/gc.py"), False),
    ],
)
def test_only_the_package_is_interrupted(file: Path, interrupted: bool) -> None:
    assert Interruption(0).run(function_in(file)) is interrupted
