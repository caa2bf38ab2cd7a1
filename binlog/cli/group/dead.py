"""`binlog group dead`: list, print, retry and drop the dead letters of a group."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import click

import binlog
from binlog.cli.amounts import count_text, size_text, things_text, time_text
from binlog.cli.commands import OrderedGroup
from binlog.cli.exits import ExitCode, opening
from binlog.cli.group.messages import MESSAGE_TEXT, json_line, message_object, short_text
from binlog.cli.group.options import name_argument, opened_control, time_from, wrong_usage
from binlog.cli.options import directory_argument, json_option, need_log, ref_from, seconds_from
from binlog.cli.output import write, write_line, write_table
from binlog.cli.records import Form, form_of, lines, null_option, object_line
from binlog.consumers import DeadLetter, drop_dead_letters, read_dead_letters

_Command = TypeVar("_Command", bound=Callable[..., Any])
_COLUMNS = ("SEQUENCE", "REF", "DIED", "DELIVERIES", "DEATHS", "REASON", "MESSAGE")
_REASON_SHOWN = 40
_JSON_TEXT = f"sequence, ref, origin, time, reason, deliveries, deaths, {MESSAGE_TEXT}"


@click.group("dead", cls=OrderedGroup, no_args_is_help=False, short_help="Messages that a group gave up.")
def dead() -> None:
    """Show the dead letters of a consumer group, deliver them again, or remove them.

    A message becomes a dead letter if its last delivery failed, if a member rejected it, if it expired, or if it is
    damaged. The dead letters are a log of their own in DIR/groups/NAME/dead, and stay there until they are dropped.
    """


def _pattern(context: click.Context, parameter: click.Parameter, value: str | None) -> re.Pattern[str] | None:
    try:
        return None if value is None else re.compile(value)
    except re.error as error:
        raise click.BadParameter(f"not a regular expression: {error}") from error


def filter_options(command: _Command) -> _Command:
    """Add --reason and --since."""
    reason = click.option(
        "--reason", metavar="REGEX", callback=_pattern, help="Only dead letters whose reason contains a match."
    )
    since = click.option(
        "--since",
        "since_ns",
        metavar="TIME",
        callback=time_from,
        help="Only messages that became dead letters then or later: 2025-01-31T12:00:00Z, or 5m, 2h or 1d for that "
        "long ago.",
    )
    return reason(since(command))


@dead.command("ls", short_help="List dead letters.")
@directory_argument
@name_argument
@filter_options
@json_option(f"Print a JSON object for each dead letter: {_JSON_TEXT}.")
def ls(directory: str, name: str, as_json: bool, **chosen: Any) -> None:
    """List the dead letters of the consumer group NAME of the log in DIR, oldest first.

    SEQUENCE is the message's number in the log in DIR, REF the place of the dead letter in the log of dead letters. A
    long reason or message is cut; --json prints all of it.
    """
    found = _chosen(directory, name, **chosen)
    if as_json:
        for letter in found:
            write(json_line(_as_object(letter)))
        return
    rows = [_row(letter) for letter in found]
    if rows:
        write_table(_COLUMNS, rows, left=("REASON", "MESSAGE"), droppable=("DEATHS", "REF", "DIED"))
    else:
        write_line("no dead letters")


@dead.command("cat", short_help="Print the bodies of dead letters.")
@directory_argument
@name_argument
@click.argument("sequences", metavar="[SEQUENCE]...", nargs=-1, type=click.IntRange(min=0))
@filter_options
@null_option("End each message with a NUL byte instead of a newline.")
@json_option(f"Print a JSON object for each dead letter: {_JSON_TEXT}.")
def cat(directory: str, name: str, sequences: tuple[int, ...], as_null: bool, as_json: bool, **chosen: Any) -> None:
    """Print the bodies of the dead letters of the consumer group NAME of the log in DIR, one on each line.

    If sequences are given, prints only the bodies of these messages. The bytes are printed as they are.
    """
    form = form_of(as_json=as_json, as_null=as_null)
    for letter in _chosen(directory, name, **chosen):
        if not sequences or letter.sequence in sequences:
            write(json_line(_as_object(letter)) if form is Form.JSON else lines([letter.body], form))


@dead.command("retry", short_help="Deliver dead letters to the group again.")
@directory_argument
@name_argument
@click.argument("sequences", metavar="[SEQUENCE]...", nargs=-1, type=click.IntRange(min=0))
@click.option("--all", "is_all", is_flag=True, help="All dead letters.")
@filter_options
@json_option('Print {"count":N,"impossible":[...]}, with the sequences of those that cannot be delivered.')
def retry(
    directory: str, name: str, sequences: tuple[int, ...], is_all: bool, as_json: bool, **chosen: Any
) -> ExitCode:
    """Deliver dead letters of the consumer group NAME of the log in DIR to this group again, and to no other one.

    Give the messages' sequences, or --reason or --since, or --all. Deliveries are counted from 1 again. The dead
    letters stay in their log. Exits with 1 if one cannot be delivered: it is outstanding, or retention removed the
    message.
    """
    if not is_all and not sequences and not any(chosen.values()):
        raise click.UsageError("give sequences, --reason, --since or --all")
    letters = {letter.sequence for letter in _chosen(directory, name, **chosen) if letter.sequence is not None}
    wanted = letters & set(sequences) if sequences and any(chosen.values()) else set(sequences) or letters
    with opened_control(directory, name) as control, wrong_usage():
        impossible = control.retry_dead(sorted(wanted))
    count = len(wanted) - len(impossible)
    if as_json:
        write_line(object_line({"count": count, "impossible": impossible}))
    else:
        write_line(f"delivering {things_text(count, 'message')} again")
        for sequence in impossible:
            write_line(f"message {sequence}: it is no dead letter, it is outstanding, or retention removed it")
    return ExitCode.FAILED if impossible else ExitCode.OK


@dead.command("drop", short_help="Remove dead letters.")
@directory_argument
@name_argument
@click.option("--all", "is_all", is_flag=True, help="Remove all dead letters.")
@click.option(
    "--keep-age",
    callback=seconds_from,
    metavar="TIME",
    help="Keep files with a dead letter that is younger than this: 12h, 30d.",
)
@click.option("--before", callback=ref_from, metavar="REF", help="Keep the file of this dead letter, and later files.")
@json_option('Print one JSON object: record_count, disk_bytes, and "files" with an object for each file.')
def drop(
    directory: str,
    name: str,
    is_all: bool,
    keep_age: float | None,
    before: binlog.Ref | None,
    as_json: bool,
) -> None:
    """Remove dead letters of the consumer group NAME of the log in DIR, oldest first, by whole files.

    The dead letters are a log. The command closes its open file, and then removes files as 'binlog prune' does; so it
    cannot remove a single dead letter. If it runs each night with --keep-age 30d, each file has the dead letters of
    a day. Dead letters that were removed cannot be delivered again.
    """
    if is_all == (keep_age is not None or before is not None):
        raise click.UsageError("give --all, or --keep-age or --before")
    with opening():
        need_log(directory)
        dropped = drop_dead_letters(directory, name, keep_seconds=keep_age, before=before)
    disk_bytes = sum(file.disk_bytes for file in dropped)
    count = sum(file.record_count or 0 for file in dropped)
    if as_json:
        files = [dataclasses.asdict(file) for file in dropped]
        write_line(object_line({"record_count": count, "disk_bytes": disk_bytes, "files": files}))
    else:
        write_line(f"removed {things_text(count, 'dead letter')}, {size_text(disk_bytes)} on disk")


def _chosen(
    directory: str, name: str, *, reason: re.Pattern[str] | None = None, since_ns: int | None = None
) -> Iterable[DeadLetter]:
    """Return the dead letters that the options choose.  Raises: CommandError."""
    with opening():
        need_log(directory)
        found = read_dead_letters(directory, name)
    return _filtered(found, reason, since_ns)


def _filtered(
    found: Iterable[DeadLetter], reason: re.Pattern[str] | None, since_ns: int | None
) -> Iterator[DeadLetter]:
    for letter in found:
        if reason is not None and not reason.search(letter.reason):
            continue
        if since_ns is None or letter.time_ns >= since_ns:
            yield letter


def _row(letter: DeadLetter) -> tuple[str, ...]:
    cut = letter.reason[:_REASON_SHOWN]
    return (
        "-" if letter.sequence is None else str(letter.sequence),
        str(letter.ref),
        time_text(letter.time_ns or None),
        count_text(letter.deliveries),
        count_text(letter.deaths),
        cut if cut == letter.reason else f"{cut}...",
        short_text(letter.body),
    )


def _as_object(letter: DeadLetter) -> dict[str, object]:
    return {
        "sequence": letter.sequence,
        "ref": str(letter.ref),
        "origin": letter.origin,
        "time": time_text(letter.time_ns) if letter.time_ns else None,
        "reason": letter.reason,
        "deliveries": letter.deliveries,
        "deaths": letter.deaths,
        **message_object(letter.body, letter.key, letter.headers),
    }


COMMANDS = (dead,)
