"""Extract records as a stream, each exactly once: those since the last run, or all as they are appended.

Spark keeps the position in a checkpoint, and the output's `_spark_metadata` lists the files that count.  So if a run
dies in the middle of a batch, Spark reads no record twice from the output, and the next run resumes exactly there.

Facts relied on (Spark 4.2 and 4.3):

- The file sink skips a batch whose number is already in `_spark_metadata`.  So a new checkpoint over an old output
  would
  lose records: its first batches have the numbers of old ones.
- `recentProgress` has the last hundred triggers of a query, including those without records.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from binlog import Ref
from binlog.errors import StateError
from binlog.spark.jobs.extract import BAD_COLUMN, bad_frame, check_arguments, counts_of, shaped, source_frame
from binlog.spark.jobs.output import STREAM_METADATA, Format, Output, SaveMode, check_places, hadoop_path, has_files
from binlog.spark.jobs.parsing import Parsing
from binlog.spark.jobs.selection import Selection
from binlog.spark.local_session import sibling_session

_METRICS = "binlog"


@dataclass(frozen=True, kw_only=True)
class StreamTotals:
    """The work of a stream since it was started.

    batches: with records.  ends: for each log's directory, the ref at which the next batch starts.
    The others are as in ExtractResult.
    """

    batches: int = 0
    records: int = 0
    bad_records: int = 0
    unknown_times: int | None = None
    ends: Mapping[str, Ref]


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """How a stream runs.

    checkpoint: the folder for the position.  continuous: whether to run forever, or to stop at the current end.
    interval: between the batches of a continuous stream, in Spark's form: `10 seconds`.
    batch_bytes: the approximate size of a batch, in bytes of the logs; None for no limit.
    """

    checkpoint: str
    continuous: bool = False
    interval: str = "10 seconds"
    batch_bytes: int | None = None


class RunningStream:
    """A running stream.  Leaving its `with` block stops it; an unfinished batch is written again by the next run."""

    def __init__(self, query: Any) -> None:
        self._query = query
        self._seen: dict[int, dict[str, Any]] = {}

    def wait(self, seconds: float) -> bool:
        """Return whether it has ended within that time.  Raises: Spark's own errors if it failed."""
        ended = self._query.awaitTermination(seconds)
        self._read_progress()
        return bool(ended)

    def stop(self) -> StreamTotals:
        """Stop it and return its totals.  A second call only returns them."""
        if self._query.isActive:
            self._query.stop()
        return self.totals()

    def totals(self) -> StreamTotals:
        """Return its totals so far."""
        self._read_progress()
        observed = [each.get("observedMetrics", {}).get(_METRICS, {}) for each in self._seen.values()]
        times = [each["unknown_times"] for each in observed if each.get("unknown_times") is not None]
        last = self._seen[max(self._seen)] if self._seen else None
        return StreamTotals(
            batches=len(self._seen),
            records=sum(each["records"] for each in observed),
            bad_records=sum(each["bad"] for each in observed),
            unknown_times=sum(times) if times else None,
            ends={} if last is None else _refs(last["sources"][0]["endOffset"]),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _read_progress(self) -> None:
        for progress in self._query.recentProgress:
            found = json.loads(progress.json)
            if found.get("observedMetrics", {}).get(_METRICS, {}).get("records"):
                self._seen[found["batchId"]] = found


def follow(
    spark: Any,
    selection: Selection,
    output: Output,
    stream: StreamOptions,
    *,
    columns: Sequence[str] | None = None,
    parsing: Parsing | None = None,
    bad_column: str | None = BAD_COLUMN,
) -> RunningStream:
    """Start writing records, each once, to a folder of files or to another log, from the checkpoint's position.

    selection: its `since` is the start of a new checkpoint; it must have neither `until` nor `number`.
    bad_column: None to leave bad records out; `follow_bad` writes them.
    The other arguments are those of `extract`.
    Raises: StateError if the output and the checkpoint do not belong together; ValueError; Spark's own errors.
    """
    check_arguments(output, columns=columns, parsing=parsing, bad_output=None)
    frame = _frame(spark, selection, output, stream, columns, parsing)
    good = shaped(frame.observe(_METRICS, *counts_of(frame)), output, parsing, bad_column=bad_column)
    return _start(good, output, stream)


def follow_bad(
    spark: Any, selection: Selection, output: Output, stream: StreamOptions, *, parsing: Parsing
) -> RunningStream:
    """Start a stream of the bad records, with its own checkpoint and session, to run alongside the other stream."""
    frame = _frame(sibling_session(spark), selection, output, stream, None, parsing)
    return _start(bad_frame(frame.observe(_METRICS, *counts_of(frame)), output), output, stream)


@dataclass(frozen=True)
class _Source:
    """The logs that a stream reads, in the form of `source_frame`."""

    paths: tuple[str, ...]
    several: bool

    def load(self, reader: Any) -> Any:
        # PySpark's stream reader takes one path; the source accepts several in this option, as from a batch reader.
        return reader.option("paths", json.dumps(self.paths)).load()


def _frame(
    spark: Any,
    selection: Selection,
    output: Output,
    stream: StreamOptions,
    columns: Sequence[str] | None,
    parsing: Parsing | None,
) -> Any:
    if selection.until is not None or selection.number is not None:
        raise ValueError("a stream has no end and reads all files: do not give until or number")
    options = selection.options()
    check_places(options.paths, [output])
    reader = spark.readStream.format("binlog")
    if selection.since is not None:
        reader = reader.option("startingPosition", selection.since.isoformat())
    if stream.batch_bytes is not None:
        reader = reader.option("maxBytesPerTrigger", str(stream.batch_bytes))
    return source_frame(reader, _Source(options.paths, options.several), output, columns, parsing)


def _start(frame: Any, output: Output, stream: StreamOptions) -> RunningStream:
    _refuse(output, stream)
    checkpoint = _place(stream.checkpoint)
    writer = output.prepared(frame.writeStream).outputMode("append").option("checkpointLocation", checkpoint)
    when: dict[str, Any] = {"processingTime": stream.interval} if stream.continuous else {"availableNow": True}
    writer = writer.trigger(**when)
    local = output.local()
    is_log = output.format is Format.BINLOG
    return RunningStream(writer.start(output.path if local is None else str(local) if is_log else hadoop_path(local)))


def _place(path: str) -> str:
    local = replace(Output(path=path)).local()
    return path if local is None else hadoop_path(local)


def _refuse(output: Output, stream: StreamOptions) -> None:
    path, checkpoint = output.local(), Output(path=stream.checkpoint).local()
    if output.mode is SaveMode.OVERWRITE:
        raise ValueError("a stream can only append to its output")
    if path is None or checkpoint is None or output.format is Format.BINLOG:
        return
    noted, begun = (path / STREAM_METADATA).exists(), _has_begun(checkpoint)
    if noted and not begun:
        text = f"{path} was written by a stream, and {checkpoint} is not its checkpoint"
        raise StateError(f"{text}: Spark would take the first batches for old ones and skip them")
    if begun and not noted and any((checkpoint / "commits").glob("[0-9]*")):
        raise StateError(f"{checkpoint} belongs to another output than {path}, or the output was removed")
    # A first run that died leaves files that are not in `_spark_metadata`; the next run writes their records again.
    if not noted and not begun and has_files(path):
        raise StateError(f"{path} has files that no stream wrote; Spark would no longer read them")


def _has_begun(checkpoint: Path) -> bool:
    return any((checkpoint / "offsets").glob("[0-9]*"))


def _refs(offset: Any) -> dict[str, Ref]:
    """Return the refs in an offset of the source, as a progress report shows it."""
    places = json.loads(offset) if isinstance(offset, str) else offset
    return {path: Ref(place["number"], place["offset"]) for path, place in (places or {}).items()}
