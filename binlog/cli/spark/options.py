"""Options that the commands of Spark share."""

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
    # Times without a zone are UTC, as everywhere here.
    "spark.sql.session.timeZone": "UTC",
}
SINCE_TEXT = (
    "Begin with records of that time: 2025-01-31T12:00:00Z (without an offset, UTC), 2025-01-31, or 5m, 2h, 1d ago."
)
UNTIL_TEXT = "End before records of that time."

_PARSER = re.compile(r"[\w.]+:[\w.]+")


@dataclass(frozen=True)
class SparkOptions:
    """master: None for this machine, with a task at once for each processor.  log: where what Java says goes."""

    master: str | None
    settings_given: tuple[tuple[str, str], ...]
    log: str | None

    def settings(self) -> dict[str, str]:
        """Spark's settings."""
        master = {} if self.master is None else {"spark.master": self.master}
        return {**_SETTINGS, **master, **dict(self.settings_given)}


def spark_options(command: _Command) -> _Command:
    """--master, --conf, --spark-log; the command gets them as `spark_options(**...)` makes them of its arguments."""
    for option in reversed(
        (
            click.option("--master", metavar="URL", help="Where Spark runs, in its words. [default: local[*]]"),
            click.option(
                "--conf",
                "settings",
                multiple=True,
                callback=_settings_from,
                metavar="KEY=VALUE",
                help="A setting of Spark's. May be given several times.",
            ),
            click.option("--spark-log", "log", type=path_type(), metavar="FILE", help="Keep what Spark logs in FILE."),
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
    """DIR..., the logs' directories."""
    return click.argument("directories", metavar="DIR...", nargs=-1, required=True, type=path_type())(command)


def need_logs(selection: Selection) -> None:
    """Raise NotFoundError if a directory that is named holds no log: nothing is wrong with nothing."""
    for path in selection.options().paths:
        if not any(character in path for character in "*?["):
            need_log(path)


def time_option(name: str, text: str) -> Callable[[_Command], _Command]:
    """An option that takes a time, and gives a datetime with a zone."""
    return click.option(name, metavar="TIME", callback=_moment_from, help=text)


def _moment_from(_: click.Context, __: click.Parameter, value: str | None) -> datetime | None:
    try:
        return None if value is None else moment_of(parse_since(value))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def moment_of(since: binlog.Since) -> datetime:
    """The same as a datetime in UTC."""
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=since.time_ns // 1000)


def day_from(_: click.Context, __: click.Parameter, value: str | None) -> tuple[datetime, datetime] | None:
    """A callback for a day in UTC: `2026-11-30`, `today`, `yesterday`.  Gives its bounds."""
    if value is None:
        return None
    today = datetime.now(UTC).date()
    named = {"today": today, "yesterday": today - timedelta(days=1)}
    try:
        day = named.get(value) or date.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"not a day, as 2026-11-30, today or yesterday: {value!r}") from None
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return start, start + timedelta(days=1)


def columns_from(_: click.Context, __: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    """A callback for names with commas."""
    return None if value is None else tuple(name.strip().lower() for name in value.split(","))


def parser_from(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """A callback for module:function."""
    if value is not None and not _PARSER.fullmatch(value):
        raise click.BadParameter(f"not module:function: {value!r}")
    return value


def records_from(_: click.Context, __: click.Parameter, value: str) -> int | None:
    """A callback for a number of records, or None for all."""
    if value == "all":
        return None
    if not value.isdecimal() or int(value) < 1:
        raise click.BadParameter(f"not a number of records, or 'all': {value!r}")
    return int(value)
