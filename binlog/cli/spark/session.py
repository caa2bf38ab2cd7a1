"""Start and stop Spark for a command, and report its errors in one line.

Facts relied on (PySpark 4.3):

- Java writes warnings and the traces of failed tasks to the descriptor that was number 2 when it was started.  The
  error that Python gets says all that a user needs.
- Starting Spark installs a handler for SIGINT that cancels all jobs, also those of a stream, whose query then fails.
- The text of a frame's error contains the trace of the failed task, which contains our own error.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Any

from binlog.cli.exits import CommandError, ExitCode
from binlog.cli.spark.options import SparkOptions
from binlog.cli.spark.signals import DeferredSignals, deferred_signals
from binlog.errors import BinlogError

_STANDARD_ERROR = 2

# "binlog.errors.GoneError: the text", as in a Python traceback; also ValueErrors, and errors that start with our name.
_OURS = re.compile(r"^\s*(?:binlog\.errors\.\w+: |ValueError: |\w+Error: (?=binlog: ))(?:binlog: )?(.+)$", re.MULTILINE)
# "An error occurred while calling o70.save.", followed by the error.
_CALL = re.compile(r"\AAn error occurred while calling \S+\s+: (?:[\w.$]+: )?")
_CONDITION = re.compile(r"^\[[A-Z_.0-9]+\] ")
_LAST_BYTES = 2000


def need_spark() -> None:
    """Raise CommandError if a package is missing."""
    missing = [name for name in ("pyspark", "pyarrow") if importlib.util.find_spec(name) is None]
    if missing:
        text = f"{' and '.join(missing)} not installed; in a checkout of binlog, run pip install '.[spark]'"
        raise CommandError(text, ExitCode.FAILED)


@contextlib.contextmanager
def spark_session(options: SparkOptions, *, folders: Sequence[str] = ()) -> Iterator[tuple[Any, DeferredSignals]]:
    """Yield a Spark session and the deferred signals; stop the session at the end, unless the process already had it.

    folders: where tasks search for a user's modules.  Raises: CommandError for any error of Spark's.
    """
    from pyspark.sql import SparkSession

    # Without a handler, py4j makes the root logger print a trace for each call to Java that Ctrl-C interrupts.
    logging.getLogger().addHandler(logging.NullHandler())
    active = SparkSession.getActiveSession()
    with deferred_signals() as signals:
        if active is not None:
            with spark_errors():
                yield active, signals
            return
        with _log(options.log) as log:
            spark = _started(options, folders, log)
            try:
                signals.install()
                signals.check()
                with spark_errors():
                    yield spark, signals
            finally:
                spark.stop()


def _started(options: SparkOptions, folders: Sequence[str], log: IO[bytes]) -> Any:
    from binlog.spark import session

    try:
        with _standard_error_to(log.fileno()):
            spark = session("binlog", settings=options.settings(), folders=folders)
            spark.sparkContext.setLogLevel("WARN" if options.log else "OFF")
        return spark
    except (BinlogError, KeyboardInterrupt):
        raise
    except Exception as error:
        log.seek(max(log.seek(0, os.SEEK_END) - _LAST_BYTES, 0))
        said = [line for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
        # If Java fails to start, it says why itself; Python only knows that it exited.
        last = f": {said[-1]}" if said and "JAVA_GATEWAY" in str(error) else ""
        raise CommandError(f"Spark failed to start: {error_text(error)}{last}", ExitCode.FAILED) from error


@contextlib.contextmanager
def spark_errors() -> Iterator[None]:
    """Turn Spark's errors into one line, with our own error if there is one in it.  Raises: CommandError."""
    try:
        yield
    except (BinlogError, OSError, CommandError):
        raise
    except ValueError as error:
        raise CommandError(error_text(error), ExitCode.USAGE) from error
    except Exception as error:
        if type(error).__module__.split(".")[0] not in ("pyspark", "py4j"):
            raise
        raise CommandError(error_text(error), ExitCode.FAILED) from error


def error_text(error: Exception) -> str:
    """Return the last of our errors in the text of Spark's error, or its first line."""
    text = _CALL.sub("", str(error))
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1]).removeprefix("binlog: ")
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return _CONDITION.sub("", first)


@contextlib.contextmanager
def _log(path: str | None) -> Iterator[IO[bytes]]:
    with tempfile.TemporaryFile() if path is None else open(path, "a+b") as file:
        yield file


@contextlib.contextmanager
def _standard_error_to(fd: int) -> Iterator[None]:
    kept = os.dup(_STANDARD_ERROR)
    try:
        os.dup2(fd, _STANDARD_ERROR)
        yield
    finally:
        os.dup2(kept, _STANDARD_ERROR)
        os.close(kept)
