"""The driver program, which runs with nothing but the wheel: it executes requests and reports its progress.

It is copied to an empty folder and imports nothing of ours: Spark finds the data source automatically.  Each line of
its input is a request, as JSON; `do` names one of the functions below, and the other members are its arguments.  Each
line of its output is {"progress": ...} or {"answer": ...}.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any, Self

from pyspark.sql import SparkSession

_POLL_SECONDS = 0.02

# A row takes about a tenth of a millisecond, so that a task is long enough to be killed.
_WORK = "length(sha2(repeat(hex(data), 60), 512)) = 128"


def send(**what: Any) -> None:
    """Write one line of JSON."""
    print(json.dumps(what), flush=True)


class Watch:
    """Reports changes in the running stages for the duration of the block."""

    def __init__(self, spark: Any, query: Any = None) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._query = query
        self._failed: dict[int, int] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def failed(self) -> int:
        """The number of tasks that failed, or were lost with their executor."""
        return sum(self._failed.values())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        before = None
        while not self._end.wait(_POLL_SECONDS):
            now = self._count_rows()
            if now is not None and now != before:
                send(progress=now)
                before = now

    def _count_rows(self) -> dict[str, int] | None:
        stages = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None]
        for stage in known:
            self._failed[stage.stageId] = max(self._failed.get(stage.stageId, 0), stage.numFailedTasks)
        if not known:
            return None
        stage = max(known, key=lambda each: each.stageId)
        progress = self._query.lastProgress if self._query is not None else None
        return {
            "done": stage.numCompletedTasks,
            "active": stage.numActiveTasks,
            "of": stage.numTasks,
            "batches": -1 if progress is None else progress["batchId"],
            "lost": self.failed,
        }


def executors(spark: Any, count: int) -> list[dict[str, Any]]:
    """Wait for a number of executors, and return Python's view of each."""
    tracker = spark.sparkContext._jsc.sc().statusTracker()
    while len(tracker.getExecutorInfos()) - 1 != count:  # the driver counts as one
        time.sleep(_POLL_SECONDS)

    def seen(_: int) -> tuple[str, ...]:
        import binlog

        return binlog.__file__, os.getcwd(), os.environ.get("PYTHONPATH", "")

    found = set(spark.sparkContext.parallelize(range(4 * count), 4 * count).map(seen).collect())
    return [{"binlog": file, "folder": folder, "path": path} for file, folder, path in sorted(found)]


def load(spark: Any, path: str, options: dict[str, str]) -> Any:
    """Return a frame of a log."""
    return spark.read.format("binlog").options(**options).load(path)


_SUMMARY = "count(*)", "count(distinct number, offset)", "sum(crc32(data))", "min(sequence)", "max(sequence)"


def read(spark: Any, path: str, options: dict[str, str]) -> dict[str, Any]:
    """Return a summary of a log that changes if any record is missing or duplicated."""
    with Watch(spark) as watch:
        row = load(spark, path, options).where(_WORK).selectExpr(*_SUMMARY).first()
    return {"found": list(row), "failed": watch.failed}


def parquet(spark: Any, path: str) -> dict[str, Any]:
    """Return the same summary of a stream's Parquet output."""
    return {"found": list(spark.read.parquet(path).selectExpr(*_SUMMARY).first())}


def refused(spark: Any, path: str, options: dict[str, str]) -> str:
    """Return the error of reading a log, or nothing if it can be read."""
    try:
        load(spark, path, options).count()
    except Exception as error:  # noqa: BLE001 - whatever Spark makes of it
        return f"{type(error).__name__}: {error}"
    return ""


def write(spark: Any, path: str, count: int, tasks: int) -> dict[str, Any]:
    """Write numbers with some bytes after each, in the order of partitions; each task's output becomes a file."""
    rows = spark.range(0, count, 1, tasks).selectExpr("cast(id || repeat(' some bytes', 25) AS binary) AS data")
    with Watch(spark) as watch:
        writing = rows.where(_WORK).write.format("binlog").mode("append")
        writing.option("minFileBytes", "1").save(path)
    return {"failed": watch.failed}


class Streams:
    """The one running stream."""

    query: Any = None
    watch: Any = None


def stream(spark: Any, source: str, target: str, form: str, checkpoint: str, options: dict[str, str]) -> None:
    """Start copying a log, as it grows, to Parquet or to another log."""
    rows = spark.readStream.format("binlog").options(**options).load(source).where(_WORK)
    columns = ("data",) if form == "binlog" else ("number", "offset", "sequence", "data")
    writing = rows.select(*columns).writeStream.format(form).option("checkpointLocation", checkpoint)
    Streams.query = writing.trigger(processingTime="0 seconds").start(target)
    Streams.watch = Watch(spark, Streams.query).__enter__()


def finish(_: Any) -> dict[str, Any]:
    """Wait until the stream has copied everything, and stop it."""
    Streams.query.processAllAvailable()
    batches = Streams.query.lastProgress["batchId"]
    Streams.query.stop()
    Streams.watch.__exit__()
    return {"failed": Streams.watch.failed, "batches": batches}


_REQUESTS = {each.__name__: each for each in (executors, read, parquet, refused, write, stream, finish)}


def main() -> None:
    """Execute requests until the end of the input.  The arguments are the master's URL, then settings."""
    master, *settings = sys.argv[1:]
    builder = SparkSession.builder.appName("binlog cluster").master(master)
    for setting in settings:
        builder = builder.config(*setting.split("=", 1))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    send(answer="ready")
    for line in sys.stdin:
        request = json.loads(line)
        send(answer=_REQUESTS[request.pop("do")](spark, **request))
    spark.stop()


if __name__ == "__main__":
    main()
