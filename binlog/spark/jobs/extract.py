"""Extract the records of logs once, in a Spark job."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from binlog.errors import StateError
from binlog.spark.jobs.output import Format, Output, Written, check_places, remove, write
from binlog.spark.jobs.parsing import (
    PLACE_COLUMNS,
    Parsing,
    Readable,
    as_text,
    good_columns,
    parsed_frame,
    plain_frame,
)
from binlog.spark.jobs.progress import Report, run_with_progress
from binlog.spark.jobs.selection import Chosen

BAD_COLUMN = "bad"


@dataclass(frozen=True, kw_only=True)
class ExtractResult:
    """The result of an extract.

    records: read, of which bad_records could not be parsed; the others are in the output.
    unknown_times: records whose time is not in the index; None if the column was not asked for.
    files, file_bytes: of the output; None if it is not local.  bad_files: of the output for bad records.
    """

    chosen: Chosen
    records: int
    bad_records: int
    unknown_times: int | None
    files: int | None
    file_bytes: int | None
    bad_files: int | None
    seconds: float


def extract(
    spark: Any,
    chosen: Chosen,
    output: Output,
    *,
    columns: Sequence[str] | None = None,
    parsing: Parsing | None = None,
    bad_column: str = BAD_COLUMN,
    bad_output: Output | None = None,
    report: Report | None = None,
) -> ExtractResult:
    """Write records to a folder of files: all of them or, after an error, none.

    columns: some of source, number, offset, sequence, time and data; by default, all.  Not with `parsing`.
    parsing: makes columns from records.  The bytes of a record that cannot be parsed go to `bad_column`; with
    `bad_output`, they go there instead, with the record's position and the reason, which takes a second job that reads
    the records again.
    Blocks until the job ends.
    Raises: StateError if the output exists and must not, or if a parser returned another result the second time;
    ValueError; Spark's own errors, with ours in their text.
    """
    check_arguments(output, columns=columns, parsing=parsing, bad_output=bad_output)
    check_outputs(chosen, output, bad_output)
    begun = time.monotonic()

    def run() -> ExtractResult:
        frame, counted = _observed(source_frame(spark.read.format("binlog"), chosen, output, columns, parsing))
        good = shaped(frame, output, parsing, bad_column=None if bad_output else bad_column)
        bad_written: Written | None = None
        with write(good, output) as unfinished:
            counts = counted()
            if bad_output is not None and counts["bad"]:
                bad_written = _write_bad(spark, chosen, parsing, bad_output, counts["bad"])
            elif bad_output is not None:
                remove(bad_output)
            written = unfinished.publish()
        return ExtractResult(
            chosen=chosen,
            records=counts["records"],
            bad_records=counts["bad"],
            unknown_times=counts["unknown_times"],
            files=written.files,
            file_bytes=written.file_bytes,
            bad_files=None if bad_written is None else bad_written.files,
            seconds=time.monotonic() - begun,
        )

    return run_with_progress(spark, run, report)


def check_outputs(chosen: Chosen, output: Output, bad_output: Output | None = None) -> None:
    """Raise the StateError or ValueError that `extract` would raise about its outputs.  Needs no session."""
    outputs = [each for each in (output, bad_output) if each is not None]
    check_places([each.path for each in chosen.ranges], outputs)
    for each in outputs:
        each.check()


def check_arguments(
    output: Output, *, columns: Sequence[str] | None, parsing: Parsing | None, bad_output: Output | None
) -> None:
    """Raise ValueError for arguments that cannot be used together."""
    if parsing is not None and (columns is not None or output.format is Format.BINLOG):
        raise ValueError("parsed records are written with all their columns, and not to a log")
    if bad_output is not None and parsing is None:
        raise ValueError("bad_output needs a parsing")
    if output.format is Format.BINLOG and columns is not None:
        raise ValueError("an output in binlog format takes no columns")


def source_frame(
    reader: Any, chosen: Readable, output: Output, columns: Sequence[str] | None, parsing: Parsing | None
) -> Any:
    """Return the frame to read.  reader: of frames or of streams."""
    if parsing is not None:
        return parsed_frame(reader, chosen, parsing)
    if output.format is Format.BINLOG:
        return plain_frame(reader, chosen, ["data"])
    every = [*(("source",) if chosen.several else ()), *PLACE_COLUMNS, "data"]
    return plain_frame(reader, chosen, every if columns is None else columns)


def shaped(frame: Any, output: Output, parsing: Parsing | None, *, bad_column: str | None) -> Any:
    """Return the columns to write.  bad_column: None to leave bad records out."""
    from pyspark.sql.functions import col

    if parsing is None:
        return as_text(frame, "data", "base64") if output.format.text and "data" in frame.columns else frame
    if bad_column is None:
        return frame.where("bad IS NULL").select(*good_columns(frame))
    if bad_column.lower() in {name.lower() for name in frame.schema["parsed"].dataType.names}:
        raise ValueError(f"the records have a field {bad_column!r}: choose another bad_column")
    found = frame.select(*good_columns(frame), col("bad").alias(bad_column))
    return as_text(found, bad_column, f"{bad_column}_base64") if output.format.text else found


def bad_frame(frame: Any, output: Output) -> Any:
    """Return the bad records: the position of each, its data, and the reason."""
    from pyspark.sql.functions import col

    places = [name for name in frame.columns if name in ("source", *PLACE_COLUMNS)]
    found = frame.where("bad IS NOT NULL").select(*places, col("bad").alias("data"), "error")
    return as_text(found, "data", "base64") if output.format.text else found


def counts_of(frame: Any) -> list[Any]:
    """Return the aggregates to observe while a frame is written."""
    from pyspark.sql.functions import col, count, lit

    bad = count(col("bad")) if "bad" in frame.columns else lit(0)
    unknown = count(lit(1)) - count(col("time")) if "time" in frame.columns else lit(None).cast("bigint")
    return [count(lit(1)).alias("records"), bad.alias("bad"), unknown.alias("unknown_times")]


def _observed(frame: Any) -> tuple[Any, Any]:
    from pyspark.sql import Observation

    observation = Observation()
    return frame.observe(observation, *counts_of(frame)), lambda: observation.get


def _write_bad(spark: Any, chosen: Chosen, parsing: Parsing | None, output: Output, expected: int) -> Written:
    frame, counted = _observed(source_frame(spark.read.format("binlog"), chosen, output, None, parsing))
    with write(bad_frame(frame, output), output) as unfinished:
        found = counted()["bad"]
        if found != expected:
            raise StateError(f"the parser found {expected} bad records at first, and {found} the second time")
        return unfinished.publish()
