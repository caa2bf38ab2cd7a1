"""`binlog journal check`: find all damage in a journal."""

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


@click.command("check", short_help="Report everything that is wrong.")
@directory_argument
@json_option("Print a JSON object for each problem: path, offset, rule, text, end. Nothing for none.")
@files_options
def command(directory: str, as_json: bool, files: Files) -> ExitCode:
    """Report everything that is wrong with the journal in DIR, and repair nothing.

    Reads every record. Prints a line for each problem: the file, the offset in it, the problem, and the rule that is
    broken. Exits with 1 if there is any problem; quarantined files do not count. May run while another process has the
    journal open. After a crash, it does not report what the next load repairs by design.
    """
    with opening():
        problems = check_journal(directory, **files)
    code = print_problems(problems, as_json=as_json)
    quarantine = os.path.join(directory, _QUARANTINE)
    if not as_json and os.path.isdir(quarantine):
        write_line(f"{things_text(len(os.listdir(quarantine)), 'file')} in the quarantine: {printable(quarantine)}")
    return code
