"""The latency from an append to a sink: python -m stress.bench.spark.latency FOLDER SECONDS SINK [--default].

Records are appended one by one, each with its time in it, some 0.4 s apart, so that Spark idles before each.  A query
with the lowest trigger takes them to a sink: `foreach`, whose Python function is called for each row in a task, or
`binlog`, another log, whose reader waits for them.  Without --default, it uses the settings of
`binlog.spark.LOW_LATENCY`.  It prints the waits in nanoseconds, as a JSON list.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from binlog import Reader, Writer
from binlog.spark import LOW_LATENCY, session

_WARM_SECONDS = 6.0
_APART_SECONDS = (0.2, 0.6)
_LAST_SECONDS_MAX = 60.0


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
        # The first batch takes seconds, so records that wait for it are not measured.
        writer.append(b"%d" % time.time_ns())
        _wait(notes, 1)
        warm = 1 + _append(writer, _WARM_SECONDS)
        appended = warm + _append(writer, seconds)
        found = _wait(notes, appended)
        query.stop()
    if len(found) != appended:
        sys.exit(f"{appended} records were appended, but {len(found)} arrived")
    print(json.dumps([int(wait) for wait in found[warm:]]))


def _append(writer: Writer, seconds: float) -> int:
    """Append for `seconds`, and at least once; return the count."""
    until = time.monotonic() + seconds
    appended = 0
    while appended == 0 or time.monotonic() < until:
        time.sleep(random.uniform(*_APART_SECONDS))
        writer.append(b"%d" % time.time_ns())
        appended += 1
    return appended


def _wait(notes: Path, count: int) -> list[str]:
    """Return the notes as soon as there are `count`, or after a minute at most."""
    deadline = time.monotonic() + _LAST_SECONDS_MAX
    while len(found := notes.read_text().split()) < count and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


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
