"""The Pythons of this machine, by version."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


def find_python(version: str) -> Path | None:
    """Return a Python of a version, such as "3.12", that runs and can make virtual environments; None without one.

    Also searches the folder of pyenv, whose commands on the path run only the versions that its user has chosen.
    """
    for candidate in _candidates(version):
        program = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([candidate, "-E", "-c", program], capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() == version:
            return candidate
    return None


def make_other_version(folder: Path) -> tuple[Path, str]:
    """Make a command that runs this Python as if it were of version 3.99; return its path and the version."""
    site = folder / "site"
    site.mkdir()
    version = 'namedtuple("version_info", "major minor micro releaselevel serial")(3, 99, 0, "final", 0)'
    (site / "sitecustomize.py").write_text(
        f"import sys\nfrom collections import namedtuple\nsys.version_info = {version}\n"
    )
    command = folder / "python3"
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{site}:$PYTHONPATH" exec {sys.executable} "$@"\n')
    command.chmod(0o755)
    return command, "3.99"


def _candidates(version: str) -> Iterator[Path]:
    name = f"python{version}"
    if found := shutil.which(name):
        yield Path(found)
    root = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser()
    yield from sorted(root.glob(f"versions/{version}.*/bin/{name}"))
