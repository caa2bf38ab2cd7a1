"""The process: python -m stress.bench.spark FOLDER MEGABYTES.

It says `ready N`, how many records there are, and then answers each line of its input, a JSON list of a job and its
arguments, with a JSON list of the seconds that it took and what it found.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from binlog.spark import session
from stress.bench.spark import jobs
from stress.bench.spark.dataset import dataset
from stress.bench.spark.rows_source import RowSource

_CORES = 2
_SETTINGS = {"spark.ui.showConsoleProgress": "false", "spark.driver.memory": "4g"}


def main() -> None:
    """See the module."""
    folder, megabytes = Path(sys.argv[1]), float(sys.argv[2])
    data, small = dataset(folder, megabytes), dataset(folder / "small", 0)
    with session("binlog bench", cores=_CORES, settings=_SETTINGS) as spark:
        spark.sparkContext.setLogLevel("ERROR")
        spark.dataSource.register(RowSource)
        for each in (data, small):
            each.make(spark)
        jobs.warm(spark, data, folder)
        print(f"ready {data.records}", flush=True)
        for line in sys.stdin:
            name, *arguments = json.loads(line)
            places = [folder] if name in ("extract", "write") else []
            # Spark ends a Python process after a minute without work, and rows that came between may have taken longer.
            getattr(jobs, name)(spark, small, *arguments, *places)
            data.read_in(jobs.form(data, name, arguments[0]))
            begun = time.perf_counter()
            found = getattr(jobs, name)(spark, data, *arguments, *places)
            print(json.dumps([time.perf_counter() - begun, found]), flush=True)


if __name__ == "__main__":
    main()
