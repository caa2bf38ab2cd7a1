"""`binlog tail`: print the last records, and follow."""

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
from binlog.cli.output import raise_without_reader, write
from binlog.cli.records import Form, batch_bytes, entries_bytes, form_of, null_option
from binlog.errors import GoneError

_COUNT = 10

# How often a waiting follower checks that its output still has a reader.
_POLL_SECONDS = 1.0
_WAIT_SECONDS = 0.1


@click.command("tail", short_help="Print the last records, and follow.")
@directory_argument
@click.option(
    "-n",
    "count",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"Print the last N records; with --grep, the last N that match. [default: {_COUNT}]",
)
@click.option("-f", "--follow", is_flag=True, help="Print records as they are appended, until Ctrl-C.")
@click.option("-F", "retry", is_flag=True, help="As -f; if DIR does not exist, wait until a writer creates it.")
@click.option(
    "--from",
    "start",
    metavar="REF|beginning|end",
    callback=start_from(binlog.Start.BEGINNING, binlog.Start.END),
    help="Start at this ref, at the beginning, or at the end (new records only), instead of the last N records.",
)
@since_option
@click.option(
    "--grep",
    "pattern",
    callback=pattern_from,
    metavar="REGEX",
    help="Print only records that match. The pattern matches bytes; start it with '(?i)' to ignore case.",
)
@click.option(
    "--position",
    "position_path",
    type=path_type(),
    metavar="FILE",
    help="Start at the ref stored in FILE, if it exists, and update it after printing. "
    "The next run resumes there: no record is skipped, and after a crash the last ones may be printed again. "
    "Without FILE, the first run starts as usual; add '--from beginning' to start with the first record. "
    "'binlog monitor' shows the lag of each FILE named *.position in DIR.",
)
@click.option(
    "--if-pruned",
    "if_pruned",
    type=click.Choice(["fail", "oldest"]),
    default="fail",
    show_default=True,
    help="If retention removed records before they were printed, exit with an error, or report the loss and continue "
    "with the oldest record.",
)
@no_verify_option
@null_option("End each record with a NUL byte instead of a newline, for 'xargs -0', 'binlog append -0' and others.")
@json_option('Print a JSON object for each record: ref, number, offset, and "text", or "base64" if it is not UTF-8.')
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
    """Print the last records of the log in DIR, one on each line; with -f, also each record that is appended.

    Only published records are printed. -f continues across cutovers.
    """
    if [count, start, since].count(None) < 2:
        raise click.UsageError("use only one of -n, --from and --since")
    form = form_of(as_json=as_json, as_null=as_null)
    follow = follow or retry
    while retry and not os.path.isdir(directory):
        raise_without_reader()
        time.sleep(_WAIT_SECONDS)
    if not follow:
        with opening():
            need_log(directory)
    printer = _Printer(directory, pattern, position_path, if_pruned, form, verify=verify)
    try:
        printer.start(start or since, _COUNT if count is None else count)
        printer.print_all()
        while follow:
            raise_without_reader()
            if printer.wait(_POLL_SECONDS):
                printer.print_all()
    finally:
        printer.close()


class _Printer:
    """Prints the records that match, and then stores the position after them."""

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
        """Start at the stored position; else at `start`; else print the last `count` records and start after them."""
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
                # A reader at the end of a log without files would skip the first records of the first file.
                start = binlog.stat(self._directory).tail or binlog.Start.BEGINNING
            if problem is None:
                self._reader = binlog.Reader(self._directory, start, verify=self._verify)
                return
        raise problem

    def print_all(self) -> None:
        """Print all new records."""
        reader = self._opened()
        try:
            while batch := reader.read_batch():
                write(self._bytes(batch))
                self._store(reader.next_ref)
            self._store(reader.next_ref)
        except GoneError as error:
            self._continue_at_oldest(reader.next_ref, error, ExitCode.FAILED)

    def wait(self, seconds: float) -> bool:
        """Wait for records, and return whether there are any, or an error that `print_all` will meet."""
        try:
            return self._opened().wait(seconds)
        except GoneError:
            return True

    def close(self) -> None:
        """Close the reader."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _resume(self, stored: binlog.Ref) -> None:
        """Open the log at the stored position."""
        assert self._position is not None
        try:
            with opening():
                self._reader = binlog.Reader(self._directory, stored, verify=self._verify)
        except CommandError as error:
            if isinstance(error.__cause__, GoneError):
                self._continue_at_oldest(stored, error.__cause__, error.code)
                return
            if isinstance(error.__cause__, ValueError):
                text = f"{error}; the position is not of this log: remove {self._position.path} to start over"
                raise CommandError(text, error.code) from error
            raise

    def _continue_at_oldest(self, ref: binlog.Ref, error: GoneError, code: ExitCode) -> None:
        """Continue with the oldest record, and report what was missed."""
        if self._if_pruned == "fail":
            text = f"{error}; use '--if-pruned oldest' to continue with the oldest record"
            raise CommandError(text, code) from error
        self.close()
        with opening():
            reader = self._reader = binlog.Reader(self._directory, verify=self._verify)
        oldest = reader.next_ref
        last = oldest.number - 1
        files = f"file {ref.number}" if last == ref.number else f"files {ref.number} to {last}"
        print_error(f"skipped the records from {ref} up to {oldest}: retention removed {files}")

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
