"""`binlog paging check`: report every problem of the pages."""

from __future__ import annotations

import click

from binlog.cli.exits import ExitCode, opening
from binlog.cli.options import directory_argument, json_option
from binlog.cli.problems import print_problems
from binlog.paging import check_paging


@click.command("check", short_help="Report every problem.")
@directory_argument
@json_option("Print a JSON object for each problem: path, offset, rule, text, end. Nothing if there is none.")
def command(directory: str, as_json: bool) -> ExitCode:
    """Check the pages in DIR, and report every problem; repair nothing.

    Reads every message and acknowledgement, and prints a line for each problem: the file, the offset, a description,
    and the rule that is violated. Exits with 1 if there is any. The remains of a crash that the next process cleans up
    are not a problem. Use 'binlog journal check DIR/journal' for the journal beside the pages.
    """
    with opening():
        problems = check_paging(directory)
    return print_problems(problems, as_json=as_json)
