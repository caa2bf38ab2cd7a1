"""The seeded bugs that the harness must find: a harness that misses them proves nothing.

A bug is seeded by a switch of the preloaded recorder, which drops or reorders calls (see recorder/bugs.c), or by
changes to a copy of the sources, which is compiled again if the C changed.  This folder has a table for each engine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from stress.crash.planted import commitlog, journal, log, pagestore, paging
from stress.crash.planted.mistake import Mistake, PlantingError

__all__ = ["PLANTED", "ROOT", "Mistake", "PlantingError", "plant"]

ROOT = Path(__file__).parents[3]
PLANTED: dict[str, Mistake] = {
    mistake.name: mistake
    for table in (log, commitlog, journal, paging, pagestore)
    for mistake in table.MISTAKES
}  # fmt: skip
_COPIED = ("binlog", "native", "stress", "setup.py", "pyproject.toml", "README.md", "LICENSE")


def plant(mistake: Mistake, folder: Path) -> Path:
    """Return the root of a source tree with the bug in it: this tree for a switch, otherwise a changed copy.

    Raises: PlantingError.
    """
    if mistake.is_switch:
        return ROOT
    tree = folder / "seeded"
    tree.mkdir()
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree / name)
    for path, text in mistake.changed(ROOT).items():
        (tree / path).write_text(text)
    if mistake.is_in_c:
        _build(tree)
    return tree


def _build(tree: Path) -> None:
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    done = subprocess.run(command, cwd=tree, env=os.environ, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PlantingError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
