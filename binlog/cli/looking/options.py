"""The options that `tail` and `cat` share: which records to print, and how."""

from __future__ import annotations

import functools
import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypeVar

import click

import binlog
from binlog.cli.exits import CommandError, ExitCode
from binlog.cli.looking.event_fields import SEVERITIES, parse_severity
from binlog.cli.looking.filters import Filters
from binlog.cli.looking.formats import Form, field_names
from binlog.cli.looking.sources import LogSource
from binlog.cli.looking.times import moment_ns, parse_moment
from binlog.cli.looking.window import Window
from binlog.cli.options import no_verify_option, read_key
from binlog.errors import SealError

_Command = TypeVar("_Command", bound=Callable[..., Any])
# An index has no later times; those before 1970 count as 1970.
_TIME_NS_MAX = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class LookingOptions:
    """The values of the options, as click parsed them."""

    since: str | None
    until: str | None
    level: int | None
    loggers: tuple[str, ...]
    event_fields: tuple[tuple[str, str], ...]
    patterns: tuple[str, ...]
    excluded: tuple[str, ...]
    ignore_case: bool
    reverse: bool
    count_only: bool
    form: str | None
    template: str | None
    shown_fields: tuple[str, ...]
    as_json: bool
    as_null: bool
    utc: bool
    verify: bool
    vkey: str | None
    trust_state: str | None

    def sources(
        self, directories: Sequence[str], *, first: binlog.Ref | None = None, number: int | None = None
    ) -> list[LogSource]:
        """Return each log with its window and the filters.  Raises: click.UsageError."""
        window = Window(first, number, self._time_ns("--since", self.since), self._time_ns("--until", self.until))
        filters = _filters(
            self.level, self.loggers, self.event_fields, self.patterns, self.excluded, ignore_case=self.ignore_case
        )
        return [LogSource(directory, directory, window, filters, self.verify) for directory in directories]

    def check_trust(self, directories: Sequence[str]) -> None:
        """Compare the seal of the log with the checkpoint that --trust-state keeps.

        Raises: click.UsageError; CommandError if the log was cut or has another history; as Trust.check.
        """
        if (self.vkey is None) != (self.trust_state is None):
            raise click.UsageError("--trust and --trust-state need each other")
        if self.vkey is None or self.trust_state is None:
            return
        if len(directories) > 1:
            raise click.UsageError("--trust needs a single DIR")
        from binlog.seal import Trust  # imports cryptography

        try:
            Trust(directories[0], read_key(self.vkey), self.trust_state).check()
        except SealError as error:
            raise CommandError(str(error), ExitCode.FAILED) from error

    @property
    def chosen_form(self) -> Form:
        """The output format.  Raises: click.UsageError if the options ask for two of them."""
        forms = {
            "-o": None if self.form is None else Form(self.form),
            "--json": Form.JSON if self.as_json else None,
            "--template": Form.TEMPLATE if self.template is not None else None,
        }
        asked = {name: form for name, form in forms.items() if form is not None}
        if len(set(asked.values())) > 1:
            raise click.UsageError(f"{' and '.join(asked)} cannot be used together")
        form = next(iter(asked.values()), Form.LINES)
        if form is Form.TEMPLATE and self.template is None:
            raise click.UsageError("-o template needs --template")
        if self.shown_fields and form not in (Form.CSV, Form.JSON, Form.JSON_SEQ):
            raise click.UsageError("--fields needs -o csv, json or json-seq")
        if self.as_null and form not in (Form.LINES, Form.SHORT, Form.TEMPLATE):
            raise click.UsageError(
                f"--null and {'--json' if self.as_json else f'-o {form.value}'} cannot be used together"
            )
        return form

    @property
    def field_names(self) -> list[str]:
        """The names of --fields.  Raises: click.UsageError."""
        try:
            return field_names(self.shown_fields)
        except ValueError as error:
            raise click.UsageError(f"--fields: {error}") from error

    @property
    def is_timed(self) -> bool:
        """Whether --since or --until is given."""
        return self.since is not None or self.until is not None

    def _time_ns(self, name: str, text: str | None) -> int | None:
        return None if text is None else min(max(moment_ns(self._moment(name, text)), 0), _TIME_NS_MAX)

    def _moment(self, name: str, text: str) -> datetime:
        try:
            return parse_moment(text, utc=self.utc)
        except ValueError as error:
            raise click.UsageError(f"{name}: {error}") from error


def _filters(
    level: int | None,
    loggers: Sequence[str],
    event_fields: Sequence[tuple[str, str]],
    patterns: Sequence[str],
    excluded: Sequence[str],
    *,
    ignore_case: bool,
) -> Filters:
    return Filters(
        severity_min=level,
        loggers=loggers,
        fields=event_fields,
        patterns=[_pattern("--grep", text, ignore_case=ignore_case) for text in patterns],
        excluded=[_pattern("--exclude", text, ignore_case=ignore_case) for text in excluded],
    )


def _pattern(name: str, text: str, *, ignore_case: bool) -> re.Pattern[bytes]:
    try:
        # fsencode gives the bytes of the argument as they were passed, whatever the locale.
        return re.compile(os.fsencode(text), re.IGNORECASE if ignore_case else 0)
    except re.error as error:
        raise click.UsageError(f"{name}: not a regular expression: {error}") from error


