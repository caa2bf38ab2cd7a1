"""Say in one line what this machine lacks to build binlog, before pip says it in a hundred.

Standard library only: it runs before anything is installed.  The Makefile itself looks for python3 and its version,
because this file could not be parsed by an old one.
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
    """Name everything that `make` needs and this machine lacks, with the Debian packages that have it, or None."""
    return _line([lack for lack in (_venv(), *_to_compile()) if lack])


def missing_to_compile() -> str | None:
    """Name what compiling needs and this machine lacks, with the Debian packages that have it, or None."""
    return _line(_to_compile())


def _line(lacks: list[str]) -> str | None:
    return f"this machine lacks {', and '.join(lacks)}" if lacks else None


def _to_compile() -> list[str]:
    # Without a compiler or a header there is nothing to try.
    return [lack for lack in (_compiler(), _headers()) if lack] or [lack for lack in [_compiling()] if lack]


def _venv() -> str | None:
    # Debian takes ensurepip out of the standard library; without it a virtual environment has no pip.
    if importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip"):
        return None
    return f"Python's venv and ensurepip modules for {sys.executable} (Debian package: python3-venv)"


def _compiler_command() -> list[str]:
    # The order in which setuptools looks.
    return shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")


def _compiler() -> str | None:
    name = _compiler_command()[0]
    return None if shutil.which(name) else f"the C compiler {name} (Debian package: gcc)"


def _headers() -> str | None:
    header = Path(sysconfig.get_path("include"), "Python.h")
    return None if header.is_file() else f"Python's C header {header} (Debian package: python3-dev)"


def _compiling() -> str | None:
    """Compile one line: a compiler without the C library's headers or its linker is found out here."""
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
