"""`binlog journal`: inspect, export and import a journal."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import Any, TypedDict, TypeVar

import click

from binlog.cli.amounts import count_text, size_text, things_text, time_text
from binlog.cli.commands import OrderedGroup
from binlog.cli.exits import CommandError, ExitCode, opening, print_error, print_problems
from binlog.cli.options import directory_argument, json_option
from binlog.cli.output import printable, write, write_line, write_table
from binlog.cli.records import content_json, object_line, quoted
from binlog.errors import FullError, StateError
from binlog.journal import (
    ExportReader,
    FilePins,
    Imported,
    JournalFileStat,
    JournalLayout,
    JournalOptions,
    JournalRecords,
    JournalStat,
    RecordKind,
    RecordState,
    StoredRecord,
    check_journal,
    export_lines,
    import_journal,
    read_records,
    record_object,
    stat_journal,
)

_Command = TypeVar("_Command", bound=Callable[..., Any])
_FILES = ("FILE", "ID", "SIZE", "ON DISK", "BEGAN", "RECORDS", "LIVE", "LIVE SIZE")
_PINNED_BY = "PINNED BY"
_QUARANTINED = ("QUARANTINED", "SIZE")
_IDS_MAX = 3
_AT_ONCE = 256
_SHOWN_BYTES = 60
_ID = click.IntRange(min=-(2**63), max=2**63 - 1)
_QUARANTINE = "quarantine"
_FILE_BYTES_MAX = (1 << 31) - 1


@click.group("journal", cls=OrderedGroup, no_args_is_help=False, short_help="Inspect a journal of records by id.")
def command() -> None:
    """Inspect a journal in DIR, written by binlog.journal or by JBoss Messaging.

    All commands but import change nothing, and may run while another process has the journal open.

    A record has an id, a type from 0 to 255, and a body. An update of it has a type and a body too. The state of a
    record is live, updated (live, with a later update), deleted, open (in a transaction that was not ended), prepared,
    rolled_back, failed (its transaction is incomplete), void (it had no effect), or done (a delete, or the end of a
    transaction).
    """


class Files(TypedDict):
    """The arguments of read_records that say which files are a journal's, and their layout."""

    prefix: str
    extension: str
    layout: JournalLayout | None


def files_options(command: _Command) -> _Command:
    """Add --prefix, --extension and --layout to a command, which gets them as a Files named `files`."""

    def with_files(prefix: str, extension: str, layout: str | None, **others: Any) -> Any:
        files = Files(prefix=prefix, extension=extension, layout=None if layout is None else JournalLayout(layout))
        return command(files=files, **others)

    # click takes the options and the help text from the function that it gets.
    with_files.__doc__ = command.__doc__
    with_files.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for option in (
        click.option(
            "--layout",
            type=click.Choice([layout.value for layout in JournalLayout]),
            help="The layout of the files. By default, the layout of files with a four-byte header is recognised from "
            "their records; if these do not show it, 'jbm' is assumed. A new journal is 'native'.",
        ),
        click.option("--extension", metavar="E", default="jnl", show_default=True, help="See --prefix."),
        click.option("--prefix", metavar="P", default="journal", show_default=True, help="Files are named P-NUMBER.E."),
    ):
        option(with_files)
    return with_files  # type: ignore[return-value]


@command.command("stat", short_help="Show files, live records, and the owner.")
@directory_argument
@click.option("--pins", "with_pins", is_flag=True, help="Show why each file cannot be reused. Takes longer.")
@json_option('Print one JSON object: path, layout, owner, transactions, "files", "quarantine" and "unfinished".')
@files_options
def stat(directory: str, with_pins: bool, as_json: bool, files: Files) -> None:
    """Show the files of the journal in DIR, oldest first, and how many of their records are live.

    A file without records is free. Also shows quarantined files: loads have moved them to the folder quarantine because
    they were damaged, and nothing removes them. '-' means unknown or none.
    """
    with opening():
        journal = stat_journal(directory, with_pins=with_pins, **files)
    if as_json:
        write_line(object_line(_as_object(journal)))
        return
    layout = "no files" if journal.layout is None else f"layout {journal.layout.value}"
    records = f"{things_text(journal.record_count, 'record')}, {count_text(journal.live_count)} live"
    write_line(f"{printable(journal.path)}: {layout}, {records}, on disk {size_text(journal.disk_bytes)}")
    write_line("; ".join(_state(journal)))
    if journal.files:
        names = (*_FILES, _PINNED_BY) if with_pins else _FILES
        last = max((at for at, file in enumerate(journal.files) if file.is_used), default=-1)
        rows = [
            (*_row(file), *([_pins_text(file, is_last=at == last)] if with_pins else []))
            for at, file in enumerate(journal.files)
        ]
        write_table(names, rows, left=("FILE", _PINNED_BY))
    if journal.quarantine:
        write_table(_QUARANTINED, [(name, size_text(size)) for name, size in journal.quarantine], left=("QUARANTINED",))


