"""`binlog tail`: the last records, and those that come."""

from __future__ import annotations

import re

import click

import binlog
from binlog.cli.exits import opening
from binlog.cli.last_records import find_last, matching
from binlog.cli.options import directory_argument, json_option, need_log, path_type, pattern_from, start_from
from binlog.cli.output import refuse_without_reader, write
from binlog.cli.position import Position
from binlog.cli.records import batch_bytes, entries_bytes
from binlog.cli.times import since_option

_COUNT = 10

# How often a follower that waits looks whether anybody still reads what it prints.
_LOOK_SECONDS = 1.0


@click.command("tail", short_help="Print the last records, and follow.")
@directory_argument
@click.option(
    "-n",
    "count",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"The last N records (with --grep, of those that match). [default: {_COUNT}]",
)
@click.option("-f", "--follow", is_flag=True, help="Go on with what is appended, through cutovers, until Ctrl-C.")
@click.option(
    "--from",
    "start",
    metavar="REF|beginning|end",
    callback=start_from(binlog.Start.BEGINNING, binlog.Start.END),
    help="Start there, in place of the last N records: a ref, the beginning, or the end, for new records only.",
)
@since_option
@click.option(
    "--grep",
    "pattern",
    callback=pattern_from,
    metavar="REGEX",
    help="Only records that contain a match. Works on bytes; '(?i)' in front ignores case.",
)
@click.option(
    "--position",
    "position_path",
    type=path_type(),
    metavar="FILE",
    help="Start at the ref stored in FILE, if it is there, and keep it up to date with what was printed. "
    "A later run goes on from there: nothing is left out, and after a crash the last records may be printed again. "
    "A first run starts as it would without; '--from beginning' makes it start with all there is. "
    "'binlog monitor' shows how far behind a FILE is that is called *.position and lies in DIR.",
)
@json_option('Print a JSON object for each record: ref, number, offset, and "text", or "base64" where it is not UTF-8.')
def command(
    directory: str,
    count: int | None,
    follow: bool,
    start: binlog.Ref | binlog.Start | None,
    since: binlog.Since | None,
    pattern: re.Pattern[bytes] | None,
    position_path: str | None,
    as_json: bool,
) -> None:
    """Print the last records of the log in DIR, and with -f those that are appended, a line each.

    Only published records are ever seen, and with -f each as soon as it is published.
    """
    if [count, start, since].count(None) < 2:
        raise click.UsageError("-n, --from and --since exclude each other")
    if not follow:
        with opening():
            need_log(directory)
    printer = _Printer(pattern, position_path, as_json)
    reader = printer.start(directory, start or since, _COUNT if count is None else count)
    with reader:
        printer.print_all(reader)
        while follow:
            refuse_without_reader()
            if reader.wait(_LOOK_SECONDS):
                printer.print_all(reader)


class _Printer:
    """Prints what matches, and keeps the position behind what was printed."""

    def __init__(self, pattern: re.Pattern[bytes] | None, position_path: str | None, as_json: bool) -> None:
        self._pattern = pattern
        self._position = None if position_path is None else Position(position_path)
        self._as_json = as_json

    def start(
        self, directory: str, start: binlog.Ref | binlog.Since | binlog.Start | None, count: int
    ) -> binlog.Reader:
        """A reader at the stored position, else at `start`, else behind the last `count` records, which it prints."""
        stored = None if self._position is None else self._position.start
        if stored is not None:
            start = stored
        problem = None
        with opening():
            if start is None:
                found = find_last(directory, count, self._pattern)
                start, problem = found.after, found.problem
                write(entries_bytes(found.entries, as_json=self._as_json))
            elif start is binlog.Start.END:
                # A reader that waits for the first file at the end would pass over that file's first records.
                start = binlog.stat(directory).tail or binlog.Start.BEGINNING
            if problem is None:
                return binlog.Reader(directory, start)
        raise problem

    def print_all(self, reader: binlog.Reader) -> None:
        """Print what is there."""
        while batch := reader.read_batch():
            write(self._bytes(batch))
            self._store(reader.next_ref)
        self._store(reader.next_ref)

    def _bytes(self, batch: binlog.Batch) -> bytes:
        if self._pattern is None:
            return batch_bytes(batch, as_json=self._as_json)
        return entries_bytes(matching(batch, self._pattern), as_json=self._as_json)

    def _store(self, ref: binlog.Ref) -> None:
        if self._position is not None:
            self._position.store(ref)
