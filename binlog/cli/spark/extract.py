"""`binlog spark extract`: write records to Parquet and other formats, once."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from binlog.cli.amounts import count_text, size_text, things_text
from binlog.cli.exits import opening
from binlog.cli.options import path_type
from binlog.cli.output import printable, write_line, write_table
from binlog.cli.spark.display import Display
from binlog.cli.spark.options import (
    SINCE_TEXT,
    UNTIL_TEXT,
    SparkOptions,
    day_from,
    directories_argument,
    spark_options,
    time_option,
)
from binlog.cli.spark.output_options import OutputOptions, batch_bytes_option, output_options
from binlog.cli.spark.session import need_spark, spark_session
from binlog.cli.spark.streaming import default_checkpoint, run_stream
from binlog.cli.spark.tables import rate_text, seconds_text, size_or_unknown

if TYPE_CHECKING:
    from binlog.spark.jobs import ExtractResult, Parsing, Selection


@click.command("extract", short_help="Write records to Parquet and other formats.")
@directories_argument
@output_options
@click.option(
    "--mode",
    type=click.Choice(["error", "append", "overwrite"]),
    help="What to do if OUT exists. [default: error; append with --incremental]",
)
@time_option("--since", SINCE_TEXT)
@time_option("--until", UNTIL_TEXT)
@click.option("--day", callback=day_from, metavar="DATE", help="One day, in UTC: 2025-01-31, today or yesterday.")
@click.option("--file", "number", type=click.IntRange(min=1), metavar="N", help="Only the closed file N.")
@click.option(
    "--incremental",
    is_flag=True,
    help="Only the records appended since the last such run. The first run starts at the beginning, or at --since.",
)
@click.option(
    "--checkpoint",
    type=path_type(),
    metavar="DIR",
    help="The folder for the position of --incremental. [default: OUT.checkpoint]",
)
@batch_bytes_option
@spark_options
def command(
    directories: tuple[str, ...],
    mode: str | None,
    since: datetime | None,
    until: datetime | None,
    day: tuple[datetime, datetime] | None,
    number: int | None,
    incremental: bool,
    checkpoint: str | None,
    batch_bytes: int | None,
    master: str | None,
    settings: tuple[tuple[str, str], ...],
    log: str | None,
    **given: Any,
) -> None:
    """Write records of the logs in DIR... to OUT: all of them, a day, a closed file, or those since the last run.

    OUT gets the whole extract or nothing, however the command ends. Each record that was read is in OUT or, if it
    cannot be parsed, in the column or folder of bad records; the table counts both. The time of a record comes from the
    index; without one, it is the time of the file's last write.
    """
    to = OutputOptions(**given)
    to.check()
    if number is not None and (since or until or day):
        raise click.UsageError("--file cannot be used with --since, --until or --day")
    if day is not None and (since or until):
        raise click.UsageError("--day cannot be used with --since or --until")
    if incremental and (until or day or number is not None or mode in ("error", "overwrite")):
        raise click.UsageError("--incremental only appends: do not use --until, --day, --file or another --mode")
    if checkpoint is not None and not incremental:
        raise click.UsageError("--checkpoint needs --incremental")
    need_spark()
    from binlog.spark.jobs import Selection

    since, until = day or (since, until)
    selection = Selection(paths=directories, since=since, until=until, number=number)
    spark = SparkOptions(master, settings, log)
    if incremental:
        run_stream("extract", selection, to, spark, checkpoint or default_checkpoint(to.out), batch_bytes=batch_bytes)
    else:
        _extract(selection, to, mode or "error", spark)


def _extract(selection: Selection, to: OutputOptions, mode: str, spark_options: SparkOptions) -> None:
    from binlog.spark.jobs import check_outputs, choose, extract

    with opening():
        chosen = choose(selection)
    output, bad_output = to.output(mode), to.bad_output(mode)
    with opening():
        check_outputs(chosen, output, bad_output)
    with (
        spark_session(spark_options, folders=to.folders()) as (spark, signals),
        Display("extract", signals) as display,
    ):
        parsing = to.parsing(spark, chosen, display.report)
        done = extract(
            spark,
            chosen,
            output,
            columns=to.columns,
            parsing=parsing,
            bad_column=to.bad_column,
            bad_output=bad_output,
            report=display.report,
        )
    _print(done, parsing, to)


def _print(done: ExtractResult, parsing: Parsing | None, to: OutputOptions) -> None:
    for each in done.chosen.ranges:
        bounds = "no files yet" if each.start is None else f"{each.start} up to {each.end}, {size_text(each.log_bytes)}"
        write_line(f"{printable(each.path)}: {bounds}")
    if to.finds_schema and parsing is not None:
        source = "all records" if to.infer_from is None else f"the first {things_text(to.infer_from, 'record')}"
        write_line(f"schema inferred from {source}: {printable(str(parsing.schema))}")
    if done.bad_files:
        write_line(f"bad records: {printable(str(to.bad))}")
    rate = done.records / done.seconds if done.seconds else None
    write_table(
        ("RECORDS", "GOOD", "BAD", "TIME UNKNOWN", "READ", "FILES", "WRITTEN", "SECONDS", "RECORDS/S"),
        [
            (
                count_text(done.records),
                count_text(done.records - done.bad_records),
                count_text(done.bad_records),
                count_text(done.unknown_times),
                size_text(done.chosen.log_bytes),
                count_text(done.files),
                size_or_unknown(done.file_bytes),
                seconds_text(done.seconds),
                rate_text(rate),
            )
        ],
    )
