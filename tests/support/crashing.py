"""Running `python -m stress.crash`, and reading the table that it prints."""

from __future__ import annotations

import subprocess
import sys

from tests.support.checkout import ROOT

PARTS = (
    "power",
    "kill",
    "faults",
    "damage",
    "store-power",
    "store-kill",
    "store-faults",
    "journal-power",
    "journal-kill",
    "journal-faults",
    "paging-power",
    "paging-kill",
    "paging-faults",
    "depage-power",
    "depage-faults",
    "pagestore-power",
    "pagestore-kill",
    "pagestore-faults",
)
WORKLOADS = ("single", "groups", "modes", "cutover", "turns", "drafts", "recovery", "jpos")
STORE_WORKLOADS = ("sync", "async", "pooled", "removing", "killed", "recovery")
JOURNAL_WORKLOADS = (
    "records",
    "waiting",
    "transactions",
    "reuse",
    "compaction",
    "threads",
    "jbm",
    "killed",
    "recovery",
)
FLUSHES = ("sync", "async", "pooled")


def crash(*arguments: object, seconds: float = 240) -> subprocess.CompletedProcess[str]:
    """What the command said, standard error included."""
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
    """The distinct states of each row of the table."""
    rows = (line.split() for line in said.splitlines() if line.startswith(PARTS) and ":" not in line)
    return {row[0]: int(row[2].replace(",", "")) for row in rows}
