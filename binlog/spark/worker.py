"""What a Python process of Spark's own is told, in which a task runs, or a source or sink is asked.

The Python that Spark's workers run, if the user chose another than the driver's.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping

from binlog.errors import StateError

CORES = "BINLOG_SPARK_CORES"
"""In the environment of Java, and so of the process that plans a read: how many tasks run at once."""

# mallopt(3), malloc.h of glibc.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
# More than a task has at once of the runs of records that it reads, and the largest threshold for one mapping.
_KEPT_BYTES = 64 << 20
_MAPPED_BYTES = 32 << 20

_DAEMON = "pyspark.daemon"

_calls = itertools.count()


def tune_worker() -> None:
    """Let a worker do without what costs each task time and brings it nothing; any other process is left as it is.

    After each task, and after each look at a source or a sink, it collects garbage, and walks every object of every
    module that was imported, some 30 ms: so those are left alone.  The first calls of a process only, so that no task's
    own objects pile up.

    And glibc gives memory that is free back to the kernel at once, which clears it page by page when it is asked for
    again: half of the time of reading, in runs of a megabyte.  So up to 64 MiB are kept.
    """
    if not _is_worker():
        return
    call = next(_calls)
    if call < 3:
        gc.freeze()
    if call == 0:
        _keep_memory()


def _is_worker() -> bool:
    """Whether Spark made this process: all are children of one program, which goes on in them."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name == _DAEMON


def _keep_memory() -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # musl has none
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


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
