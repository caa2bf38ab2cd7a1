"""`binlog spark`: the jobs of binlog.spark.jobs.  PySpark is imported when one of them runs, not for their help."""

from __future__ import annotations

import click

from binlog.cli.commands import Commands


class SparkCommands(Commands):
    """The modules of this package."""

    package = "binlog.cli.spark"
    names = ("extract", "follow", "verify", "stats")


@click.group("spark", cls=SparkCommands, no_args_is_help=False, short_help="Extract, follow, verify, count with Spark.")
def command() -> None:
    """Jobs on Apache Spark, over one or more logs, each with its DIR.

    They need PySpark, PyArrow and Java 17 or later: in a checkout, pip install '.[spark]'. Each starts Spark on this
    machine, shows how far it is on standard error, and ends with a table on standard output.
    """
