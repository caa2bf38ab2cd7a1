"""What comes of a journal after deaths or faults: it is loaded and appended to, again and again, and removed."""

from __future__ import annotations

import shutil
from pathlib import Path

from binlog.journal.options import JournalOptions
from stress.crash.journal.expectation import Crash, Expectation, compare
from stress.crash.journal.judge import Observation, observe
from stress.crash.journal.loads import JUDGES


def judge_journal(
    path: Path, options: JournalOptions, expected: Expectation, crash: Crash, *, writer: int = JUDGES[0]
) -> tuple[Observation, list[str]]:
    """What came of it, and what is wrong.  writer: who appends to what is judged."""
    seen = observe(path, options, writer=writer)
    return seen, seen.problems + compare(seen.first, expected, expected, crash)


def remove_journal(path: Path) -> None:
    """Remove a journal."""
    shutil.rmtree(path, ignore_errors=True)
