"""The Python that Spark's workers run, if the user chose another than the driver's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping

from binlog.errors import StateError

# Spark's settings, and the variables that name the same; the first of each pair wins.
_NAMES = (("spark.pyspark.python", "PYSPARK_PYTHON"), ("spark.pyspark.driver.python", "PYSPARK_DRIVER_PYTHON"))
# What a worker imports first of ours; PySpark comes to workers from Spark itself.
_PROGRAM = "import binlog, pyarrow"


def check_worker_python(settings: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Refuse a Python for Spark's workers that cannot run binlog, before Spark starts.

    settings: the session's.  environment: what Java and its workers get beyond this process's environment.
    Blocks: some 0.3 s if that Python is another than this process's.
    Raises: StateError, which names both and what chose the workers' one.
    """
    for name, command in _chosen(settings):
        if _path(command) != os.path.abspath(sys.executable):
            problem = _problem(command, environment)
            if problem:
                raise StateError(
                    f"Spark's workers would run {command}, as {name} says, which cannot import binlog: {problem}; "
                    f"this process runs {sys.executable}: unset {name}, or set it to a Python with binlog installed"
                )


def _chosen(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for setting, variable in _NAMES:
        if setting in settings:
            yield setting, settings[setting]
        elif os.environ.get(variable):
            yield variable, os.environ[variable]


def _path(command: str) -> str:
    # Not the real path: that of a virtual environment's Python is the one without its packages.
    return os.path.abspath(shutil.which(command) or command)


def _problem(command: str, environment: Mapping[str, str]) -> str | None:
    """Return what keeps this Python from importing binlog."""
    try:
        done = subprocess.run(
            [command, "-c", _PROGRAM],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        return error.strerror
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
