"""Run a stream for a command, show its progress, and print its table."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from binlog.cli.amounts import count_text
from binlog.cli.exits import opening
from binlog.cli.output import printable, write_line, write_table
from binlog.cli.spark.display import Display
from binlog.cli.spark.options import SparkOptions
from binlog.cli.spark.output_options import OutputOptions
from binlog.cli.spark.session import need_spark, spark_session
from binlog.cli.spark.signals import DeferredSignals
from binlog.cli.spark.tables import rate_text, seconds_text

if TYPE_CHECKING:
    from binlog.spark.jobs import RunningStream, Selection, StreamTotals

_POLL_SECONDS = 0.25


def default_checkpoint(out: str) -> str:
    """Return the folder next to the output; inside it, readers would have to skip the folder."""
    return f"{out.rstrip('/')}.checkpoint"


def run_stream(
    what: str,
    selection: Selection,
    to: OutputOptions,
    options: SparkOptions,
    checkpoint: str,
    *,
    batch_bytes: int | None,
    interval: str | None = None,
) -> None:
    """Run a stream up to the current end of the logs or, with an interval between batches, until a signal.

    Prints the table however the stream ends.
    """
    need_spark()
    from binlog.spark.jobs import Selection, StreamOptions, choose, follow, follow_bad

    with opening():
        # Report wrong arguments before Spark is started.
        choose(selection)
        everything = choose(Selection(paths=selection.paths))
    bad_output = to.bad_output()

    def stream(part: str) -> StreamOptions:
        continuous = {} if interval is None else {"continuous": True, "interval": interval}
        return StreamOptions(checkpoint=f"{checkpoint}/{part}", batch_bytes=batch_bytes, **continuous)  # type: ignore[arg-type]

    with spark_session(options, folders=to.folders()) as (spark, signals):
        with Display(what, signals) as display:
            parsing = to.parsing(spark, everything, display.report, keep=checkpoint)

        def start() -> RunningStream:
            return follow(
                spark,
                selection,
                to.output(),
                stream("records"),
                columns=to.columns,
                parsing=parsing,
                bad_column=to.bad_column if bad_output is None else None,
            )

        def start_bad() -> RunningStream:
            assert bad_output is not None
            assert parsing is not None
            return follow_bad(spark, selection, bad_output, stream("bad"), parsing=parsing)

        def print_totals(done: StreamTotals, seconds: float) -> None:
            if to.finds_schema and parsing is not None:
                write_line(f"schema: {printable(str(parsing.schema))}")
            _print(done, seconds)

        starts = [start] if bad_output is None else [start, start_bad]
        # Run finite queries one after the other: two queries of one session sometimes interfere.
        for concurrent in [starts] if interval is not None else [[each] for each in starts]:
            _run(what, concurrent, print_totals if start in concurrent else None, signals)


def _run(
    what: str,
    starts: Sequence[Callable[[], RunningStream]],
    print_totals: Callable[[StreamTotals, float], None] | None,
    signals: DeferredSignals,
) -> None:
    """Run queries until one of them ends, and stop the others.  print_totals: called with the first one's totals."""
    begun = time.monotonic()
    running: list[RunningStream] = []
    try:
        with Display(what, signals) as display:
            running.extend(start() for start in starts)
            while not any(each.wait(_POLL_SECONDS / len(running)) for each in running):
                so_far = running[0].totals()
                display.report_records(so_far.batches, so_far.records)
    finally:
        done = [each.stop() for each in running]
        if done and print_totals is not None:
            print_totals(done[0], time.monotonic() - begun)


def _print(done: StreamTotals, seconds: float) -> None:
    for path, ref in done.ends.items():
        write_line(f"{printable(path)}: up to {ref}")
    write_table(
        ("BATCHES", "RECORDS", "GOOD", "BAD", "TIME UNKNOWN", "SECONDS", "RECORDS/S"),
        [
            (
                count_text(done.batches),
                count_text(done.records),
                count_text(done.records - done.bad_records),
                count_text(done.bad_records),
                count_text(done.unknown_times),
                seconds_text(seconds),
                rate_text(done.records / seconds),
            )
        ],
    )
