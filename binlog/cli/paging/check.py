"""`binlog paging check`: everything that is wrong with pages."""

from __future__ import annotations

import click

from binlog.cli.exits import ExitCode, opening
from binlog.cli.options import directory_argument, json_option
from binlog.cli.problems import print_problems
from binlog.paging import check_paging


@click.command("check", short_help="Look for everything that is wrong.")
@directory_argument
@json_option("Print a JSON object for each problem: path, offset, rule, text, end. Nothing for none.")
def command(directory: str, as_json: bool) -> ExitCode:
    """Look for everything that is wrong with the pages in DIR, and repair nothing.

    Reads every message and acknowledgement, and prints a line for each problem: the file, the offset in it, what is
    wrong, and the rule that is broken. Exits with 1 if there is any. After a crash it tells nothing of what the next
    process to open it leaves out by itself. The journal beside them is looked at by 'binlog journal check DIR/journal'.
    """
    with opening():
        problems = check_paging(directory)
    return print_problems(problems, as_json=as_json)
