"""`binlog spark stats`: count records and bytes, by file and by hour."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from binlog.cli.amounts import count_text, size_text
from binlog.cli.exits import opening
from binlog.cli.options import json_option
from binlog.cli.output import write_line, write_table
from binlog.cli.records import object_line
from binlog.cli.spark.display import Display
from binlog.cli.spark.options import (
    SINCE_TEXT,
    UNTIL_TEXT,
    SparkOptions,
    directories_argument,
    need_logs,
    spark_options,
    time_option,
)
from binlog.cli.spark.session import need_spark, spark_session
from binlog.cli.spark.tables import byte_rate_text, rate_text, seconds_text

if TYPE_CHECKING:
    from binlog.spark.jobs import Stats


@click.command("stats", short_help="Count records, bytes and rates by file and hour.")
@directories_argument
@time_option("--since", SINCE_TEXT)
@time_option("--until", UNTIL_TEXT)
@json_option("Print one JSON object: totals, and 'files' and 'hours', with one object for each.")
@spark_options
def command(
    directories: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    as_json: bool,
    master: str | None,
    settings: tuple[tuple[str, str], ...],
    log: str | None,
) -> None:
    """Count the records of the logs in DIR..., and the bytes they take in the log, by file and by hour (UTC).

    The records per second of a file are counted from its first record's time to its last one's; those of an hour over
    the whole hour. The hour '-' counts the records whose time is not in the index.
    """
    need_spark()
    from binlog.spark.jobs import Selection, choose, stats

    selection = Selection(paths=directories, since=since, until=until)
    with opening():
        need_logs(selection)
        chosen = choose(selection)
    options = SparkOptions(master, settings, log)
    with spark_session(options) as (spark, signals), Display("stats", signals) as display:
        found = stats(spark, chosen, report=display.report)
    if as_json:
        write_line(object_line(as_object(found)))
    else:
        _print(found)


def as_object(found: Stats) -> dict[str, object]:
    """Return the statistics as --json prints them."""
    files = [
        {
            "directory": file.directory,
            "number": file.number,
            "records": file.records,
            "bytes": file.bytes,
            "first": _moment(file.first),
            "last": _moment(file.last),
            "records_per_second": file.records_per_second,
            "bytes_per_second": file.bytes_per_second,
        }
        for file in found.files
    ]
    hours = [{"hour": _moment(hour.hour), "records": hour.records, "bytes": hour.bytes} for hour in found.hours]
    return {"records": found.total.records, "bytes": found.total.bytes, "files": files, "hours": hours}


def _print(found: Stats) -> None:
    files = [
        (
            file.directory,
            str(file.number),
            count_text(file.records),
            size_text(file.bytes),
            _moment(file.first) or "-",
            _moment(file.last) or "-",
            rate_text(file.records_per_second),
            byte_rate_text(file.bytes_per_second),
        )
        for file in found.files
    ]
    names = ("DIRECTORY", "FILE", "RECORDS", "BYTES", "FIRST", "LAST", "RECORDS/S", "RATE")
    write_table(names, files, left=("DIRECTORY",))
    write_line("")
    hours = [
        (
            _moment(hour.hour) or "-",
            count_text(hour.records),
            size_text(hour.bytes),
            rate_text(hour.records_per_second),
            byte_rate_text(hour.bytes_per_second),
        )
        for hour in found.hours
    ]
    write_table(("HOUR", "RECORDS", "BYTES", "RECORDS/S", "RATE"), hours, left=("HOUR",))
    write_line("")
    total = (count_text(found.total.records), size_text(found.total.bytes), seconds_text(found.seconds))
    write_table(("RECORDS", "BYTES", "SECONDS"), [total])


def _moment(moment: datetime | None) -> str | None:
    """`2025-01-31T12:00:00Z`."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")
