"""`binlog repair`: make a damaged log readable again, and tell what was lost."""

from __future__ import annotations

import click

import binlog
from binlog.cli.exits import ExitCode, opening
from binlog.cli.options import directory_argument, file_system_option, json_option, timeout_option
from binlog.cli.output import printable, write_line
from binlog.cli.records import object_line


@click.command("repair", short_help="Set damage aside, make indexes anew.")
@directory_argument
@click.option("--dry-run", is_flag=True, help="Only tell what would be done.")
@timeout_option
@file_system_option
@json_option("Print a JSON object for each thing done: path, offset, action, text. Nothing for none.")
def command(directory: str, dry_run: bool, timeout: float | None, file_system: str, as_json: bool) -> ExitCode:
    """Repair the log in DIR as far as that can be done.

    Damaged records are set aside in files called *.damaged. Where the index tells how many there were, as many fillers
    take their places, records that begin with 'BINLOG DAMAGED', and all others keep their refs and numbers. Where
    nothing tells, everything from the damage to the end of the file is set aside. Indexes are completed, or made anew.

    Prints a line for each thing done, and exits with 1 where 'binlog check' still finds problems; a loss is one for as
    long as the *.damaged file lies in DIR. Other processes may go on reading and appending.
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
