"""Print the records of logs in an output format."""

from __future__ import annotations

import os
from collections.abc import Iterable

import click

from binlog.cli.looking.filters import Matches
from binlog.cli.looking.formats import Csv, Form, Format, Json, Named, Raw, Short, Templated
from binlog.cli.looking.merging import MergedBackwards, merged
from binlog.cli.looking.options import LookingOptions
from binlog.cli.looking.sources import LogSource
from binlog.cli.looking.templates import Template
from binlog.cli.looking.views import RecordView
from binlog.cli.output import STANDARD_OUTPUT, write, write_line, write_printable

_VIEWS_AT_ONCE = 1024


class Printer:
    """Prints records to standard output.

    named: whether each line names its log, because there are several.
    Raises: click.UsageError for options that do not fit together.
    """

    def __init__(self, options: LookingOptions, *, named: bool) -> None:
        self.format = _format_of(options, named=named)

    def begin(self) -> None:
        """Print what comes before the first record."""
        if start := self.format.begin():
            write(start)

    def matches(self, source: LogSource, found: Iterable[Matches], *, reverse: bool = False) -> None:
        """Print records of one log as they come.  reverse: the last record of each of `found` first."""
        for matches in found:
            if self.format.is_plain:
                data = list(matches.records)
                write(self.format.of_data(reversed(data) if reverse else data))
            else:
                self.views(source.views(iter([matches]), parse=self.format.needs_event, reverse=reverse))

    def views(self, views: Iterable[RecordView]) -> None:
        """Print records as they come; those before an error too."""
        pending: list[RecordView] = []
        try:
            for view in views:
                pending.append(view)
                if len(pending) == _VIEWS_AT_ONCE:
                    some, pending = pending, []
                    self._write(some)
        finally:
            self._write(pending)

    def _write(self, views: list[RecordView]) -> None:
        (write_printable if self.format.is_printable else write)(self.format.of_views(views))


def print_window(printer: Printer, sources: list[LogSource], *, last: int | None, reverse: bool) -> None:
    """Print the records of the window, by time if there are several logs.

    last: only the last ones, this many.
    Raises: any error of reading, after the records before it.
    """
    if len(sources) == 1:
        _print_one(printer, sources[0], last=last, reverse=reverse)
    else:
        _print_merged(printer, sources, last=last, reverse=reverse)


def _print_one(printer: Printer, source: LogSource, *, last: int | None, reverse: bool) -> None:
    if last is None and not reverse:
        printer.matches(source, source.forwards())
        return
    backwards = source.backwards()
    if last is None:
        printer.matches(source, backwards, reverse=True)
    else:
        found = backwards.last(last)
        printer.matches(source, reversed(found) if reverse else found, reverse=reverse)
    backwards.check()


def _print_merged(printer: Printer, sources: list[LogSource], *, last: int | None, reverse: bool) -> None:
    parse = printer.format.needs_event
    if last is None and not reverse:
        printer.views(merged(sources, parse=parse))
        return
    backwards = MergedBackwards(sources, parse=parse)
    if last is None:
        printer.views(backwards)
    else:
        views = backwards.last(last)
        printer.views(reversed(views) if reverse else views)
    backwards.check()


def print_count(sources: list[LogSource], *, last: int | None) -> None:
    """Print how many records match.  last: no more than this."""
    count = 0
    for source in sources:
        for matches in source.forwards():
            count += len(matches)
            if last is not None and count >= last:
                break
    write_line(str(count if last is None else min(count, last)))


def _format_of(options: LookingOptions, *, named: bool) -> Format:
    form = options.chosen_form
    end = b"\0" if options.as_null else b"\n"
    names = options.field_names if options.shown_fields else []
    match form:
        case Form.SHORT:
            return Short(end=end, named=named, coloured=_has_colours(), utc=options.utc)
        case Form.JSON | Form.JSON_SEQ:
            return Json(names, start=b"\x1e" if form is Form.JSON_SEQ else b"", end=end, named=named)
        case Form.CSV:
            row_end = "\n" if os.isatty(STANDARD_OUTPUT) else "\r\n"
            return Csv(names, end=row_end, named=named, utc=options.utc)
        case Form.TEMPLATE:
            try:
                template = Template(options.template or "", utc=options.utc)
            except ValueError as error:
                raise click.UsageError(f"--template: {error}") from error
            return Templated(template, end=end, named=named, coloured=_has_colours(), utc=options.utc)
        case Form.RAW:
            return Raw(b"")
    return Named(end=end, named=True, coloured=False, utc=options.utc) if named else Raw(end)


def _has_colours() -> bool:
    return (
        os.isatty(STANDARD_OUTPUT)
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    )
