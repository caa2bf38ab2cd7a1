"""`binlog journal check`: everything that is wrong with a journal."""

from __future__ import annotations

import os

import click

from binlog.cli.amounts import things_text
from binlog.cli.exits import ExitCode, opening
from binlog.cli.journal.options import Files, files_options
from binlog.cli.options import directory_argument, json_option
from binlog.cli.output import printable, write_line
from binlog.cli.problems import print_problems
from binlog.journal import check_journal

_QUARANTINE = "quarantine"


@click.command("check", short_help="Look for everything that is wrong.")
@directory_argument
@json_option("Print a JSON object for each problem: path, offset, rule, text, end. Nothing for none.")
@files_options
def command(directory: str, as_json: bool, files: Files) -> ExitCode:
    """Look for everything that is wrong with the journal in DIR, and repair nothing.

    Reads every record, and prints a line for each problem: the file, the offset in it, what is wrong, and the rule that
    is broken. Exits with 1 if there is any; what loads have set aside is told, and is none. May run while another
    process has the journal; after a crash it tells nothing of what the next one to load it does by itself.
    """
    with opening():
        problems = check_journal(directory, **files)
    code = print_problems(problems, as_json=as_json)
    aside = os.path.join(directory, _QUARANTINE)
    if not as_json and os.path.isdir(aside):
        write_line(f"{things_text(len(os.listdir(aside)), 'file')} that loads have set aside: {printable(aside)}")
    return code
