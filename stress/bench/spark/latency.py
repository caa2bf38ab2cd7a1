"""How long a record takes into a sink: python -m stress.bench.spark.latency FOLDER SECONDS SINK [--default].

Records are appended one by one, each with the time in it, some 0.4 s apart, so that Spark idles before each; a query
with the lowest trigger takes them to a sink: `foreach`, whose Python function is called for each row in a task, or
`binlog`, another log, whose reader waits for them.  Without --default, with the settings of
`binlog.spark.LOW_LATENCY`.  It prints the waits in nanoseconds, as a JSON list.
"""

from __future__ import annotations

import json
import math
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from binlog import Reader, Writer
from binlog.spark import LOW_LATENCY, session

_WARM_RECORDS = 15
_APART_SECONDS = (0.2, 0.6)
_LAST_SECONDS = 5.0


def main() -> None:
    """See the module."""
    folder, seconds, sink = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    settings = {"spark.ui.showConsoleProgress": "false", **({} if "--default" in sys.argv else LOW_LATENCY)}
    log, target, notes = folder / "log", folder / "target", folder / "notes"
    notes.touch()
    with Writer(log) as writer, session("binlog latency", cores=2, settings=settings) as spark:
        spark.sparkContext.setLogLevel("ERROR")
        records = spark.readStream.format("binlog").load(str(log)).select("data")
        writing = records.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        if sink == "foreach":
            query = writing.foreach(_note_in(str(notes))).start()
        else:
            with Writer(target):
                threading.Thread(target=_follow, args=(target, str(notes)), daemon=True).start()
            query = writing.format(sink).start(str(target))
        appended = _append(writer, seconds)
        deadline = time.monotonic() + _LAST_SECONDS
        while len(found := notes.read_text().split()) < appended and time.monotonic() < deadline:
            time.sleep(0.1)
        query.stop()
    if len(found) != appended:
        sys.exit(f"{appended} records were appended, and {len(found)} came")
    print(json.dumps([int(wait) for wait in found[_WARM_RECORDS:]]))


def _append(writer: Writer, seconds: float) -> int:
    appended = 0
    until = math.inf
    while time.monotonic() < until or appended <= _WARM_RECORDS:
        time.sleep(random.uniform(*_APART_SECONDS))
        writer.append(b"%d" % time.time_ns())
        appended += 1
        if appended == _WARM_RECORDS:
            until = time.monotonic() + seconds
    return appended


def _note_in(path: str) -> Callable[[Any], None]:
    def note(row: Any) -> None:
        now = time.time_ns()
        with open(path, "a") as notes:
            notes.write(f"{now - int(row.data)}\n")

    return note


def _follow(target: Path, path: str) -> None:
    with Reader(target) as reader, open(path, "a", buffering=1) as notes:
        notes.writelines(f"{time.time_ns() - int(entry.data)}\n" for entry in reader.tail())


if __name__ == "__main__":
    main()
