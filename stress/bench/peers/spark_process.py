"""The one process with Spark of a run, started on first use and ended with the run."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from stress.bench.contestant import RECORD_BYTES, Measure
from stress.bench.peers.packages import missing_package
from stress.bench.sample import MeasureError, Sample, Waits

MEGABYTES_A_SECOND = 537.0
"""The size of the data for each second of a measurement; for the usual two seconds it is 1 GiB."""

_END_SECONDS_MAX = 30
_ERROR_BYTES = 2000

missing = missing_package("pyspark", "pyspark")


class SparkProcess:
    """See stress/bench/spark."""

    def __init__(self, place: Path, megabytes: float) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="bench-spark-", dir=place))
        command = [sys.executable, "-m", "stress.bench.spark", str(self._folder), str(megabytes)]
        self._error_path = self._folder / "stderr"
        # Its input is closed when this process ends for any reason, and that ends it.
        with self._error_path.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        atexit.register(self.end)
        self.records = int(self._answer().removeprefix("ready "))
        self._found: dict[str, int] = {}

    def seconds(self, job: str, *arguments: str) -> float:
        """Run a job and return its duration.  Raises: MeasureError, if its answer differs from the others'."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended since its last answer; _answer reports how
            self._process.stdin.write(json.dumps([job, *arguments]) + "\n")
            self._process.stdin.flush()
        seconds, found = json.loads(self._answer())
        source, query = (*arguments, "")[:2]
        # A file as one value has other answers than its records.
        if job == "read" and source != "files" and self._found.setdefault(query, found) != found:
            raise MeasureError(f"{query} of {source} is {found}, but of another {self._found[query]}")
        return float(seconds)

    def end(self) -> None:
        """End it, and remove its data."""
        try:
            self._process.communicate(timeout=_END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            errors = self._error_path.read_bytes()[-_ERROR_BYTES:].decode(errors="replace")
            raise MeasureError(f"Spark's process ended with {code}: {errors}")
        return line.strip()


@functools.cache
def _started(place: Path, megabytes: float) -> SparkProcess:
    return SparkProcess(place, megabytes)


def job(name: str, *arguments: str) -> Measure:
    """Measure a job on all the data, in megabytes of records a second."""

    def measure(directory: Path, seconds: float) -> Sample:
        spark = _started(directory.parent, seconds * MEGABYTES_A_SECOND)
        return Sample(spark.records * RECORD_BYTES / 1e6 / spark.seconds(name, *arguments))

    return measure


def latency(sink: str, *arguments: str) -> Measure:
    """Measure how long a record takes into a sink, in microseconds, in a process with its own settings."""

    def measure(directory: Path, seconds: float) -> Sample:
        command = [sys.executable, "-m", "stress.bench.spark.latency", str(directory), str(seconds), sink, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise MeasureError(f"its process ended with {done.returncode}: {done.stderr.strip()[-200:]}")
        waits = Waits.of(json.loads(done.stdout.splitlines()[-1]))
        return Sample(waits.p50_ns / 1000, waits)

    return measure
