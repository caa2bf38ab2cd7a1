"""`binlog journal print`: print a line for each record."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice

import click

from binlog.cli.exits import ExitCode, opening, print_error
from binlog.cli.journal.options import Files, files_options
from binlog.cli.options import directory_argument, json_option
from binlog.cli.output import printable, write
from binlog.cli.records import content_json, quoted
from binlog.journal import JournalRecords, RecordKind, RecordState, StoredRecord, read_records, record_object

_AT_ONCE = 256
_SHOWN_BYTES = 60
_ID = click.IntRange(min=-(2**63), max=2**63 - 1)


@click.command("print", short_help="Print records.")
@directory_argument
@click.option("--id", "ids", type=_ID, multiple=True, metavar="ID", help="Only this record's; repeatable.")
@click.option("--tx", "tx_ids", type=_ID, multiple=True, metavar="TX", help="Only this transaction's; repeatable.")
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
def command(
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
