"""Kill the pipeline again and again: python -m stress.pipeline [--kills N] [--seed N], or `make stress`.

Four processes append to a log and cut it over.  A Spark job follows it to Parquet and to another log, and is killed at
random moments, most of them while a batch is under way to the log, from the first byte of task output to the end of the
commit.  One job copies its task output to the other log, and the next one makes files from it.  At the end each record
must be in both outputs once, in the order of the log.
Exit codes: 0 passed, 1 failed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import binlog
from binlog import Reader
from stress.pipeline.driver import SOURCE, TARGET

_APPENDERS = 4
_START_SECONDS_MAX = 120.0
_LAST_SECONDS_MAX = 240.0
# How long a batch is under way, approximately.
_ON_ITS_WAY_SECONDS = 0.15


class Pipeline:
    """The processes, in a folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._chance = random.Random(seed)
        self.kills = self.on_the_way = 0
        module = [sys.executable, "-m", "stress.pipeline.appender", str(folder / SOURCE)]
        self._appenders = [
            subprocess.Popen([*module, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for number in range(_APPENDERS)
        ]

    def kill(self) -> None:
        """Start the job, let it work for a while, and kill it."""
        driver = self._start(*["--files"] * (self.kills % 2))
        # Pure chance may give too few of the most important kills.
        aimed = self._chance.random() < 0.75 or 3 * self.on_the_way <= self.kills
        try:
            begun = self._copied()
            self._wait(lambda: self._copied() > begun, "a batch in the copy", driver)
            time.sleep(self._chance.random() / 2)
            while True:
                if aimed:
                    self._wait(self._is_on_the_way, "a batch on its way", driver)
                    time.sleep(self._chance.random() * _ON_ITS_WAY_SECONDS)
                # Stop the job, so that its state does not change while it is checked.
                os.killpg(driver.pid, signal.SIGSTOP)
                on_the_way = self._is_on_the_way()
                if on_the_way or not aimed:
                    break
                os.killpg(driver.pid, signal.SIGCONT)
        finally:
            os.killpg(driver.pid, signal.SIGKILL)  # it leads a session, and so a group, with Java and the workers
            driver.wait()
            assert driver.stdout is not None
            driver.stdout.close()
        self.kills += 1
        self.on_the_way += on_the_way

    def finish(self) -> list[str]:
        """Stop appending, let the job read the rest, and return the errors."""
        counts = []
        for appender in self._appenders:
            said, _ = appender.communicate("\n", timeout=60)
            counts.append(int(said))
        driver = self._start("--last")
        try:
            said, _ = driver.communicate(timeout=_LAST_SECONDS_MAX)
        finally:
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGKILL)
                driver.wait()
        if driver.returncode != 0:
            return [f"the last job exited with code {driver.returncode}"]
        with Reader(self._folder / SOURCE) as source, Reader(self._folder / TARGET) as target:
            appended, copied = ([entry.data.decode() for entry in reader] for reader in (source, target))
        wrong = [str(problem) for name in (SOURCE, TARGET) for problem in binlog.check(self._folder / name)]
        if len(appended) != sum(counts):
            wrong.append(f"{sum(counts)} records were appended, but the log has {len(appended)}")
        for name, found in (("the copy", copied), ("Parquet", json.loads(said.splitlines()[-1]))):
            wrong += _differences(name, appended, found)
        if (self._folder / TARGET / ".task-output").exists():
            wrong.append("task output is left")
        return wrong

    def stop(self) -> None:
        """Stop all running processes."""
        for appender in self._appenders:
            appender.kill()
            appender.wait()

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "stress.pipeline.driver", str(self._folder), *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)

    def _wait(self, until: Callable[[], bool], what: str, driver: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + _START_SECONDS_MAX
        while not until():
            if driver.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"there was never {what}; the job's exit code is {driver.returncode}")
            time.sleep(0.002)

    def _is_on_the_way(self) -> bool:
        return (self._folder / TARGET / ".task-output").exists()

    def _copied(self) -> int:
        path = self._folder / TARGET
        return binlog.stat(path).used_bytes if path.exists() else 0


def _differences(name: str, appended: list[str], found: list[str]) -> list[str]:
    if found == appended:
        return []
    twice = len(found) - len(set(found))
    lost = len(set(appended) - set(found))
    return [f"{name}: {len(found)} records of {len(appended)}, {lost} missing, {twice} duplicated, or out of order"]


def main() -> int:
    """Kill the pipeline N times, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m stress.pipeline", description="Kill the pipeline again and again.")
    parser.add_argument("--kills", type=int, default=20, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="binlog-pipeline-", dir="/var/tmp") as folder:
        pipeline = Pipeline(Path(folder), given.seed)
        try:
            for _ in range(given.kills):
                pipeline.kill()
                print(f"pipeline: {pipeline.kills} kills, {pipeline.on_the_way} with a batch on its way", flush=True)
            wrong = pipeline.finish()
        finally:
            pipeline.stop()
    for text in wrong:
        print(f"pipeline: WRONG: {text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
