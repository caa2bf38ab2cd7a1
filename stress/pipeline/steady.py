"""A steady stream: python -m stress.pipeline.steady [--seconds S] [--rate N].

One process appends so many records of 500 bytes each second; Spark follows the log into another one, with a batch every
second.  At the end each record must be there, and the last row must come within two triggers of the last append.
Exit codes: 0 it is so, 1 it is not.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import binlog
from binlog import Mode, Reader, Start, Writer
from binlog.spark import LOW_LATENCY, session

_TRIGGER_SECONDS = 1.0
_TICK_SECONDS = 0.01
_RECORD = os.urandom(500)
_CUTOVER_BYTES = 1 << 30
_WAIT_SECONDS_MAX = 60.0


def append(log: Path, rate: int, seconds: float) -> None:
    """Append at that rate, catching up where it fell behind, and say how many there were."""
    begun = time.monotonic()
    appended = 0
    with Writer(log, mode=Mode.FLUSH, cutover_bytes=_CUTOVER_BYTES) as writer:
        while (passed := time.monotonic() - begun) < seconds:
            due = round(passed * rate) - appended
            writer.append_many([_RECORD] * due)
            appended += due
            time.sleep(_TICK_SECONDS)
    print(appended, time.monotonic() - begun)


def _records(path: Path) -> int:
    return sum(file.record_count or 0 for file in binlog.stat(path).files)


def follow(folder: Path, rate: int, seconds: float) -> list[str]:
    """Have it appended and followed; what is wrong."""
    log, target = folder / "log", folder / "copy"
    with Writer(log), Writer(target):
        pass
    settings = {**LOW_LATENCY, "spark.ui.showConsoleProgress": "false"}
    with session("binlog steady", cores=2, settings=settings) as spark:
        spark.sparkContext.setLogLevel("ERROR")
        query = (
            spark.readStream.format("binlog").load(str(log)).select("data")
            .writeStream.format("binlog").option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(processingTime=f"{_TRIGGER_SECONDS:g} seconds").start(str(target))
        )  # fmt: skip
        command = [sys.executable, "-m", "stress.pipeline.steady", "--append", str(log)]
        appender = subprocess.Popen(
            [*command, "--rate", str(rate), "--seconds", str(seconds)], stdout=subprocess.PIPE, text=True
        )
        said, _ = appender.communicate(timeout=seconds + _WAIT_SECONDS_MAX)
        ended = time.monotonic()
        appended, took = int(said.split()[0]), float(said.split()[1])
        behind = appended - _records(target)
        with Reader(target, Start.END) as reader:
            while _records(target) < appended and time.monotonic() - ended < _WAIT_SECONDS_MAX:
                reader.wait(_TICK_SECONDS)
        lag = time.monotonic() - ended
        batches = [each["durationMs"]["triggerExecution"] for each in query.recentProgress if each["numInputRows"]]
        query.stop()
    print(f"steady: {appended:,} records in {took:.1f} s, {appended / took:,.0f} a second")
    print(f"steady: {behind:,} were not there when the last was appended; they came within {lag:.2f} s")
    print(f"steady: {len(batches)} batches, of {sum(batches) / max(1, len(batches)):,.0f} ms on average")
    wrong = []
    if (found := _records(target)) != appended:
        wrong.append(f"{appended} records were appended, and the copy has {found}")
    if appended < 0.99 * rate * seconds:
        wrong.append(f"only {appended / took:,.0f} records a second were appended")
    if lag > 2 * _TRIGGER_SECONDS:
        wrong.append(f"the last row came {lag:.2f} s after the last append")
    return wrong


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m stress.pipeline.steady", description="Follow a steady stream.")
    parser.add_argument("--seconds", type=float, default=120.0, metavar="S")
    parser.add_argument("--rate", type=int, default=100_000, metavar="N")
    parser.add_argument("--append", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.append:
        append(given.append, given.rate, given.seconds)
        return 0
    with tempfile.TemporaryDirectory(prefix="binlog-steady-", dir="/var/tmp") as folder:
        wrong = follow(Path(folder), given.rate, given.seconds)
    for text in wrong:
        print(f"steady: WRONG: {text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
