"""Options that the commands for a store share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

import binlog
from binlog.cli.exits import CommandError, ExitCode
from binlog.cli.options import parse_since
from binlog.commitlog import StoreReader

_Command = TypeVar("_Command", bound=Callable[..., Any])
_OFFSET_MAX = 2**63 - 1
_QUEUE_MAX = 2**31 - 1

JSON_TEXT = (
    'Print a JSON object for each message: all its fields, its properties, and its body as "text", or as "base64" '
    "if it is not UTF-8."
)


def offset_type() -> click.IntRange:
    """Return the type of an offset in the commit log or in a queue."""
    return click.IntRange(min=0, max=_OFFSET_MAX)


def topic_option(text: str, *, required: bool = False) -> Callable[[_Command], _Command]:
    """Return the option --topic."""
    return click.option("--topic", metavar="T", required=required, help=text)


def queue_option(text: str) -> Callable[[_Command], _Command]:
    """Return the option --queue."""
    return click.option("--queue", "queue_id", type=click.IntRange(min=0, max=_QUEUE_MAX), metavar="N", help=text)


def key_slots_option(command: _Command) -> _Command:
    """Add the option --key-slots, for a number that no file contains."""
    return click.option(
        "--key-slots",
        type=click.IntRange(min=1, max=_QUEUE_MAX),
        metavar="N",
        help="The number of slots in each file of the key index, if RocketMQ wrote it with maxHashSlotNum set.",
    )(command)


def time_from(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Convert the value of an option to a time, in milliseconds since 1970 UTC."""
    try:
        return None if value is None else _milliseconds(parse_since(value))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def place_from(context: click.Context, parameter: click.Parameter, value: str | None) -> Offset | Time | None:
    """Convert the value of an option to an offset or a time."""
    if value is None:
        return None
    try:
        if value.isascii() and value.isdigit():
            return _offset(int(value))
        return Time(_milliseconds(parse_since(value)))
    except ValueError as error:
        raise click.BadParameter(f"neither an offset nor a time: {error}") from error


class Offset(int):
    """Start at an offset."""


class Time(int):
    """Start with the first message stored at this time or later, in milliseconds since 1970 UTC."""


def _offset(value: int) -> Offset:
    if value > _OFFSET_MAX:
        raise ValueError(f"{value} is too large")
    return Offset(value)


def _milliseconds(since: binlog.Since) -> int:
    return since.time_ns // 10**6


def check_queue(reader: StoreReader, topic: str, queue_id: int | None) -> None:
    """Raise CommandError if the store lacks the topic, or the queue of it."""
    known = [queue for _, queue in reader.queues(topic)]
    if not known:
        raise CommandError(f"{reader.path} has no topic {topic!r}", ExitCode.CANNOT_OPEN)
    if queue_id is not None and queue_id not in known:
        raise CommandError(f"{reader.path} has no queue {queue_id} of the topic {topic!r}", ExitCode.CANNOT_OPEN)
