"""`binlog backup`: make a consistent copy of a log."""

from __future__ import annotations

import dataclasses

import click

import binlog
from binlog.cli.amounts import size_text
from binlog.cli.exits import opening
from binlog.cli.options import directory_argument, json_option
from binlog.cli.output import write_line
from binlog.cli.records import object_line


@click.command("backup", short_help="Make a consistent copy of a log.")
@directory_argument
@click.argument("out", type=click.Path(file_okay=False))
@json_option("Print one JSON object: path, first_number, tail, bytes.")
def command(directory: str, out: str, as_json: bool) -> None:
    """Copy the log in DIR, as it is at one moment, to the new directory OUT.

    Other processes may append, cut over and prune meanwhile, in any mode. The copy contains everything acknowledged
    before the command started, and is a complete log. OUT must not exist or must be empty; it appears, durably, when
    the copy is complete. Do not copy a log with cp or rsync while it is written to: they may copy one file before a
    cutover and the next one after it.
    """
    with opening():
        made = binlog.backup(directory, out)
    if as_json:
        write_line(object_line({**dataclasses.asdict(made), "tail": str(made.tail)}))
        return
    write_line(f"copied {size_text(made.bytes)}, file {made.first_number} to {made.tail}")
