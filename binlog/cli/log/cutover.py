"""`binlog cutover`: close the open file and continue in the next one."""

from __future__ import annotations

import click

import binlog
from binlog.cli.exits import opening
from binlog.cli.options import (
    complete_file_number,
    directory_argument,
    file_system_option,
    json_option,
    need_log,
    timeout_option,
)
from binlog.cli.output import write_line
from binlog.cli.records import object_line


@click.command("cutover", short_help="Close the open file; continue in the next.")
@directory_argument
@click.option(
    "--expected",
    type=click.IntRange(min=1),
    metavar="N",
    shell_complete=complete_file_number,
    help="Cut over only if N is the number of the open file, so that only one of several concurrent cutovers is made.",
)
@timeout_option
@file_system_option
@json_option('Print {"number": N}, the file that is open now.')
def command(directory: str, expected: int | None, timeout: float | None, file_system: str, as_json: bool) -> None:
    """Close the open file of the log in DIR and continue in the next one.

    Readers and writers in other processes follow automatically. The closed file never changes again: archive it, or
    give it to a daily job. The cutover is durable when the command ends.
    """
    with opening():
        need_log(directory)  # because a writer would create a log
        writer = binlog.Writer(directory, lock_timeout=timeout, file_system=binlog.FileSystem(file_system))
    with writer:
        number = writer.cutover(expected=expected)
    write_line(object_line({"number": number}) if as_json else f"file {number} is open now")
