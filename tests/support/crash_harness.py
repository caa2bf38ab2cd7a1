"""Helpers to run `python -m stress.crash`, parse its table, and collect marks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from typing import Any

from stress.crash.marks import Values, values_of
from stress.crash.parts import PARTS
from stress.crash.system import System
from tests.support.checkout import ROOT


def crash(*arguments: object, seconds: float = 240) -> subprocess.CompletedProcess[str]:
    """Run the command and return its result, with standard error in its output."""
    command = [sys.executable, "-m", "stress.crash", "--seconds", str(seconds), *map(str, arguments)]
    return subprocess.run(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=seconds + 240,
    )


def states(said: str) -> dict[str, int]:
    """Return the number of distinct states in each row of the table."""
    rows = (line.split() for line in said.splitlines() if line.startswith(tuple(PARTS)) and ":" not in line)
    return {row[0]: int(row[2].replace(",", "")) for row in rows}


class Marks(list[Values]):
    """Collects marks."""

    def __init__(self, marks: Iterable[tuple[Any, ...]] = ()) -> None:
        super().__init__(map(values_of, marks))

    def mark(self, mark: tuple[Any, ...]) -> None:
        """Add a mark."""
        self.append(values_of(mark))


def verdict(system: System[Any, Any], path: Any, marks: Iterable[tuple[Any, ...]], crash: Any) -> list[str]:
    """Return the violations of a state at a path, after a run with these marks."""
    collected = Marks(marks)
    expected = system.expect(collected)
    seen = system.observe(path, collected)
    return [*seen.problems, *system.compare(seen, expected, expected, crash)]
