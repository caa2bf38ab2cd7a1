"""`binlog import`: append the records of a file of another program."""

from __future__ import annotations

import click

from binlog.cli.amounts import size_text, things_text
from binlog.cli.exits import CommandError, ExitCode, opening, print_error
from binlog.cli.options import directory_argument, json_option, path_type
from binlog.cli.output import write_line
from binlog.cli.records import object_line
from binlog.errors import BinlogError, BusyError
from binlog.moving import Imported, ImportForm, import_records
from binlog.moving.importing.input_reader import InputError


@click.command("import", short_help="Append the records of a file of another program, each once.")
@directory_argument
@click.argument("file", type=path_type())
@click.option(
    "--from",
    "form",
    type=click.Choice([form.value for form in ImportForm]),
    required=True,
    help="'jsonl': each line is a record, and must be JSON. 'csv': each row becomes a JSON object, with names from the "
    "first row. 'journald': the output of 'journalctl -o export' or 'journalctl -o json', or a .journal file.",
)
@click.option(
    "--lenient",
    is_flag=True,
    help="Also accept rows with fewer or more values than names, and lines that are not JSON, as they are.",
)
@click.option(
    "--whole",
    is_flag=True,
    help="Also import a last line without a newline. By default it is left, because a program may be writing it.",
)
@click.option(
    "--name",
    default="journald",
    show_default=True,
    metavar="NAME",
    help="With 'journald': the stream whose place is kept. Streams with different filters of journalctl need "
    "different names.",
)
@click.option("-q", "--quiet", is_flag=True, help="Do not print a summary.")
@json_option("Print one JSON object: record_count, first, skipped_count, skipped_bytes, left_bytes.")
def command(
    directory: str, file: str, form: str, lenient: bool, whole: bool, name: str, quiet: bool, as_json: bool
) -> None:
    """Append the records of FILE to the log in DIR, which is created if it does not exist.

    The log keeps the place in FILE: the offset up to which it has FILE's records. So a later import appends only new
    records, and an import that was killed continues: each record is in the log once. FILE is recognised by its device,
    its inode and the bytes before the place, even after it was renamed. A copy is recognised too, if FILE was truncated
    after it was copied, as logrotate's 'copytruncate' does. A file that was written again, or that has the inode of an
    earlier one, is imported from its beginning.

    If FILE is '-' or a pipe, no place is kept. A record is durable when the pipe has paused or ended, and an import
    that is killed and started again appends all of its input again. Entries of systemd's journal are the exception: the
    log keeps the number of the last one, so each is appended once, even from a pipe.

    A summary goes to standard error. If a line is not in the format that --from names, everything before it is
    imported.
    """
    done = Imported()

    def note(imported: Imported) -> None:
        nonlocal done
        done = imported

    source = 0 if file == "-" else file
    try:
        with opening():
            done = import_records(directory, source, form, name=name, lenient=lenient, whole=whole, on_append=note)
    except CommandError as error:
        if not done.record_count and not isinstance(error.__cause__, ValueError):
            raise
        code = ExitCode.FAILED if done.record_count or isinstance(error.__cause__, InputError) else error.code
        raise CommandError(f"{error}; {_summary(done)}", code) from error
    except BinlogError as error:
        code = ExitCode.BUSY if isinstance(error, BusyError) else ExitCode.FAILED
        raise CommandError(f"{error}; {_summary(done)}", code) from error
    if as_json:
        first = None if done.first is None else str(done.first)
        left = done.left_bytes
        counts = {"skipped_count": done.skipped_count, "skipped_bytes": done.skipped_bytes}
        write_line(object_line({"record_count": done.record_count, "first": first, **counts, "left_bytes": left}))
    elif not quiet:
        print_error(_summary(done))


def _summary(done: Imported) -> str:
    text = f"imported {things_text(done.record_count, 'record')}"
    if done.first is not None:
        text += f", from {done.first} on"
    if done.skipped_bytes:
        text += f"; the first {size_text(done.skipped_bytes)} of the file were imported earlier"
    if done.skipped_count:
        text += f"; skipped {things_text(done.skipped_count, 'entry', 'entries')} that the log has already"
    if done.left_bytes:
        text += f"; the last {size_text(done.left_bytes)} are no complete record yet, and are left"
    return text