def _row(file: JournalFileStat) -> tuple[str, ...]:
    return (
        os.path.basename(file.path),
        str(file.file_id),
        size_text(file.file_bytes),
        size_text(file.disk_bytes),
        time_text(file.began_ns),
        count_text(file.record_count) if file.is_used else "-",
        count_text(file.live_count) if file.is_used else "-",
        size_text(file.live_bytes) if file.is_used else "-",
    )


def _state(journal: JournalStat) -> list[str]:
    parts = [f"open in {journal.owner or 'another process'}" if journal.owned else "not open"]
    parts.append(f"transactions: {count_text(journal.prepared_count)} prepared, {count_text(journal.open_count)} open")
    if journal.unfinished:
        parts.append(f"unfinished, in use or left by a crash: {', '.join(map(printable, journal.unfinished))}")
    if journal.problem_count:
        parts.append(f"{things_text(journal.problem_count, 'problem')}, see 'binlog journal check'")
    return parts


def _pins_text(file: JournalFileStat, *, is_last: bool) -> str:
    if not file.is_used:
        return "-"
    if is_last:
        return "takes appends"
    return "nothing" if file.pins is None else ", ".join(_reasons(file.pins))


def _reasons(pins: FilePins) -> list[str]:
    reasons = []
    for ids, thing in ((pins.records, "record"), (pins.transactions, "transaction")):
        if ids:
            more = ", ..." if len(ids) > _IDS_MAX else ""
            reasons.append(f"{things_text(len(ids), thing)} ({', '.join(map(str, ids[:_IDS_MAX]))}{more})")
    if pins.must_outlive:
        reasons.append(f"deletes for {', '.join(pins.must_outlive)}")
    return reasons or ["transactions with records in earlier files"]


def _as_object(journal: JournalStat) -> dict[str, object]:
    """Return the journal as --json prints it."""
    sums = {name: getattr(journal, name) for name in ("record_count", "live_count", "disk_bytes")}
    layout = None if journal.layout is None else journal.layout.value
    files = [
        {**dataclasses.asdict(file), "pins": None if file.pins is None else file.pins._asdict()}
        for file in journal.files
    ]
    quarantine = [{"name": name, "file_bytes": size} for name, size in journal.quarantine]
    return {**dataclasses.asdict(journal), **sums, "layout": layout, "files": files, "quarantine": quarantine}


@command.command("print", short_help="Print records.")
@directory_argument
@click.option("--id", "ids", type=_ID, multiple=True, metavar="ID", help="Only records with this id; repeatable.")
@click.option(
    "--tx", "tx_ids", type=_ID, multiple=True, metavar="TX", help="Only records of this transaction; repeatable."
)
@click.option(
    "--kind",
    "kinds",
    type=click.Choice([kind.name.lower() for kind in RecordKind]),
    multiple=True,
    help="Only this kind; repeatable.",
)
@click.option(
    "--state",
    "states",
    type=click.Choice([state.name.lower() for state in RecordState]),
    multiple=True,
    help="Only this state; repeatable.",
)
@click.option("--count", type=click.IntRange(min=0), metavar="N", help="Print at most N records.")
@json_option('Print a JSON object for each record, with its body as "text", or as "base64" if it is not UTF-8.')
@files_options
def print_(
    directory: str,
    ids: tuple[int, ...],
    tx_ids: tuple[int, ...],
    kinds: tuple[str, ...],
    states: tuple[str, ...],
    count: int | None,
    as_json: bool,
    files: Files,
) -> ExitCode:
    """Print a line for each record in DIR, in the order of the appends.

    A line has the file and offset of the record, its kind, its state, and the beginning of its body.

    Skips damage, reports it at the end, and then exits with 1.
    """
    with opening():
        records = read_records(directory, **files)
    wanted = islice(_wanted(records, ids, tx_ids, kinds, states), count)
    while some := list(islice(wanted, _AT_ONCE)):
        write(b"".join(map(_json_line if as_json else _line, some)))
    return report_damage(records)


