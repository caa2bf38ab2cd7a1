"""`binlog check`: report everything that is wrong with a log."""

from __future__ import annotations

import click

import binlog
from binlog.cli.exits import ExitCode, opening, print_problems
from binlog.cli.options import directory_argument, json_option


@click.command("check", short_help="Report damage; change nothing.")
@directory_argument
@json_option("Print a JSON object for each problem: path, offset, rule, text, end. Print nothing if there is none.")
def command(directory: str, as_json: bool) -> ExitCode:
    """Report everything that is wrong with the log in DIR and with its consumer groups, and change nothing.

    Prints a line for each problem: the file, the offset in it, what is wrong, and the rule that is broken. Exits with 1
    if there are any. Other processes may append meanwhile.
    """
    with opening():
        problems = binlog.check(directory)
    return print_problems(problems, as_json=as_json)
