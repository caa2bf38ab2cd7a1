"""The process with Spark: python -m stress.bench.spark FOLDER MEGABYTES.

It prints `ready N`, N being the number of records, and then answers each line of its input, a JSON list of a job and
its arguments, with a JSON list of the seconds that it took and its result.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from binlog.spark import session
from stress.bench.contestant import RECORD_BYTES
from stress.bench.spark import jobs
from stress.bench.spark.dataset import Dataset, dataset
from stress.bench.spark.free_memory import touch_free_memory
from stress.bench.spark.rows_source import RowSource

_CORES = 2
# How often each job runs before any is measured: Java compiles frequently run code, and runs it slowly until then.
_WARM_ROUNDS = 8
# The most memory that a job uses, in sizes of the data: its spilled data, its output, and intermediate data.
_MEMORY_TIMES = 3
# For each gigabyte of data: two seconds later the kernel discards freed blocks of the disk, and reports free memory to
# a virtual machine's host.  There is no way to ask whether that is done.
_QUIET_SECONDS = 3.0
# With the log's files as one value each, Java sometimes ran out of 4 GiB.
_SETTINGS = {"spark.ui.showConsoleProgress": "false", "spark.driver.memory": "6g"}


def main() -> None:
    """See the module."""
    folder, megabytes = Path(sys.argv[1]), float(sys.argv[2])
    data = dataset(folder, megabytes)
    with session("binlog bench", cores=_CORES, settings=_SETTINGS) as spark:
        spark.sparkContext.setLogLevel("ERROR")
        spark.dataSource.register(RowSource)
        data.make(spark)
        for _ in range(_WARM_ROUNDS):
            jobs.warm(spark, data, folder)
        print(f"ready {data.records}", flush=True)
        for line in sys.stdin:
            name, *arguments = json.loads(line)
            print(json.dumps(_second(spark, data, name, arguments)), flush=True)


def _second(spark: Any, data: Dataset, name: str, arguments: list[str]) -> tuple[float, int]:
    """Run a job twice; return the duration of the second run, and its result.

    After another job it would pay for the state of Java's heap and the caches; and Spark ends a Python process that was
    idle for a minute, which other jobs may take.  Its output is removed, and the kernel finishes that, before the next
    one begins: removing a gigabyte that is on the disk takes 0.2 s.
    """
    places = [data.folder] if name in ("extract", "write") else []
    size = data.records * RECORD_BYTES
    for _ in range(2):
        os.sync()
        time.sleep(_QUIET_SECONDS * size / 1e9)
        touch_free_memory(_MEMORY_TIMES * size)
        data.read_in(jobs.form(data, name, arguments[0]))
        begun = time.perf_counter()
        found = getattr(jobs, name)(spark, data, *arguments, *places)
        seconds = time.perf_counter() - begun
        if isinstance(found, Path):
            found = jobs.remove(found)
    return seconds, found


if __name__ == "__main__":
    main()
