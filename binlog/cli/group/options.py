"""Arguments and options of several commands of `binlog group`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

import binlog
from binlog.cli.exits import CommandError, ExitCode, opening
from binlog.cli.options import need_log, parse_since, seconds_from
from binlog.consumers import ConsumerGroup, GroupControl, Retry
from binlog.errors import NotFoundError

_Command = TypeVar("_Command", bound=Callable[..., Any])


def name_argument(command: _Command) -> _Command:
    """Add NAME, the group's name."""
    return click.argument("name", metavar="NAME")(command)


def token_argument(command: _Command) -> _Command:
    """Add TOKEN, a delivery."""
    return click.argument("token", metavar="TOKEN")(command)


@contextmanager
def wrong_usage() -> Iterator[None]:
    """Report a ValueError in the block as wrong usage."""
    try:
        yield
    except ValueError as error:
        raise CommandError(str(error), ExitCode.USAGE) from error


@contextmanager
def opened_control(directory: str, name: str) -> Iterator[GroupControl]:
    """Open a group for an operator, for a block.  Raises: CommandError; BusyError."""
    with opening():
        need_log(directory)
        control = GroupControl(directory, name)
    with control:
        yield control


def place_from(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    """Parse a place in the log: a sequence number, a ref, `beginning`, `end`, or a time."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return binlog.Sequence(int(text))
    words = {start.value: start for start in binlog.Start}
    if text in words:
        return words[text]
    for parse in (binlog.Ref.parse, parse_since):
        try:
            return parse(text)
        except ValueError:
            continue
    raise click.BadParameter(
        f"{value!r} is no sequence number, no ref such as 1:256, not 'beginning' or 'end', and no time"
    )


def time_from(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Parse a time, as nanoseconds since 1970 by the wall clock."""
    try:
        return None if value is None else parse_since(value).time_ns
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


PLACE_TEXT = (
    "a sequence number, a ref such as 1:256, 'beginning', 'end', or a time: 2025-01-31T12:00:00Z (UTC if it has no "
    "offset), or 5m, 2h or 1d for that long ago"
)


def settings_options(command: _Command) -> _Command:
    """Add the options for the settings of a group; an option that is not given is None."""
    for option in (
        click.option(
            "--holds",
            metavar="always|TIME|BYTES",
            help="How long retention keeps messages that the group is not done with: 'always'; or until the group has "
            "had no member and has done nothing for a time, such as 7d; or until it lags by more than this many "
            "bytes: 10G.",
        ),
        click.option(
            "--in-hand-max",
            type=click.IntRange(min=0),
            metavar="N",
            help="Deliver no message while the members have N; 0 for no limit.",
        ),
        click.option(
            "--outstanding-max",
            type=click.IntRange(min=1),
            metavar="N",
            help="Deliver no new message while N messages are in hand, or wait for a retry or for an earlier one with "
            "their key.",
        ),
        click.option(
            "--on-expiry",
            type=click.Choice(["dead-letter", "drop"]),
            help="What becomes of a message that expired.",
        ),
        click.option(
            "--jitter",
            type=click.FloatRange(0, 1),
            metavar="SHARE",
            help="Each wait is longer or shorter by up to this share of it.",
        ),
        click.option("--most", callback=seconds_from, metavar="TIME", help="The longest wait."),
        click.option(
            "--factor",
            type=click.FloatRange(1, 1000),
            metavar="X",
            help="Each later wait is X times as long as the one before.",
        ),
        click.option(
            "--first",
            callback=seconds_from,
            metavar="TIME",
            help="How long a message waits after its first failure: 0, 1s, 5m.",
        ),
        click.option(
            "--deliveries-max",
            type=click.IntRange(min=0),
            metavar="N",
            help="After N deliveries without an ack a message becomes a dead letter; 0 for no limit.",
        ),
    ):
        command = option(command)
    return command


def retry_of(
    before: Retry,
    *,
    deliveries_max: int | None,
    first: float | None,
    factor: float | None,
    most: float | None,
    jitter: float | None,
) -> Retry:
    """Return a Retry with the options that were given; the others are as before.  Raises: ValueError."""
    return Retry(
        deliveries_max=before.deliveries_max if deliveries_max is None else deliveries_max or None,
        first=before.first if first is None else first,
        factor=before.factor if factor is None else factor,
        most=before.most if most is None else most,
        jitter=before.jitter if jitter is None else jitter,
    )


@contextmanager
def opened_member(directory: str, name: str, *, lease: float | None) -> Iterator[ConsumerGroup]:
    """Open a group that exists, for a block in which it gets messages.  Raises: CommandError; BusyError."""
    with opening():
        need_log(directory)
        try:
            group = ConsumerGroup(directory, name, create=False, lease=lease)
        except NotFoundError as error:
            raise CommandError(f"{error}; 'binlog group create' creates it", ExitCode.CANNOT_OPEN) from error
    with group:
        yield group
