"""`binlog journal import`: create a journal from exported lines."""

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


@click.command("import", short_help="Create a journal from exported lines.")
@directory_argument
@click.option(
    "--file-bytes",
    type=click.IntRange(min=1024, max=_FILE_BYTES_MAX),
    metavar="N",
    help="Size of the new files, instead of the size of the exported ones.",
)
@files_options
def command(directory: str, file_bytes: int | None, files: Files) -> ExitCode:
    """Create a journal in DIR, a new or empty folder, from the lines of an export on standard input.

    Imports live records with their updates, in their transactions; prepared transactions stay prepared. Records that
    were deleted, rolled back or left open are not imported. The layout is native unless --layout is given. DIR gets its
    name after the journal is complete and durable; if a line is damaged or missing, nothing is left.
    """
    with opening():
        lines = ExportReader(sys.stdin.buffer, "standard input")
        size = file_bytes or lines.head.new_file_bytes
        options = JournalOptions(**files) if size is None else JournalOptions(**files, file_bytes=size)
    done = _import(directory, lines, options)
    prepared = things_text(done.prepared_count, "prepared transaction")
    write_line(f"{things_text(done.record_count, 'record')}, {prepared}; {done.skipped_count} skipped")
    return ExitCode.FAILED if done.skipped_count else ExitCode.OK


def _import(directory: str, lines: ExportReader, options: JournalOptions) -> Imported:
    try:
        return import_journal(directory, lines, options)
    except StateError as error:
        raise CommandError(str(error), ExitCode.CANNOT_OPEN) from error
    except ValueError as error:  # the layout has no field for a value
        raise CommandError(str(error), ExitCode.FAILED) from error
    except FullError as error:
        if error.size is None:
            raise
        raise CommandError(f"{error}; see --file-bytes", ExitCode.FAILED) from error
