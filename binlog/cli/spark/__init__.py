"""`binlog spark`: run the jobs of binlog.spark.jobs; their help does not import PySpark.

A command checks its options, starts a session (`session`), calls the job and prints the result (`tables`, `display`).
"""

from __future__ import annotations

import click

from binlog.cli.commands import Commands


class SparkCommands(Commands):
    """The modules of this package as commands."""

    package = "binlog.cli.spark"
    names = ("extract", "follow", "verify", "stats")


@click.group("spark", cls=SparkCommands, no_args_is_help=False, short_help="Extract, follow, verify, count with Spark.")
def command() -> None:
    """Run jobs on Apache Spark over one or more logs, each with its DIR.

    They need PySpark, PyArrow and Java 17 or later: in a checkout, run pip install '.[spark]'. Each job starts Spark on
    this machine, shows its progress on standard error, and prints a table on standard output at the end.
    """
