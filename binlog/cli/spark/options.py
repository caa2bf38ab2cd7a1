"""Options that several Spark commands share, and the parsers of their values."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click

import binlog
from binlog.cli.options import need_log, parse_since, path_type

if TYPE_CHECKING:
    from binlog.spark.jobs import Selection

_Command = TypeVar("_Command", bound=Callable[..., Any])

_SETTINGS = {
    "spark.ui.showConsoleProgress": "false",
    # Like all our output, times without a zone are UTC.
    "spark.sql.session.timeZone": "UTC",
}
SINCE_TEXT = (
    "Start with records of this time: 2025-01-31T12:00:00Z (UTC if it has no offset), 2025-01-31, or 5m, 2h or 1d for "
    "that long ago."
)
UNTIL_TEXT = "Stop before records of this time."

_PARSER = re.compile(r"[\w.]+:[\w.]+")


@dataclass(frozen=True)
class SparkOptions:
    """How to start Spark.  master: None for this machine, on all cores.  log: the file for Spark's own log."""

    master: str | None
    settings_given: tuple[tuple[str, str], ...]
    log: str | None

    def settings(self) -> dict[str, str]:
        """Spark's settings."""
        master = {} if self.master is None else {"spark.master": self.master}
        return {**_SETTINGS, **master, **dict(self.settings_given)}


def spark_options(command: _Command) -> _Command:
    """Add --master, --conf and --spark-log; `SparkOptions` takes their values."""
    for option in reversed(
        (
            click.option("--master", metavar="URL", help="Spark's master URL. [default: local[*]]"),
            click.option(
                "--conf",
                "settings",
                multiple=True,
                callback=_settings_from,
                metavar="KEY=VALUE",
                help="A Spark setting. May be repeated.",
            ),
            click.option("--spark-log", "log", type=path_type(), metavar="FILE", help="Append Spark's log to FILE."),
        )
    ):
        command = option(command)
    return command


def _settings_from(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    pairs = [value.partition("=") for value in values]
    wrong = [key for key, separator, _ in pairs if not (key and separator)]
    if wrong:
        raise click.BadParameter(f"not KEY=VALUE: {wrong[0]!r}")
    return tuple((key.strip(), value.strip()) for key, _, value in pairs)


def directories_argument(command: _Command) -> _Command:
    """Add DIR..., the directories of logs."""
    return click.argument("directories", metavar="DIR...", nargs=-1, required=True, type=path_type())(command)


def need_logs(selection: Selection) -> None:
    """Raise NotFoundError if a named directory holds no log, so that a mistyped one is not reported as good."""
    for path in selection.options().paths:
        if not any(character in path for character in "*?["):
            need_log(path)


def time_option(name: str, text: str) -> Callable[[_Command], _Command]:
    """Add an option that takes a time and gives a datetime with a zone."""
    return click.option(name, metavar="TIME", callback=_moment_from, help=text)


def _moment_from(_: click.Context, __: click.Parameter, value: str | None) -> datetime | None:
    try:
        return None if value is None else moment_of(parse_since(value))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def moment_of(since: binlog.Since) -> datetime:
    """Return the same time as a datetime in UTC."""
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=since.time_ns // 1000)


def day_from(_: click.Context, __: click.Parameter, value: str | None) -> tuple[datetime, datetime] | None:
    """Parse a day in UTC, `2026-11-30`, `today` or `yesterday`, and return its start and end."""
    if value is None:
        return None
    today = datetime.now(UTC).date()
    named = {"today": today, "yesterday": today - timedelta(days=1)}
    try:
        day = named.get(value) or date.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"not a day such as 2026-11-30, today or yesterday: {value!r}") from None
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return start, start + timedelta(days=1)


def columns_from(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """Parse names separated by commas."""
    return None if value is None else tuple(name.strip().lower() for name in value.split(","))


def parser_from(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Parse module:function."""
    if value is not None and not _PARSER.fullmatch(value):
        raise click.BadParameter(f"not module:function: {value!r}")
    return value


def records_from(_: click.Context, __: click.Parameter, value: str) -> int | None:
    """Parse a number of records; None means all."""
    if value == "all":
        return None
    if not value.isdecimal() or int(value) < 1:
        raise click.BadParameter(f"not a number of records, or 'all': {value!r}")
    return int(value)
