"""`binlog cutover`: close the open file and go on in the next."""

from __future__ import annotations

import click

import binlog
from binlog.cli.exits import opening
from binlog.cli.options import directory_argument, file_system_option, json_option, need_log, timeout_option
from binlog.cli.output import write_line
from binlog.cli.records import object_line


@click.command("cutover", short_help="Close the open file, go on in the next.")
@directory_argument
@click.option(
    "--expected",
    type=click.IntRange(min=1),
    metavar="N",
    help="Cut over only where N is the number of the open file: of many who ask for that, one does it.",
)
@timeout_option
@file_system_option
@json_option('Print {"number": N}, the file that is open now.')
def command(directory: str, expected: int | None, timeout: float | None, file_system: str, as_json: bool) -> None:
    """Close the open file of the log in DIR and go on in the next one.

    Readers and writers in other processes move on by themselves. The closed file never changes again: archive it, or
    hand it to a daily job. Durable when the command ends: the cutover survives a power cut.
    """
    with opening():
        need_log(directory)  # a writer would make one
        writer = binlog.Writer(directory, lock_timeout=timeout, file_system=binlog.FileSystem(file_system))
    with writer:
        number = writer.cutover(expected=expected)
    write_line(object_line({"number": number}) if as_json else f"file {number} is open now")
