"""A check for the programs and headers that building binlog needs, which reports in one line.

It uses the standard library only, because it runs before anything is installed.  The Makefile itself checks for python3
and its version, because an old Python could not parse this file.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

__all__ = ["missing", "missing_to_compile"]


def missing() -> str | None:
    """Return a line that names everything that `make` needs and this machine lacks, with the Debian packages; or
    None."""
    return _line([lack for lack in (_venv(), *_to_compile()) if lack])


def missing_to_compile() -> str | None:
    """Return a line that names everything that compiling needs and this machine lacks; or None."""
    return _line(_to_compile())


def _line(lacks: list[str]) -> str | None:
    return f"this machine lacks {', and '.join(lacks)}" if lacks else None


def _to_compile() -> list[str]:
    # A trial compilation makes sense only if there are a compiler and the header.
    return [lack for lack in (_compiler(), _headers()) if lack] or [lack for lack in [_compiling()] if lack]


def _venv() -> str | None:
    # Debian packages ensurepip separately; without it a virtual environment has no pip.
    if importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"):
        return None
    return f"Python's venv and ensurepip modules for {sys.executable} (Debian package: python3-venv)"


def _compiler_command() -> list[str]:
    # In the order of setuptools.
    return shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")


def _compiler() -> str | None:
    name = _compiler_command()[0]
    return None if shutil.which(name) else f"the C compiler {name} (Debian package: gcc)"


def _headers() -> str | None:
    header = Path(sysconfig.get_path("include"), "Python.h")
    return None if header.is_file() else f"Python's C header {header} (Debian package: python3-dev)"


def _compiling() -> str | None:
    """Compile one line, to detect a compiler without the C library's headers or without a linker."""
    command = [*_compiler_command(), "-I", sysconfig.get_path("include"), "-shared", "-fPIC", "-x", "c", "-"]
    try:
        done = subprocess.run(
            [*command, "-o", os.devnull], input="#include <Python.h>\n", capture_output=True, text=True, check=False
        )
    except OSError as error:
        return f"a C compiler that runs: {error} (Debian package: gcc)"
    if done.returncode == 0:
        return None
    said = [line for line in done.stderr.splitlines() if "error" in line] or [f"exit code {done.returncode}"]
    return f"a C compiler that can build for Python: {said[0].strip()} (Debian packages: gcc, libc6-dev)"


if __name__ == "__main__":
    lacking = missing()
    sys.exit(f"binlog: {lacking}" if lacking else 0)
