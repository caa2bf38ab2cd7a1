"""`binlog check`: everything that is wrong with a log."""

from __future__ import annotations

import click

import binlog
from binlog.cli.exits import ExitCode, opening
from binlog.cli.options import directory_argument, json_option
from binlog.cli.output import printable, write_line
from binlog.cli.records import object_line


@click.command("check", short_help="Look for everything that is wrong.")
@directory_argument
@json_option("Print a JSON object for each problem: path, offset, rule, text, end. Nothing for none.")
def command(directory: str, as_json: bool) -> ExitCode:
    """Look for everything that is wrong with the log in DIR, and repair nothing.

    Prints a line for each problem: the file, the offset in it, what is wrong, and the rule that is broken. Exits with 1
    if there is any. May run while others append.
    """
    with opening():
        problems = binlog.check(directory)
    return tell(problems, as_json=as_json)


def tell(problems: list[binlog.Problem], *, as_json: bool) -> ExitCode:
    """Print a line for each problem, and what the process then returns."""
    for problem in problems:
        write_line(object_line(problem._asdict()) if as_json else printable(str(problem)))
    if not problems and not as_json:
        write_line("no problems found")
    return ExitCode.FAILED if problems else ExitCode.OK