def parse_filters(text: str) -> Filters:
    """Parse the options of `tail` that are filters, as typed in a line; a word that is no option is a --grep.

    text: as a shell splits it: `--level warning --logger 'a.*' timeout`.  Raises: ValueError.
    """
    params = click.Command("filter", callback=lambda: None)
    for option in reversed(_FILTERS):
        option(params)
    params.params.append(click.Argument(["words"], nargs=-1))
    try:
        given = params.make_context("filter", shlex.split(text)).params
        return _filters(
            given["level"],
            given["loggers"],
            given["event_fields"],
            (*given["words"], *given["patterns"]),
            given["excluded"],
            ignore_case=given["ignore_case"],
        )
    except click.UsageError as error:
        raise ValueError(error.format_message().rstrip(".")) from error


def looking_options(command: _Command) -> _Command:
    """Add the options, and pass their values to the command as one argument, `options`."""
    names = [each.name for each in fields(LookingOptions)]

    @functools.wraps(command)
    def with_options(**given: Any) -> Any:
        options = LookingOptions(**{name: given.pop(name) for name in names})
        return command(options=options, **given)

    decorated: Any = with_options
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def _level_from(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    try:
        return None if value is None else parse_severity(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _fields_from(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    for value in values:
        if value.find("=") < 1:
            raise click.BadParameter(f"not NAME=VALUE: {value!r}")
    return tuple((name, text) for name, _, text in (value.partition("=") for value in values))


_FILTERS: list[Callable[[Any], Any]] = [
    click.option(
        "--level",
        metavar="LEVEL",
        callback=_level_from,
        shell_complete=lambda context, parameter, begun: [
            name for name in SEVERITIES if name.startswith(begun.lower())
        ],
        help="Only events of this level and above: trace, debug, info, warning, error, critical, or a severity from 1 "
        "to 24. An event is a record that is a JSON object; its level is the number in its field 'severity'.",
    ),
    click.option(
        "--logger",
        "loggers",
        multiple=True,
        metavar="GLOB",
        help="Only events of this logger: 'app.db*'. May be repeated for more loggers.",
    ),
    click.option(
        "--field",
        "event_fields",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_fields_from,
        help="Only events in which the field has this value. NAME 'order' is a key of the event, or else of its "
        "attributes; 'resource.service.name' names a key inside an object. Repeat it for more conditions, all of "
        "which must be met.",
    ),
    click.option(
        "--grep",
        "patterns",
        multiple=True,
        metavar="REGEX",
        help="Only records in which the pattern is found. It matches bytes. Repeat it for more patterns, all of which "
        "must be found.",
    ),
    click.option(
        "-v",
        "--exclude",
        "excluded",
        multiple=True,
        metavar="REGEX",
        help="No records in which the pattern is found. May be repeated.",
    ),
    click.option("-i", "--ignore-case", is_flag=True, help="Ignore the case of letters in --grep and --exclude."),
]

_OPTIONS: list[Callable[[Any], Any]] = [
    click.option(
        "--trust",
        "vkey",
        metavar="KEY",
        help="The public key of the sealed log, or the path of a file with it. Refuse a log that was cut, or whose "
        "history was changed, since the last use of --trust-state.",
    ),
    click.option(
        "--trust-state", metavar="FILE", help="The file outside of DIR that keeps the latest checkpoint for --trust."
    ),
    click.option(
        "--since",
        metavar="TIME",
        help="Only records appended at this time or later: 2025-01-31T12:00:00Z, 2025-01-31, today, yesterday, -1h, "
        "'5m ago'. A time without an offset is local, or UTC with --utc.",
    ),
    click.option("--until", metavar="TIME", help="Only records appended before this time."),
    *_FILTERS,
    click.option("-r", "--reverse", is_flag=True, help="Print the last record first."),
    click.option("--count", "count_only", is_flag=True, help="Print only how many records there are."),
    click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice([form.value for form in Form]),
        help="lines: the records as they are, each on a line. short: time, sequence number, level, logger, body and "
        "attributes. json: an object for each record, see --json. json-seq: the same objects, separated as RFC 7464 "
        "requires. csv: the fields of --fields. template: see --template. raw: the records as they are, with nothing "
        "between them. [default: lines]",
    ),
    click.option(
        "--template",
        metavar="TEXT",
        help="Print this line for each record, with the values of the fields in braces: '{time} {level:<8} {body}'. "
        "The fields are those of --fields. \\t and \\n are a tab and a newline.",
    ),
    click.option(
        "--fields",
        "shown_fields",
        multiple=True,
        metavar="NAMES",
        help="The fields for csv and json: 'time,level,body'. The names are those of --field, and these of the log: "
        "ref, number, offset, sequence, appended (the time at which the record was appended), log, text (the record). "
        "'time' is the event's own, if it has one. 'body' of a record that is not an event is the record.",
    ),
    click.option(
        "--json",
        "as_json",
        is_flag=True,
        help='Print a JSON object for each record: ref, number, offset, sequence, time in UTC, and "text", or "base64" '
        "if it is not UTF-8.",
    ),
    click.option(
        "-0",
        "--null",
        "as_null",
        is_flag=True,
        help="End each record with a NUL byte instead of a newline, for 'xargs -0', 'binlog append -0' and others.",
    ),
    click.option("--utc", is_flag=True, help="Print and read times in UTC instead of local time."),
    no_verify_option,
]
