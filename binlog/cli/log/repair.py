"""`binlog repair`: make a damaged log readable again and report the losses."""

from __future__ import annotations

import click

import binlog
from binlog.cli.exits import ExitCode, opening
from binlog.cli.options import directory_argument, file_system_option, json_option, timeout_option
from binlog.cli.output import printable, write_line
from binlog.cli.records import object_line


@click.command("repair", short_help="Quarantine damage, rebuild indexes.")
@directory_argument
@click.option("--dry-run", is_flag=True, help="Change nothing; print what would be done.")
@timeout_option
@file_system_option
@json_option("Print a JSON object for each action: path, offset, action, text. Print nothing if there is none.")
def command(directory: str, dry_run: bool, timeout: float | None, file_system: str, as_json: bool) -> ExitCode:
    """Repair the log in DIR as far as possible.

    Damaged records are moved to files named *.damaged. If the index says how many there were, the same number of
    fillers replace them, so that all other records keep their refs and sequence numbers; a filler begins with 'BINLOG
    DAMAGED'. If the index does not say, everything from the damage to the end of the file is moved. Indexes are
    completed or rebuilt.

    Prints a line for each action, and exits with 1 if 'binlog check' still finds problems. A loss counts as a problem
    as long as the *.damaged file is in DIR. Other processes may read and append meanwhile.
    """
    with opening():
        done = binlog.repair(
            directory, dry_run=dry_run, lock_timeout=timeout, file_system=binlog.FileSystem(file_system)
        )
        problems = binlog.check(directory)
    for each in done:
        write_line(object_line(each._asdict()) if as_json else printable(str(each)))
    if not done and not as_json:
        write_line("nothing to repair")
    return ExitCode.FAILED if problems else ExitCode.OK
