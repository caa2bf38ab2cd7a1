"""`binlog journal export`: a journal as lines of text."""

from __future__ import annotations

from itertools import islice

import click

from binlog.cli.exits import ExitCode, opening
from binlog.cli.journal.options import Files, files_options
from binlog.cli.journal.print import report_damage
from binlog.cli.options import directory_argument
from binlog.cli.output import write
from binlog.journal import export_lines, read_records

_AT_ONCE = 256


@click.command("export", short_help="Write all records as lines of text.")
@directory_argument
@files_options
def command(directory: str, files: Files) -> ExitCode:
    """Write each record in DIR as a line of JSON to standard output, in the order of the appends.

    Exports every valid record, also deleted ones, with its state, its body in base64, and its place. The last line has
    the count of records. 'binlog journal import' creates a journal from the live ones.

    Reports damage, and exits with 1 if there is any.
    """
    with opening():
        records = read_records(directory, **files)
    lines = export_lines(records)
    while some := "".join(islice(lines, _AT_ONCE)):
        write(some.encode("ascii"))
    return report_damage(records)
