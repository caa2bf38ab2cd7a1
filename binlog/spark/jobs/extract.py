"""Extracting records once: those that are there now, in one job of Spark's."""

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
    """What an extract did.

    records: read, of which bad_records could not be parsed; those that could are in the output.
    unknown_times: of records whose time no index tells; None where the column was not asked for.
    files, file_bytes: of the output; None where it is not on this machine.  bad_files: of the bad records' own.
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
    """Write records to a folder of files, all of them or, where it fails, nothing.

    columns: some of source, number, offset, sequence, time and data; all of them unless told.  Not with `parsing`.
    parsing: makes columns of records.  One that cannot be parsed has its bytes in `bad_column`; with `bad_output` it is
    there, with its place and what is wrong with it, and not in the output, and a second job reads once more for that.
    Blocks: for the job.
    Raises: StateError where the output is there and may not be, or a parser gave other answers the second time;
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
    """Raise what `extract` would of its outputs: StateError, ValueError.  Needs no session, and so comes before it."""
    outputs = [each for each in (output, bad_output) if each is not None]
    check_places([each.path for each in chosen.ranges], outputs)
    for each in outputs:
        each.check()


def check_arguments(
    output: Output, *, columns: Sequence[str] | None, parsing: Parsing | None, bad_output: Output | None
) -> None:
    """Raise ValueError for what does not go together."""
    if parsing is not None and (columns is not None or output.format is Format.BINLOG):
        raise ValueError("what is parsed is written with all its columns, and not to a log")
    if bad_output is not None and parsing is None:
        raise ValueError("only what is parsed can be bad")
    if output.format is Format.BINLOG and columns is not None:
        raise ValueError("to another log goes the data alone")


def source_frame(
    reader: Any, chosen: Readable, output: Output, columns: Sequence[str] | None, parsing: Parsing | None
) -> Any:
    """What is read.  reader: of frames, or of streams."""
    if parsing is not None:
        return parsed_frame(reader, chosen, parsing)
    if output.format is Format.BINLOG:
        return plain_frame(reader, chosen, ["data"])
    every = [*(("source",) if chosen.several else ()), *PLACE_COLUMNS, "data"]
    return plain_frame(reader, chosen, every if columns is None else columns)


def shaped(frame: Any, output: Output, parsing: Parsing | None, *, bad_column: str | None) -> Any:
    """What is written of what was read.  bad_column: None where bad records are left out."""
    from pyspark.sql.functions import col

    if parsing is None:
        return as_text(frame, "data", "base64") if output.format.text and "data" in frame.columns else frame
    if bad_column is None:
        return frame.where("bad IS NULL").select(*good_columns(frame))
    if bad_column.lower() in {name.lower() for name in frame.schema["parsed"].dataType.names}:
        raise ValueError(f"a field is called {bad_column!r} too: bad_column names the column of bad records")
    found = frame.select(*good_columns(frame), col("bad").alias(bad_column))
    return as_text(found, bad_column, f"{bad_column}_base64") if output.format.text else found


def bad_frame(frame: Any, output: Output) -> Any:
    """The bad records of what was read: where each lies, its data, and what is wrong with it."""
    from pyspark.sql.functions import col

    places = [name for name in frame.columns if name in ("source", *PLACE_COLUMNS)]
    found = frame.where("bad IS NOT NULL").select(*places, col("bad").alias("data"), "error")
    return as_text(found, "data", "base64") if output.format.text else found


def counts_of(frame: Any) -> list[Any]:
    """The aggregates that are observed while a frame is written."""
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
            raise StateError(f"of the same records {expected} were bad at first, and then {found}")
        return unfinished.publish()
