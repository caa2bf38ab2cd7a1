"""`binlog cat`: print all records."""

from __future__ import annotations

import click

import binlog
from binlog.cli.exits import CommandError, ExitCode, opening
from binlog.cli.looking.options import LookingOptions, looking_options
from binlog.cli.looking.printing import Printer, print_count, print_window
from binlog.cli.options import complete_file_number, complete_start, directories_argument, need_log, start_from


@click.command("cat", short_help="Print all records, or those that match.")
@directories_argument
@click.option(
    "--from",
    "start",
    metavar="REF|beginning",
    callback=start_from(binlog.Start.BEGINNING),
    shell_complete=complete_start(binlog.Start.BEGINNING),
    help="Start at the beginning, or at the record with this ref. [default: beginning]",
)
@click.option(
    "--file",
    "number",
    type=click.IntRange(min=1),
    metavar="N",
    shell_complete=complete_file_number,
    help="Print only the records of file N.",
)
@looking_options
def command(
    directories: tuple[str, ...],
    start: binlog.Ref | binlog.Start | None,
    number: int | None,
    options: LookingOptions,
) -> None:
    """Print all records of the log in DIR, one on each line, or those that match the options.

    The bytes are printed as they are. A record that contains newlines takes several lines; with --null, --json or
    another output format you can tell where it ends. If there are several logs, their records are printed in the order
    of the times at which they were appended, and each line names its log.

    If a record is damaged, the command prints everything before the damaged range (a commit, or 64 KiB of records),
    then the error, and exits with 1. Use --no-verify to print the records of the damaged range as they are.
    """
    first = start if isinstance(start, binlog.Ref) else None
    if number is not None and first is not None:
        raise click.UsageError("--from and --file cannot be used together")
    if options.is_timed and (number is not None or first is not None):
        raise click.UsageError("--since and --until cannot be used with --from or --file")
    if len(directories) > 1 and (number is not None or first is not None):
        raise click.UsageError("--file, and --from with a ref, need a single DIR")
    printer = Printer(options, named=len(directories) > 1)
    with opening():
        for directory in directories:
            need_log(directory)
        options.check_trust(directories)
        if number is not None:
            first = _first_of_file(directories[0], number)
        sources = options.sources(directories, first=first, number=number)
        for source in sources:
            source.check()  # an error of the start has another exit code than one on the way
    if options.count_only:
        print_count(sources, last=None)
        return
    printer.begin()
    print_window(printer, sources, last=None, reverse=options.reverse)


def _first_of_file(directory: str, number: int) -> binlog.Ref:
    for file in binlog.stat(directory).files:
        if file.number == number:
            return binlog.Ref(number, file.first_offset)
    raise CommandError(f"{directory} has no file {number}", ExitCode.CANNOT_OPEN)
