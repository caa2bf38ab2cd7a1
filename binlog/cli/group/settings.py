"""`binlog group create`, `set`, `pause`, `resume`, `reset`, `release` and `delete`."""

from __future__ import annotations

from typing import Any

import click

import binlog
from binlog.cli.amounts import things_text
from binlog.cli.exits import CommandError, ExitCode, opening
from binlog.cli.group.options import (
    PLACE_TEXT,
    name_argument,
    opened_control,
    place_from,
    retry_of,
    settings_options,
    wrong_usage,
)
from binlog.cli.options import directory_argument, json_option, need_log
from binlog.cli.output import printable, write_line
from binlog.cli.records import object_line
from binlog.cli.watching.texts import stat_object
from binlog.consumers import ConsumerGroup, Retry, stat_group
from binlog.errors import NotFoundError

_STAT_TEXT = "Print the group as 'binlog group stat --json'."
_RETRY = ("deliveries_max", "first", "factor", "most", "jitter")


@click.command("create", short_help="Create a group.")
@directory_argument
@name_argument
@click.option(
    "--start",
    callback=place_from,
    default=binlog.Start.BEGINNING.value,
    show_default=True,
    metavar="PLACE",
    help=f"The first message that the group gets: {PLACE_TEXT}.",
)
@click.option(
    "--order",
    type=click.Choice(["none", "strict", "relaxed"]),
    default="none",
    show_default=True,
    help="The order of messages with the same key: 'strict': one waits until all earlier ones are done or dead; "
    "'relaxed': one that waits for a retry lets later ones pass. It cannot be changed.",
)
@settings_options
@json_option(_STAT_TEXT)
def create(directory: str, name: str, start: Any, order: str, as_json: bool, **settings: Any) -> None:
    """Create the consumer group NAME of the log in DIR.

    A program that opens a group creates it too; this command is for settings other than the program's. If the group
    exists, nothing happens, and the exit code is 1.
    """
    with opening():
        need_log(directory)
        if _exists(directory, name):
            raise CommandError(f"{directory} has a consumer group {name!r} already", ExitCode.FAILED)
        binlog.Reader(directory, start).close()  # raises for a wrong place, before anything is made
        retry = retry_of(Retry(), **{each: settings.pop(each) for each in _RETRY})
        given = {key: value for key, value in settings.items() if value is not None}
        ConsumerGroup(directory, name, start=start, order=order, retry=retry, **given).close()
        created = stat_group(directory, name)
    if as_json:
        write_line(object_line(stat_object(created)))
    else:
        write_line(printable(f"created {name}, which begins with message {created.next}"))


def _exists(directory: str, name: str) -> bool:
    try:
        stat_group(directory, name)
    except NotFoundError:
        return False  # also if a process died while it created the group
    return True


@click.command("set", short_help="Change settings of a group.")
@directory_argument
@name_argument
@settings_options
@json_option(_STAT_TEXT)
def set_(directory: str, name: str, as_json: bool, **settings: Any) -> None:
    """Change settings of the consumer group NAME of the log in DIR, for all of its members at once.

    Settings that are not given stay as they are; 'binlog group stat' shows them. Messages that wait for a retry keep
    their due times.
    """
    if all(value is None for value in settings.values()):
        raise click.UsageError("give at least one setting")
    with opened_control(directory, name) as control, wrong_usage():
        given = {key: value for key, value in settings.items() if value is not None and key not in _RETRY}
        retry = retry_of(control.state().settings.retry, **{each: settings[each] for each in _RETRY})
        control.set(retry=retry, **given)
    if as_json:
        write_line(object_line(stat_object(stat_group(directory, name))))


@click.command("pause", short_help="Deliver no messages, until 'resume'.")
@directory_argument
@name_argument
@json_option('Print {"paused":true}.')
def pause(directory: str, name: str, as_json: bool) -> None:
    """Stop the delivery of messages to all members of the consumer group NAME of the log in DIR.

    'binlog group resume' continues the delivery. Messages that members have are not affected.
    """
    with opened_control(directory, name) as control:
        control.pause()
    if as_json:
        write_line(object_line({"paused": True}))


@click.command("resume", short_help="Deliver messages again.")
@directory_argument
@name_argument
@json_option('Print {"paused":false}.')
def resume(directory: str, name: str, as_json: bool) -> None:
    """Continue the delivery of messages to the consumer group NAME of the log in DIR, after 'binlog group pause'."""
    with opened_control(directory, name) as control:
        control.resume()
    if as_json:
        write_line(object_line({"paused": False}))


@click.command("reset", short_help="Deliver messages again from a place on, or skip some.")
@directory_argument
@name_argument
@click.option(
    "--to", required=True, callback=place_from, metavar="PLACE", help=f"The first message to deliver: {PLACE_TEXT}."
)
@click.option(
    "--keep-outstanding",
    is_flag=True,
    help="Also deliver earlier messages that were delivered and are not done; without this option, they count as done.",
)
@json_option('Print {"sequence":N}, with the sequence of the first message.')
def reset(directory: str, name: str, to: Any, keep_outstanding: bool, as_json: bool) -> None:
    """Move the consumer group NAME of the log in DIR to a place, from which it continues.

    Messages from the place on are delivered, even if they are done; earlier messages are skipped. Members may work
    meanwhile: their acknowledgements of earlier deliveries are refused.
    """
    with opened_control(directory, name) as control, wrong_usage():
        sequence = control.reset(to, keep_outstanding=keep_outstanding)
    if as_json:
        write_line(object_line({"sequence": sequence}))
    else:
        write_line(f"the group continues with message {sequence}")


@click.command("release", short_help="Take the messages from a member that hangs.")
@directory_argument
@name_argument
@click.argument("seat", type=click.IntRange(min=0))
@json_option('Print {"sequences":[...]}, with the messages that the member had.')
def release(directory: str, name: str, seat: int, as_json: bool) -> None:
    """Take all messages from the member with seat SEAT of the consumer group NAME of the log in DIR.

    For a member that is stopped or hangs: other members get its messages at once, as if it had died. If it continues,
    its acknowledgements are refused, and it joins again. 'binlog group stat' shows the seats.
    """
    with opened_control(directory, name) as control, wrong_usage():
        sequences = control.release(seat)
    if as_json:
        write_line(object_line({"sequences": sequences}))
    else:
        listed = f": {', '.join(map(str, sequences))}" if sequences else ""
        write_line(f"released {things_text(len(sequences), 'message')}{listed}")


@click.command("delete", short_help="Delete a group, with its dead letters.")
@directory_argument
@name_argument
@json_option('Print {"deleted":true}.')
def delete(directory: str, name: str, as_json: bool) -> None:
    """Delete the consumer group NAME of the log in DIR, with its history and its dead letters.

    The messages of the log are not affected. Members that work get an error. The group cannot be restored: a group of
    the same name that is created afterwards is another one.
    """
    with opened_control(directory, name) as control:
        control.delete()
    if as_json:
        write_line(object_line({"deleted": True}))


COMMANDS = (create, set_, pause, resume, reset, release, delete)
