"""`binlog commitlog check`: everything that is wrong with a store."""

from __future__ import annotations

import click

from binlog.cli.commitlog.options import key_slots_option
from binlog.cli.exits import ExitCode, opening
from binlog.cli.options import directory_argument, json_option
from binlog.cli.problems import print_problems
from binlog.commitlog import check_store


@click.command("check", short_help="Look for everything that is wrong.")
@directory_argument
@key_slots_option
@json_option("Print a JSON object for each problem: path, offset, rule, text, end. Nothing for none.")
def command(directory: str, key_slots: int | None, as_json: bool) -> ExitCode:
    """Look for everything that is wrong with the store in DIR, and repair nothing.

    Reads every message, unit of a queue, and entry of the key index, and compares them. Prints a line for each problem:
    the file, the offset in it, what is wrong, and the rule that is broken. Exits with 1 if there is any. May run while
    another process writes to the store; after a crash it tells nothing of what the next one to open it recovers.
    """
    with opening():
        problems = check_store(directory, key_slots=key_slots)
    return print_problems(problems, as_json=as_json)
