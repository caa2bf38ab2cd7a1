"""`binlog check`: everything that is wrong with a log."""

from __future__ import annotations

import click

import binlog
from binlog.cli.exits import ExitCode, opening
from binlog.cli.options import directory_argument, json_option
from binlog.cli.problems import print_problems


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
    return print_problems(problems, as_json=as_json)
