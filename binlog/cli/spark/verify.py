"""`binlog spark verify`: check the files of many logs in parallel."""

from __future__ import annotations

import dataclasses

import click

from binlog.cli.amounts import count_text, size_text
from binlog.cli.exits import ExitCode, opening
from binlog.cli.options import json_option
from binlog.cli.output import write_line, write_table
from binlog.cli.records import object_line
from binlog.cli.spark.display import Display
from binlog.cli.spark.options import SparkOptions, directories_argument, need_logs, spark_options
from binlog.cli.spark.session import need_spark, spark_session
from binlog.cli.spark.tables import byte_rate_text, seconds_text


@click.command("verify", short_help="Check many files in parallel.")
@directories_argument
@json_option("Print a JSON object for each problem: directory, file, start, end, kind, text. Print nothing if none.")
@spark_options
def command(
    directories: tuple[str, ...],
    as_json: bool,
    master: str | None,
    settings: tuple[tuple[str, str], ...],
    log: str | None,
) -> ExitCode:
    """Check the logs in DIR..., many files in parallel, as 'binlog check' does: CRCs against the index, counts, gaps.

    Prints a row for each problem, then a table. Exits with 1 if there are any problems. Other processes may append
    meanwhile.
    """
    need_spark()
    from binlog.spark.jobs import Selection, verify

    with opening():
        need_logs(Selection(paths=directories))
    options = SparkOptions(master, settings, log)
    with spark_session(options) as (spark, signals), Display("verify", signals) as display:
        found = verify(spark, directories, report=display.report)
    if as_json:
        for problem in found.problems:
            write_line(object_line(dataclasses.asdict(problem)))
        return ExitCode.FAILED if found.problems else ExitCode.OK
    if found.problems:
        rows = [
            (each.directory, str(each.file), str(each.start), count_or_dash(each.end), each.kind, each.text)
            for each in found.problems
        ]
        write_table(("DIRECTORY", "FILE", "FROM", "TO", "KIND", "PROBLEM"), rows, left=("DIRECTORY", "KIND", "PROBLEM"))
        write_line("")
    rate = found.file_bytes / found.seconds if found.seconds else None
    write_table(
        ("PROBLEMS", "FILES", "RECORDS", "READ", "SECONDS", "RATE"),
        [
            (
                count_text(len(found.problems)),
                count_text(found.files),
                count_text(found.records),
                size_text(found.file_bytes),
                seconds_text(found.seconds),
                byte_rate_text(rate),
            )
        ],
    )
    return ExitCode.FAILED if found.problems else ExitCode.OK


def count_or_dash(value: int | None) -> str:
    """Format an offset; an unknown one is `-`."""
    return "-" if value is None else str(value)
