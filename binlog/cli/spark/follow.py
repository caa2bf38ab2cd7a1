"""`binlog spark follow`: write records to Parquet and other formats as they are appended."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from binlog.cli.options import path_type, seconds_from
from binlog.cli.spark.options import SparkOptions, directories_argument, spark_options, time_option
from binlog.cli.spark.output_options import OutputOptions, batch_bytes_option, output_options
from binlog.cli.spark.session import need_spark
from binlog.cli.spark.streaming import default_checkpoint, run_stream


@click.command("follow", short_help="Write records as they are appended, until Ctrl-C.")
@directories_argument
@output_options
@time_option("--since", "Start the first run at this time, not at the beginning: 2025-01-31T12:00:00Z, 2025-01-31, 5m.")
@click.option(
    "--checkpoint",
    type=path_type(),
    metavar="DIR",
    help="The folder for the position. [default: OUT.checkpoint]",
)
@click.option(
    "--interval",
    default="10s",
    show_default=True,
    callback=seconds_from,
    metavar="TIME",
    help="The time between batches, each of which writes new files: 0s, 10s, 5min.",
)
@batch_bytes_option
@spark_options
def command(
    directories: tuple[str, ...],
    since: datetime | None,
    checkpoint: str | None,
    interval: float,
    batch_bytes: int | None,
    master: str | None,
    settings: tuple[tuple[str, str], ...],
    log: str | None,
    **given: Any,
) -> None:
    """Write the records of the logs in DIR... to OUT as they are appended, each exactly once, until Ctrl-C or SIGTERM.

    A later run, or 'extract --incremental' with the same OUT, resumes where this one ended. A reader that uses Spark
    sees each record in OUT exactly once, even after a crash. An interrupted batch is written again; its first files
    stay in OUT, but Spark ignores them.
    """
    to = OutputOptions(**given)
    to.check()
    need_spark()
    from binlog.spark.jobs import Selection

    run_stream(
        "follow",
        Selection(paths=directories, since=since),
        to,
        SparkOptions(master, settings, log),
        checkpoint or default_checkpoint(to.out),
        batch_bytes=batch_bytes,
        interval=f"{round(interval * 1000)} milliseconds",
    )
