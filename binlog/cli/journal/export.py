"""`binlog journal export`: a journal as lines of text."""

from __future__ import annotations

from itertools import islice

import click

from binlog.cli.exits import ExitCode, opening
from binlog.cli.journal.options import Files, files_options
from binlog.cli.journal.print import tell_damage
from binlog.cli.options import directory_argument
from binlog.cli.output import write
from binlog.journal import export_lines, read_records

_AT_ONCE = 256


@click.command("export", short_help="Write all records as lines of text.")
@directory_argument
@files_options
def command(directory: str, files: Files) -> ExitCode:
    """Write a line of JSON for each record in DIR, to standard output, in the order in which they were appended.

    Nothing is left out of what lies there and is sound: records that were deleted come too, each with its state, its
    body in base64, and where it lay. The last line tells how many there were. 'binlog journal import' makes a journal
    of what of them counts.

    What is damaged is told, and it exits with 1.
    """
    with opening():
        records = read_records(directory, **files)
    lines = export_lines(records)
    while some := "".join(islice(lines, _AT_ONCE)):
        write(some.encode("ascii"))
    return tell_damage(records)
