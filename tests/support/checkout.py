"""A copy of this checkout as a user would get it, and a machine with only the packages that the README names."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

NOBODY = 65534

# The commands of `python3 python3-venv python3-dev gcc make`, and those of Debian's essential packages that scripts
# use.
COMPILER_COMMANDS = ("as", "cc", "gcc", "ld", "ld.bfd", f"{os.uname().machine}-linux-gnu-gcc")
COMMANDS = (
    "make",
    *("bash", "dash", "sh"),
    *("find", "grep", "sed", "xargs"),
    *("basename", "cat", "chgrp", "chmod", "chown", "cp", "cut", "date", "dirname", "echo", "env", "expr", "false"),
    *("head", "hostname", "id", "ln", "ls", "mkdir", "mktemp", "mv", "nice", "nproc", "printf", "pwd", "readlink"),
    *("realpath", "rm", "rmdir", "setsid", "sleep", "sort", "stat", "tail", "test", "touch", "tr", "true", "uname"),
    *("uniq", "wc", "whoami"),
)

_NOT_COPIED = (".git", ".venv", "build", "dist", "*.egg-info", "*.so", "__pycache__", ".*_cache", ".hypothesis")


def copy_checkout(target: Path) -> None:
    """Copy the files that git knows or would add; without git, everything except generated files."""
    listing = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        names = subprocess.run(listing, capture_output=True, check=True).stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):
        shutil.copytree(ROOT, target, ignore=shutil.ignore_patterns(*_NOT_COPIED), symlinks=True)
        return
    for name in filter(None, names):
        if (ROOT / name).is_file():  # git knows a removed file until the removal is committed
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name, follow_symlinks=False)


def requirements(*extras: str) -> list[str]:
    """Return the requirements in pyproject.toml: to build, to run, and for some extras."""
    table = _pyproject()
    wanted = [*table["build-system"]["requires"], *table["project"]["dependencies"]]
    return wanted + [line for extra in extras for line in requirements_of(extra)]


def requirements_of(extra: str) -> list[str]:
    """Return the requirements of one extra."""
    wanted: list[str] = _pyproject()["project"]["optional-dependencies"][extra]
    return wanted


def extras() -> list[str]:
    """Return the names of all extras."""
    return list(_pyproject()["project"]["optional-dependencies"])


def _pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def base_python() -> Path:
    """Return a Python outside of any virtual environment that can create one: Debian's own if it can."""
    debian = Path("/usr/bin/python3")
    check = [str(debian), "-E", "-s", str(ROOT / "native" / "check_machine.py")]
    if debian.exists() and subprocess.run(check, capture_output=True, check=False).returncode == 0:
        return debian
    return Path(os.path.realpath(sys.executable))


def link_commands(folder: Path, names: Iterable[str], python: Path | None) -> Path:
    """Fill a folder that will be the whole PATH."""
    folder.mkdir()
    for name in names:
        found = shutil.which(name, path="/usr/bin:/bin")
        if found:
            (folder / name).symlink_to(found)
    if python:
        (folder / "python3").symlink_to(python)
    return folder


@dataclass(frozen=True)
class Machine:
    """Runs commands in a checkout as an ordinary user with only the given settings."""

    checkout: Path
    environment: Mapping[str, str]

    def make(self, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        """Run make; everything it started has ended when this returns."""
        change_user = os.geteuid() == 0
        environment = {**self.environment, **changes}
        make = shutil.which("make", path=environment["PATH"]) or "make"
        with subprocess.Popen(
            [make, *arguments],
            cwd=self.checkout,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            user=NOBODY if change_user else None,
            group=NOBODY if change_user else None,
            extra_groups=[] if change_user else None,
        ) as process:
            try:
                out, error = process.communicate(timeout=840)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        return subprocess.CompletedProcess([make, *arguments], process.returncode, out, error)


def give_away(path: Path) -> None:
    """Give a tree to the ordinary user, if it has another owner."""
    if os.geteuid() == 0:
        for entry in _tree(path):
            os.chown(entry, NOBODY, NOBODY, follow_symlinks=False)


def _tree(path: Path) -> Iterator[Path]:
    yield path
    yield from path.rglob("*")
