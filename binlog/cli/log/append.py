"""`binlog append`: append each line of the input as a record."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import click

import binlog
from binlog.cli.amounts import things_text
from binlog.cli.exits import CommandError, ExitCode, opening, print_error, system_text
from binlog.cli.options import (
    byte_count_from,
    directory_argument,
    file_system_option,
    json_option,
    path_type,
    seconds_from,
    timeout_option,
)
from binlog.cli.output import write
from binlog.cli.records import LineTooLongError, batches, null_option, record_of, ref_lines
from binlog.errors import BinlogError, BusyError

_BATCH_RECORDS = 1000
_RECORD_BYTES_MAX = 64 << 20
# JSON may need six characters for one of a record.
_JSON_BYTES_MAX = 6 * _RECORD_BYTES_MAX + 1024


@click.command("append", short_help="Append each line of a file, or of standard input.")
@directory_argument
@click.argument("file", required=False, type=path_type())
@click.option(
    "--batch",
    "batch_records",
    type=click.IntRange(min=1),
    metavar="N",
    default=_BATCH_RECORDS,
    show_default=True,
    help="Sync after every N records, or earlier when the input pauses: a sync never waits for more input. Readers "
    "see the records of one sync all at once. 1 syncs each record alone.",
)
@click.option(
    "--mode",
    type=click.Choice([mode.name.lower() for mode in binlog.Mode]),
    default=binlog.Mode.SYNC.name.lower(),
    show_default=True,
    help="How far to bring the records of a batch before reading more: 'sync', to stable storage; 'flush', to the "
    "file, which is synced within 0.5 s; 'stage', to shared memory, which is written within 0.2 s. Everything is "
    "durable when the command ends.",
)
@click.option(
    "--cutover-bytes",
    callback=byte_count_from,
    metavar="BYTES",
    help="Close the open file and continue in the next one when it reaches this size: 512M, 1G.",
)
@click.option(
    "--cutover-age",
    callback=seconds_from,
    metavar="TIME",
    help="Close the open file when it has records and is this old: 15m, 12h, 1d.",
)
@null_option("Records end with a NUL byte, as from 'find -print0' and 'binlog cat -0', and may contain newlines.")
@click.option(
    "--from-json",
    "from_json",
    is_flag=True,
    help='Each line is a JSON object with the record as "text" or "base64", as \'binlog cat --json\' prints it. '
    "Use this for arbitrary bytes.",
)
@timeout_option
@file_system_option
@click.option("-q", "--quiet", is_flag=True, help="Do not print a summary.")
@json_option("Print a JSON object with its ref for each record, once the record is durable.")
def command(
    directory: str,
    file: str | None,
    batch_records: int,
    mode: str,
    cutover_bytes: int | None,
    cutover_age: float | None,
    timeout: float | None,
    file_system: str,
    as_null: bool,
    from_json: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Append each line of FILE, or of standard input, to the log in DIR.

    A record is a line without its newline, byte for byte; use --null or --from-json for records with newlines. Records
    are appended in batches: see --batch. By default they are synced, so that they survive a power cut, before readers
    can see them. If DIR does not exist, it is created. A summary goes to standard error.

    Ctrl-C ends the command; lines that were not acknowledged by then may or may not be in the log. After an error, the
    message says how many lines were appended.
    """
    if as_json and mode == "stage":
        raise click.UsageError("--json prints refs, and a staged record has no ref yet")
    if cutover_bytes == 0 or cutover_age == 0:
        raise click.UsageError("a limit must be more than 0")
    if as_null and from_json:
        raise click.UsageError("--null and --from-json cannot be used together")
    tally = _Tally()
    source = _Source(b"\0" if as_null else b"\n", from_json=from_json)
    with _input(file) as fd:
        with opening():
            writer = binlog.Writer(
                directory,
                mode=binlog.Mode[mode.upper()],
                cutover_bytes=cutover_bytes,
                cutover_seconds=cutover_age,
                lock_timeout=timeout,
                record_bytes_max=_RECORD_BYTES_MAX,
                file_system=binlog.FileSystem(file_system),
            )
        with writer:
            for refs in _append(writer, source.batches(fd, batch_records), tally, staged=mode == "stage"):
                if as_json:
                    write(ref_lines(refs))
    if not quiet and not as_json:
        print_error(str(tally))


class _Source:
    """Splits the input into records.  end: the byte that ends one.  from_json: whether each is a JSON object."""

    def __init__(self, end: bytes, *, from_json: bool) -> None:
        self._end = end
        self._from_json = from_json

    def batches(self, fd: int, count_max: int) -> Iterator[list[bytes]]:
        """Yield lists of records as they arrive, up to an error.  Raises: LineTooLongError, ValueError, OSError."""
        limit = _JSON_BYTES_MAX if self._from_json else _RECORD_BYTES_MAX
        for lines in batches(fd, count_max=count_max, line_bytes_max=limit, end=self._end):
            if not self._from_json:
                yield lines
                continue
            records: list[bytes] = []
            try:
                records.extend(map(record_of, lines))
            except ValueError:
                if records:
                    yield records
                raise
            yield records


class _Tally:
    """The records appended so far."""

    def __init__(self) -> None:
        self.count = 0
        self.first: binlog.Ref | None = None
        self.last: binlog.Ref | None = None

    def add(self, count: int, refs: Sequence[binlog.Ref]) -> None:
        self.count += count
        if refs:
            self.first = self.first or refs[0]
            self.last = refs[-1]

    def __str__(self) -> str:
        if self.first is None:
            return f"appended {things_text(self.count, 'record')}"
        refs = self.first if self.count == 1 else f"{self.first} to {self.last}"
        return f"appended {things_text(self.count, 'record')}, {refs}"


def _append(
    writer: binlog.Writer[binlog.Ref | None], batches: Iterable[list[bytes]], tally: _Tally, *, staged: bool
) -> Iterator[Sequence[binlog.Ref]]:
    try:
        for records in batches:
            if staged:
                for record in records:
                    writer.append(record)
                    tally.add(1, [])
                continue
            refs = writer.append_many(records)
            tally.add(len(records), refs)
            yield refs
    except LineTooLongError:
        problem = f"line {tally.count + 1} is longer than {_RECORD_BYTES_MAX} bytes"
        raise CommandError(f"{problem}; {tally}", ExitCode.FAILED) from None
    except ValueError as error:
        raise CommandError(f"line {tally.count + 1} {error}; {tally}", ExitCode.FAILED) from None
    except BinlogError as error:
        code = ExitCode.BUSY if isinstance(error, BusyError) else ExitCode.FAILED
        raise CommandError(f"{error}; {tally}", code) from error
    except OSError as error:
        raise CommandError(f"cannot read the input: {error.strerror}; {tally}", ExitCode.FAILED) from error


@contextmanager
def _input(file: str | None) -> Iterator[int]:
    if file is None or file == "-":
        yield 0
        return
    try:
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise CommandError(system_text(error), ExitCode.CANNOT_OPEN) from error
    try:
        yield fd
    finally:
        os.close(fd)
