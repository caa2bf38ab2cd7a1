"""`binlog group log` and `check`: what happened in a group, and whether it is whole."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime

import click

from binlog.cli.exits import ExitCode, opening, print_problems
from binlog.cli.group.options import name_argument
from binlog.cli.options import directory_argument, json_option, need_log
from binlog.cli.output import printable, write_line
from binlog.cli.records import object_line
from binlog.consumers import Event, check_group, clock_offset, events, group_names

_WORD_WIDTH = 10
_MICROSECONDS = 1000


@click.command("log", short_help="Print what happened in a group.")
@directory_argument
@name_argument
@click.option("--item", type=click.IntRange(min=0), metavar="SEQUENCE", help="Only events about this message.")
@click.option("-n", "count", type=click.IntRange(min=1), metavar="N", help="Only the last N events.")
@json_option("Print a JSON object for each event: place, time, seat, what, sequence, delivery, detail.")
def log(directory: str, name: str, item: int | None, count: int | None, as_json: bool) -> None:
    """Print what happened in the consumer group NAME of the log in DIR, oldest first.

    A line has the time, the member's seat or '-', a word for the event, the message's sequence, the delivery, and
    details. The history goes back as far as the group's own log, which keeps about 64 MiB. If the clock was set after a
    member joined the group in this boot, times may differ from the wall clock.
    """
    with opening():
        need_log(directory)
        found: Iterable[Event] = events(directory, name, item=item)
        offset_ns = clock_offset(directory, name)
    if count is not None:
        found = deque(found, count)
    for event in found:
        write_line(object_line(_as_object(event, offset_ns)) if as_json else printable(_line(event, offset_ns)))


def _time(event: Event, offset_ns: int) -> str | None:
    """Format the time of an event; None if the group's clock was not set yet."""
    if not event.time_ns:
        return None
    try:
        moment = datetime.fromtimestamp((event.time_ns - offset_ns) // 10**9, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    moment = moment.replace(microsecond=(event.time_ns - offset_ns) % 10**9 // _MICROSECONDS)
    return f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def _line(event: Event, offset_ns: int) -> str:
    message = "" if event.sequence is None else f"message {event.sequence}"
    if event.delivery is not None:
        message += f", delivery {event.delivery}"
    text = ": ".join(part for part in (message, event.detail) if part)
    seat = "-" if event.seat is None else str(event.seat)
    return f"{_time(event, offset_ns) or '-':24}  {seat:>4}  {event.what:{_WORD_WIDTH}}  {text}".rstrip()


def _as_object(event: Event, offset_ns: int) -> dict[str, object]:
    return {
        "place": str(event.place),
        "time": _time(event, offset_ns),
        "seat": event.seat,
        "what": event.what,
        "sequence": event.sequence,
        "delivery": event.delivery,
        "detail": event.detail,
    }


@click.command("check", short_help="Report damage of a group; change nothing.")
@directory_argument
@click.argument("name", metavar="[NAME]", required=False)
@json_option("Print a JSON object for each problem: path, offset, rule, text, end. Print nothing if there is none.")
def check(directory: str, name: str | None, as_json: bool) -> ExitCode:
    """Report everything that is wrong with the consumer group NAME of the log in DIR, or with all of its groups.

    Checks the group's log and the log of its dead letters, applies all operations, compares the states with the
    checkpoints, and compares the group with the messages that the log still has, and with the dead letters. Prints a
    line for each problem, and exits with 1 if there are any. Members may work meanwhile. 'binlog check DIR' checks the
    groups too.
    """
    with opening():
        need_log(directory)
        names = group_names(directory) if name is None else [name]
        problems = [problem for each in names for problem in check_group(directory, each)]
    return print_problems(problems, as_json=as_json)


COMMANDS = (log, check)
