"""The seeded bugs that the harness must find: a harness that misses them proves nothing.

A bug is seeded by a switch of the preloaded recorder, which drops or reorders calls (see recorder_library/bugs.c), or
by changes to a copy of the sources, which is compiled again if the C changed.  This folder has a table for each engine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from stress.crash.seeded_bugs import commitlog, group, journal, log, pagestore, paging, seal
from stress.crash.seeded_bugs.seeded_bug import SeededBug, SeedingError

__all__ = ["ROOT", "SEEDED_BUGS", "SeededBug", "SeedingError", "seeded_tree"]

ROOT = Path(__file__).parents[3]
SEEDED_BUGS: dict[str, SeededBug] = {
    bug.name: bug
    for table in (log, commitlog, journal, paging, pagestore, group, seal)
    for bug in table.BUGS
}  # fmt: skip
_COPIED = ("binlog", "native", "stress", "setup.py", "pyproject.toml", "README.md", "LICENSE")


def seeded_tree(bug: SeededBug, folder: Path) -> Path:
    """Return the root of a source tree with the bug in it: this tree for a switch, otherwise a changed copy.

    Raises: SeedingError.
    """
    if bug.is_switch:
        return ROOT
    tree = folder / "seeded"
    tree.mkdir()
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree / name)
    for path, text in bug.changed(ROOT).items():
        (tree / path).write_text(text)
    if bug.is_in_c:
        _build(tree)
    return tree


def _build(tree: Path) -> None:
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    done = subprocess.run(command, cwd=tree, env=os.environ, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SeedingError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
