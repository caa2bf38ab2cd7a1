"""`binlog backup`: copy a log as it is at one moment."""

from __future__ import annotations

import dataclasses

import click

import binlog
from binlog.cli.amounts import size_text
from binlog.cli.exits import opening
from binlog.cli.options import directory_argument, json_option
from binlog.cli.output import write_line
from binlog.cli.records import object_line


@click.command("backup", short_help="Copy a log as it is at one moment.")
@directory_argument
@click.argument("out", type=click.Path(file_okay=False))
@json_option("Print one JSON object: path, first_number, tail, bytes.")
def command(directory: str, out: str, as_json: bool) -> None:
    """Copy the log in DIR to the new directory OUT, as it is at one moment.

    Other processes may append, cut over and prune meanwhile, in any mode. Everything that was acknowledged before is in
    the copy, which is a log to read and to append to. OUT must not exist, or be empty; it appears when the copy is
    complete, durably. A copy by cp or rsync may take one file from before a cutover and the next from after it.
    """
    with opening():
        made = binlog.backup(directory, out)
    if as_json:
        write_line(object_line({**dataclasses.asdict(made), "tail": str(made.tail)}))
        return
    write_line(f"copied {size_text(made.bytes)}, file {made.first_number} to {made.tail}")
