"""`binlog tail`: the last records, and those that come."""

from __future__ import annotations

import os
import re
import time

import click

import binlog
from binlog.cli.exits import CommandError, ExitCode, opening, print_error
from binlog.cli.log.followers import Position
from binlog.cli.log.last_records import find_last, matching
from binlog.cli.options import (
    directory_argument,
    json_option,
    need_log,
    no_verify_option,
    path_type,
    pattern_from,
    since_option,
    start_from,
)
from binlog.cli.output import refuse_without_reader, write
from binlog.cli.records import Form, batch_bytes, entries_bytes, form_of, null_option
from binlog.errors import GoneError

_COUNT = 10

# How often a follower that waits looks whether anybody still reads what it prints.
_POLL_SECONDS = 1.0
_WAIT_SECONDS = 0.1


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
@click.option("-F", "retry", is_flag=True, help="As -f, and if there is no DIR yet, wait until a writer makes it.")
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
@click.option(
    "--if-pruned",
    "if_pruned",
    type=click.Choice(["fail", "oldest"]),
    default="fail",
    show_default=True,
    help="What to do if retention removed records before they were printed: end with an error, or say what is missed "
    "and go on with the oldest record.",
)
@no_verify_option
@null_option("End each record with a NUL byte instead of a newline, for 'xargs -0', 'binlog append -0' and others.")
@json_option('Print a JSON object for each record: ref, number, offset, and "text", or "base64" where it is not UTF-8.')
def command(
    directory: str,
    count: int | None,
    follow: bool,
    start: binlog.Ref | binlog.Start | None,
    since: binlog.Since | None,
    pattern: re.Pattern[bytes] | None,
    position_path: str | None,
    if_pruned: str,
    retry: bool,
    verify: bool,
    as_null: bool,
    as_json: bool,
) -> None:
    """Print the last records of the log in DIR, and with -f those that are appended, a line each.

    Only published records are ever seen, and with -f each as soon as it is published.
    """
    if [count, start, since].count(None) < 2:
        raise click.UsageError("-n, --from and --since exclude each other")
    form = form_of(as_json=as_json, as_null=as_null)
    follow = follow or retry
    while retry and not os.path.isdir(directory):
        refuse_without_reader()
        time.sleep(_WAIT_SECONDS)
    if not follow:
        with opening():
            need_log(directory)
    printer = _Printer(directory, pattern, position_path, if_pruned, form, verify=verify)
    try:
        printer.start(start or since, _COUNT if count is None else count)
        printer.print_all()
        while follow:
            refuse_without_reader()
            if printer.wait(_POLL_SECONDS):
                printer.print_all()
    finally:
        printer.close()


class _Printer:
    """Prints what matches, and keeps the position behind what was printed."""

    def __init__(
        self,
        directory: str,
        pattern: re.Pattern[bytes] | None,
        position_path: str | None,
        if_pruned: str,
        form: Form,
        *,
        verify: bool,
    ) -> None:
        self._directory = directory
        self._pattern = pattern
        self._position = None if position_path is None else Position(position_path)
        self._if_pruned = if_pruned
        self._form = form
        self._verify = verify
        self._reader: binlog.Reader | None = None

    def start(self, start: binlog.Ref | binlog.Since | binlog.Start | None, count: int) -> None:
        """Begin at the stored position, else at `start`, else after the last `count` records, which it prints."""
        stored = None if self._position is None else self._position.start
        if stored is not None:
            self._resume(stored)
            return
        problem = None
        with opening():
            if start is None:
                found = find_last(self._directory, count, self._pattern, verify=self._verify)
                start, problem = found.after, found.problem
                write(entries_bytes(found.entries, self._form))
            elif start is binlog.Start.END:
                # A reader that waits for the first file at the end would pass over that file's first records.
                start = binlog.stat(self._directory).tail or binlog.Start.BEGINNING
            if problem is None:
                self._reader = binlog.Reader(self._directory, start, verify=self._verify)
                return
        raise problem

    def print_all(self) -> None:
        """Print what is there."""
        reader = self._opened()
        try:
            while batch := reader.read_batch():
                write(self._bytes(batch))
                self._store(reader.next_ref)
            self._store(reader.next_ref)
        except GoneError as error:
            self._continue_at_oldest(reader.next_ref, error, ExitCode.FAILED)

    def wait(self, seconds: float) -> bool:
        """Wait for records; whether there are any, or an error that `print_all` meets."""
        try:
            return self._opened().wait(seconds)
        except GoneError:
            return True

    def close(self) -> None:
        """Give the reader back."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _resume(self, stored: binlog.Ref) -> None:
        """Open the log at a stored position."""
        assert self._position is not None
        try:
            with opening():
                self._reader = binlog.Reader(self._directory, stored, verify=self._verify)
        except CommandError as error:
            if isinstance(error.__cause__, GoneError):
                self._continue_at_oldest(stored, error.__cause__, error.code)
                return
            if isinstance(error.__cause__, ValueError):
                text = f"{error}; the position is not of this log: remove {self._position.path} to start afresh"
                raise CommandError(text, error.code) from error
            raise

    def _continue_at_oldest(self, ref: binlog.Ref, error: GoneError, code: ExitCode) -> None:
        """Begin with the oldest record, and tell what was missed before it."""
        if self._if_pruned == "fail":
            text = f"{error}; '--if-pruned oldest' goes on with the oldest record that is there"
            raise CommandError(text, code) from error
        self.close()
        with opening():
            reader = self._reader = binlog.Reader(self._directory, verify=self._verify)
        oldest = reader.next_ref
        last = oldest.number - 1
        files = f"file {ref.number}" if last == ref.number else f"files {ref.number} to {last}"
        print_error(f"missed: all from {ref} up to {oldest}, in {files}, which retention removed")

    def _opened(self) -> binlog.Reader:
        assert self._reader is not None
        return self._reader

    def _bytes(self, batch: binlog.Batch) -> bytes:
        if self._pattern is None:
            return batch_bytes(batch, self._form)
        return entries_bytes(matching(batch, self._pattern), self._form)

    def _store(self, ref: binlog.Ref) -> None:
        if self._position is not None:
            self._position.store(ref)
