"""Check and tune the Python processes in which Spark runs tasks, sources and sinks."""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from binlog.errors import StateError

CORES = "BINLOG_SPARK_CORES"
"""The environment variable that says how many tasks run at once, set for Java and the process that plans a read."""

# mallopt(3), malloc.h of glibc.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
# More than the batches of records that a task holds at once; and the largest mmap threshold.
_KEPT_BYTES = 64 << 20
_MAPPED_BYTES = 32 << 20

_DAEMON = "pyspark.daemon"

_calls = itertools.count()


def tune_worker() -> None:
    """Avoid per-task costs of a worker process; in any other process do nothing.

    After each task, and each call of a source or a sink, a worker collects garbage and so walks every object of every
    imported module, which takes about 30 ms.  Freezing these objects avoids that.  Only the first calls freeze, so that
    the objects of later tasks are still collected.

    glibc returns free memory to the kernel at once, and the kernel clears it page by page when it is allocated again:
    half of the reading time, for buffers of a megabyte.  So up to 64 MiB are kept.
    """
    if not _is_worker():
        return
    call = next(_calls)
    if call < 3:
        gc.freeze()
    if call == 0:
        _keep_memory()


def _is_worker() -> bool:
    """Return whether Spark started this process: all its workers are forked from one program."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name == _DAEMON


def _keep_memory() -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # musl has none
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


# Spark's settings and the variables with the same meaning; the first of each pair wins.
_NAMES = (("spark.pyspark.python", "PYSPARK_PYTHON"), ("spark.pyspark.driver.python", "PYSPARK_DRIVER_PYTHON"))
_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
# Prints the version, then imports the modules that a worker imports first; PySpark itself is provided by Spark.
_PROGRAM = "import sys; print('%d.%d' % sys.version_info[:2]); import binlog, pyarrow"


def check_worker_python(settings: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Refuse a Python for Spark's workers that has another minor version or cannot import binlog, before Spark starts.

    settings: of the session.  environment: the variables that Java and its workers get beside those of this process.
    Blocks for about 0.3 s if that Python is not this process's own.
    Raises: StateError, which names both Pythons and the setting that chose the workers' one.
    """
    for name, command in _chosen(settings):
        if _path(command) != os.path.abspath(sys.executable):
            version, problem = _tried(command, environment)
            _check_version(command, version, f", set by {name}")
            if problem:
                raise StateError(
                    f"Spark's workers would run {command}, set by {name}, which cannot import binlog: {problem}; "
                    f"this process runs {sys.executable}: unset {name}, or set it to a Python with binlog installed"
                )


def check_session_python(spark: Any) -> None:
    """Refuse a running local session whose workers run another minor version of Python.

    Blocks for about 0.1 s if their Python is not this process's own.
    Raises: StateError, as `check_worker_python`.
    """
    context = getattr(spark, "sparkContext", None)  # Spark Connect has none
    if context is not None and context.master.startswith("local"):
        command = context.pythonExec
        if _path(command) != os.path.abspath(sys.executable):
            _check_version(command, _tried(command, {})[0], "")


def _check_version(command: str, version: str | None, chosen_by: str) -> None:
    """Raise StateError if the version is another one than this process's.  None: it is not known."""
    if version not in (None, _VERSION):
        raise StateError(
            f"Spark's workers would run {command} (Python {version}){chosen_by}, but this process runs "
            f"{sys.executable} (Python {_VERSION}), and PySpark needs the same minor version in both: set "
            "PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON to the same Python before Spark starts"
        )


def _chosen(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for setting, variable in _NAMES:
        if setting in settings:
            yield setting, settings[setting]
        elif os.environ.get(variable):
            yield variable, os.environ[variable]


def _path(command: str) -> str:
    # Not the real path, which for the Python of a virtual environment would be one without its packages.
    return os.path.abspath(shutil.which(command) or command)


def _tried(command: str, environment: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Return the version of this Python, None if it does not run, and why it cannot import binlog, None if it can."""
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
        return None, error.strerror
    version = done.stdout.strip() or None
    if done.returncode == 0:
        return version, None
    return version, (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
