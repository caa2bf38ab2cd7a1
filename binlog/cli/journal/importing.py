"""`binlog journal import`: a new journal of exported lines."""

from __future__ import annotations

import sys

import click

from binlog.cli.amounts import things_text
from binlog.cli.exits import CommandError, ExitCode, opening
from binlog.cli.journal.options import Files, files_options
from binlog.cli.options import directory_argument
from binlog.cli.output import write_line
from binlog.errors import FullError, StateError
from binlog.journal import ExportReader, Imported, JournalOptions, import_journal

_FILE_BYTES_MAX = (1 << 31) - 1


@click.command("import", short_help="Make a journal of exported lines.")
@directory_argument
@click.option(
    "--file-bytes",
    type=click.IntRange(min=1024, max=_FILE_BYTES_MAX),
    metavar="N",
    help="The size of the new files, instead of the old ones'.",
)
@files_options
def command(directory: str, file_bytes: int | None, files: Files) -> ExitCode:
    """Make a journal in DIR, which is not there yet or empty, of the lines that export wrote, from standard input.

    What was there comes back, with its updates and in the transactions in which it was; prepared transactions stay
    prepared. What was deleted, rolled back or not ended does not. The layout is that of binlog unless --layout tells.
    DIR has its name once all of it is on the disk; where a line is damaged or missing, nothing is there.
    """
    with opening():
        lines = ExportReader(sys.stdin.buffer, "standard input")
        size = file_bytes or lines.head.new_file_bytes
        options = JournalOptions(**files) if size is None else JournalOptions(**files, file_bytes=size)
    done = _import(directory, lines, options)
    prepared = things_text(done.prepared_count, "prepared transaction")
    write_line(f"{things_text(done.record_count, 'record')}, {prepared}; {done.left_out} left out")
    return ExitCode.FAILED if done.left_out else ExitCode.OK


def _import(directory: str, lines: ExportReader, options: JournalOptions) -> Imported:
    try:
        return import_journal(directory, lines, options)
    except StateError as error:
        raise CommandError(str(error), ExitCode.CANNOT_OPEN) from error
    except ValueError as error:  # what the layout has no room for
        raise CommandError(str(error), ExitCode.FAILED) from error
    except FullError as error:
        if error.size is None:
            raise
        raise CommandError(f"{error}; see --file-bytes", ExitCode.FAILED) from error
