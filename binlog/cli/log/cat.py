"""`binlog cat`: print all records."""

from __future__ import annotations

import click

import binlog
from binlog.cli.exits import CommandError, ExitCode, opening
from binlog.cli.options import directory_argument, json_option, need_log, no_verify_option, since_option, start_from
from binlog.cli.output import write
from binlog.cli.records import batch_bytes, form_of, null_option


@click.command("cat", short_help="Print all records.")
@directory_argument
@click.option(
    "--from",
    "start",
    metavar="REF|beginning",
    callback=start_from(binlog.Start.BEGINNING),
    default=binlog.Start.BEGINNING.value,
    show_default=True,
    help="Start at the beginning, or at the record with this ref.",
)
@since_option
@click.option("--file", "number", type=click.IntRange(min=1), metavar="N", help="Print only the records of file N.")
@no_verify_option
@null_option("End each record with a NUL byte instead of a newline, for 'xargs -0', 'binlog append -0' and others.")
@json_option('Print a JSON object for each record: ref, number, offset, and "text", or "base64" if it is not UTF-8.')
def command(
    directory: str,
    start: binlog.Ref | binlog.Start,
    since: binlog.Since | None,
    number: int | None,
    verify: bool,
    as_null: bool,
    as_json: bool,
) -> None:
    """Print all records of the log in DIR, one on each line.

    The bytes are printed as they are. A record that contains newlines takes several lines; with --null or --json you
    can tell where it ends.

    If a record is damaged, the command prints everything before the damaged range (a commit, or 64 KiB of records),
    then the error, and exits with 1. Use --no-verify to print the records of the damaged range as they are.
    """
    form = form_of(as_json=as_json, as_null=as_null)
    if number is not None and isinstance(start, binlog.Ref):
        raise click.UsageError("--from and --file cannot be used together")
    if since is not None and (number is not None or isinstance(start, binlog.Ref)):
        raise click.UsageError("--since cannot be used with --from or --file")
    with opening():
        need_log(directory)
        place = (since or start) if number is None else _start_of_file(directory, number)
        reader = binlog.Reader(directory, place, follow=number is None, verify=verify)
    with reader:
        while batch := reader.read_batch():
            write(batch_bytes(batch, form))


def _start_of_file(directory: str, number: int) -> binlog.Ref:
    for file in binlog.stat(directory).files:
        if file.number == number:
            return binlog.Ref(number, file.first_offset)
    raise CommandError(f"{directory} has no file {number}", ExitCode.CANNOT_OPEN)