def report_damage(records: JournalRecords) -> ExitCode:
    """Print the problems to standard error, and return the exit code of the process."""
    for problem in records.problems:
        print_error(str(problem))
    return ExitCode.FAILED if records.problems else ExitCode.OK


def _wanted(
    records: JournalRecords,
    ids: Collection[int],
    tx_ids: Collection[int],
    kinds: Collection[str],
    states: Collection[str],
) -> Iterator[StoredRecord]:
    for record in records:
        if (
            (not ids or record.record_id in ids)
            and (not tx_ids or record.tx_id in tx_ids)
            and (not kinds or record.kind.name.lower() in kinds)
            and (not states or record.state.name.lower() in states)
        ):
            yield record


def _line(record: StoredRecord) -> bytes:
    fields = [f"{record.file}:{record.offset}", record.kind.name.lower(), record.state.name.lower()]
    for name, value in (("id", record.record_id), ("tx", record.tx_id), ("type", record.user_type)):
        if value is not None:
            fields.append(f"{name}={value}")
    fields += [f"file:{file_id}={count}" for file_id, count in record.counts]
    if record.body or record.user_type is not None:
        text = record.body[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")
        more = "..." if len(record.body) > _SHOWN_BYTES else ""
        fields.append(f"{len(record.body)} B {text}{more}")
    return f"{printable(' '.join(fields))}\n".encode("utf-8", "backslashreplace")


def _json_line(record: StoredRecord) -> bytes:
    fields = record_object(record)
    fields.pop("data", None)
    return f"{quoted(fields)[:-1]},{content_json(record.body)}}}\n".encode("utf-8", "backslashreplace")


@command.command("check", short_help="Report everything that is wrong.")
@directory_argument
@json_option("Print a JSON object for each problem: path, offset, rule, text, end. Nothing if there is none.")
@files_options
def check(directory: str, as_json: bool, files: Files) -> ExitCode:
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


@command.command("export", short_help="Write all records as lines of text.")
@directory_argument
@files_options
def export(directory: str, files: Files) -> ExitCode:
    """Write each record in DIR as a line of JSON to standard output, in the order of the appends.

    Exports every valid record, including deleted ones, with its state, its body in base64, and its place. The last line
    has the count of records. 'binlog journal import' creates a journal from the live ones.

    Reports damage, and exits with 1 if there is any.
    """
    with opening():
        records = read_records(directory, **files)
    lines = export_lines(records)
    while some := "".join(islice(lines, _AT_ONCE)):
        write(some.encode("ascii"))
    return report_damage(records)


@command.command("import", short_help="Create a journal from exported lines.")
@directory_argument
@click.option(
    "--file-bytes",
    type=click.IntRange(min=1024, max=_FILE_BYTES_MAX),
    metavar="N",
    help="Size of the new files, instead of the size of the exported ones.",
)
@files_options
def import_(directory: str, file_bytes: int | None, files: Files) -> ExitCode:
    """Create a journal in DIR, a new or empty folder, from the lines of an export on standard input.

    Imports live records with their updates, in their transactions; prepared transactions stay prepared. Records that
    were deleted, rolled back or left open are not imported. The layout is native unless --layout is given. DIR gets its
    name after the journal is complete and durable; if a line is damaged or missing, nothing is left.
    """
    with opening():
        lines = ExportReader(sys.stdin.buffer, "standard input")
        size = file_bytes or lines.head.new_file_bytes
        options = JournalOptions(**files) if size is None else JournalOptions(**files, file_bytes=size)
    done = _import(directory, lines, options)
    prepared = things_text(done.prepared_count, "prepared transaction")
    write_line(f"{things_text(done.record_count, 'record')}, {prepared}; {done.skipped_count} skipped")
    return ExitCode.FAILED if done.skipped_count else ExitCode.OK


def _import(directory: str, lines: ExportReader, options: JournalOptions) -> Imported:
    try:
        return import_journal(directory, lines, options)
    except StateError as error:
        raise CommandError(str(error), ExitCode.CANNOT_OPEN) from error
    except ValueError as error:  # the layout has no field for a value
        raise CommandError(str(error), ExitCode.FAILED) from error
    except FullError as error:
        if error.size is None:
            raise
        raise CommandError(f"{error}; see --file-bytes", ExitCode.FAILED) from error
