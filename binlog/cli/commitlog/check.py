"""`binlog commitlog check`: report everything that is wrong with a store."""

from __future__ import annotations

import click

from binlog.cli.commitlog.options import key_slots_option
from binlog.cli.exits import ExitCode, opening, print_problems
from binlog.cli.options import directory_argument, json_option
from binlog.commitlog import check_store


@click.command("check", short_help="Report everything that is wrong.")
@directory_argument
@key_slots_option
@json_option("Print a JSON object for each problem: path, offset, rule, text, end. Nothing if there is none.")
def command(directory: str, key_slots: int | None, as_json: bool) -> ExitCode:
    """Report everything that is wrong with the store in DIR, and repair nothing.

    Reads and compares every message, every unit of a queue, and every entry of the key index. Prints a line for each
    problem: the file, the offset in it, the problem, and the rule that is broken. Exits with 1 if there is any. Can run
    while another process writes to the store. After a crash, it does not report what the next opening will recover.
    """
    with opening():
        problems = check_store(directory, key_slots=key_slots)
    return print_problems(problems, as_json=as_json)
