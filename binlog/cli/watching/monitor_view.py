"""Render a snapshot of a log as a screen, drawn with rich, or as one line.

Text from the log or from file names is passed as Text, never as a string, which rich would parse as markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

import binlog
from binlog.cli.amounts import Amount, count_text, duration_text, size_text, things_text, time_text
from binlog.cli.looking.event_fields import ERROR, INFO, WARNING, body_of, parse_event, severity_of, time_ns_of
from binlog.cli.looking.formats import text_of_record
from binlog.cli.output import printable
from binlog.cli.records import object_line
from binlog.cli.watching.live_log import Snapshot
from binlog.cli.watching.tables import Line, file_lines, follower_lines, group_lines, member_lines
from binlog.cli.watching.texts import (
    follower_object,
    follower_text,
    group_object,
    group_text,
    seal_object,
    seal_text,
)
from binlog.watching import LogView

_BARS = "▁▂▃▄▅▆▇█"
_BARS_ASCII = "_.:-=+*#"

_RECORD_BYTES_SHOWN = 1000
# The height from which on there are empty lines between the parts, and members of groups.
_TALL = 32

STYLES = {"": "", "head": "dim", "good": "green", "warning": "yellow", "bad": "red"}


class MonitorView:
    """A screen that fills its height: the log, its followers, groups and seal, its newest files, and the last records.

    At 80x24 all of them have room, without empty lines; a larger screen also shows the members of groups.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        snapshot, view = self._snapshot, self._snapshot.view
        height, width = options.height or console.size.height, options.max_width
        is_tall = height >= _TALL
        count_max = max(height // 6, 1)
        parts: list[list[Text]] = [
            list(_head(snapshot, options)),
            _table(follower_lines(view, snapshot.trends, width), count_max) if view.followers else [],
            _table(group_lines(view.groups, snapshot.trends, width), count_max) if view.groups else [],
            _table(member_lines(view.groups, width), count_max) if is_tall else [],
            list(_seal_rows(view)),
            _table(file_lines(view, width, max(height // 10, 1)), len(view.log.files)),
        ]
        above: list[Text] = []
        for part in parts:
            if is_tall and above and part:
                above.append(Text())
            above += part
        above += [Text()] if is_tall else []
        above.append(_one_line("last records" if snapshot.last else "no records seen yet", STYLES["head"]))
        yield from above
        for entry in snapshot.last[-max(height - len(above), 1) :]:
            yield _record(entry)


def _one_line(text: str, style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def _head(snapshot: Snapshot, options: ConsoleOptions) -> Iterator[Text]:
    yield _one_line(f"binlog monitor  {printable(snapshot.view.log.path)}", "bold")
    yield _one_line(_tail_line(snapshot))
    yield _one_line(_rate_line(snapshot, options.max_width, ascii_only=options.ascii_only))
    if snapshot.problem is not None:
        yield _one_line(printable(snapshot.problem), "bold red")


def _tail_line(snapshot: Snapshot) -> str:
    log = snapshot.view.log
    tail = "no files yet" if log.tail is None else f"tail {log.tail}"
    idle_ns = 0 if log.appended_ns is None else snapshot.view.time_ns - log.appended_ns
    idle = f"   last record {duration_text(idle_ns / 1e9)} ago" if idle_ns else ""
    files = things_text(len(log.files), "file")
    return f"{tail}   records {count_text(log.record_count)}   {files}, {size_text(log.disk_bytes)} on disk{idle}"


def _rate_line(snapshot: Snapshot, width: int, *, ascii_only: bool) -> str:
    rate = snapshot.rate
    text = f"{count_text(rate.records):>9} records/s {size_text(rate.bytes):>9}/s   "
    # Show as many seconds as fit before the label.
    history = snapshot.history[-max(width - len(text) - len(" last 60 s"), 1) :]
    return f"{text}{sparkline(history, ascii_only=ascii_only)} last {len(history)} s"


def sparkline(history: Sequence[float], *, ascii_only: bool) -> str:
    """Draw values as bars, one character each, the largest as high as a line."""
    bars, most = _BARS_ASCII if ascii_only else _BARS, max(history, default=0)
    return "".join(" " if value <= 0 else bars[min(int(value / most * len(bars)), len(bars) - 1)] for value in history)


def _seal_rows(view: LogView) -> Iterator[Text]:
    if view.seal is not None:
        is_bad = view.seal.is_cut or view.seal.problem is not None
        yield _one_line(printable(f"seal  {seal_text(view.seal, view.time_ns)}"), "bold red" if is_bad else "")


def _table(lines: Sequence[Line], count_max: int) -> list[Text]:
    """Return the first lines of a table, after a line with the names of its columns."""
    shown = [_one_line(line.text, STYLES[line.style]) for line in lines[: 1 + count_max]]
    if len(lines) > len(shown):
        shown[-1] = _one_line(f"and {len(lines) - len(shown) + 1} more", "dim")
    return shown


def _record(entry: binlog.Entry) -> Text:
    data = body_of(entry.data)
    event = parse_event(data)
    severity = None if event is None else severity_of(event)
    line = _one_line("").append(f"{entry.ref} ", "cyan")
    text = "" if event is not None else data[:_RECORD_BYTES_SHOWN].decode("utf-8", "backslashreplace")
    time_ns = None if event is None else time_ns_of(event)
    if time_ns is not None:
        line.append(f"{time_text(time_ns)[len('2025-01-31T') : -1]} ", "dim")
    shown = text_of_record(event, text if event is None else data.decode())[:_RECORD_BYTES_SHOWN]
    line.append(shown, severity_style(severity) or "default")
    return line


def severity_style(severity: int | None) -> str:
    """Return the style of a severity, as `tail` colours it."""
    if severity is None:
        return ""
    return "red" if severity >= ERROR else "yellow" if severity >= WARNING else "" if severity >= INFO else "dim"


def text_line(snapshot: Snapshot, rate: Amount | None) -> str:
    """Format the line for people.  rate: per second since the previous line; None for the first."""
    view, log = snapshot.view, snapshot.view.log
    records = things_text(log.record_count, "record")
    if rate is not None:
        records += f" ({count_text(rate.records)}/s, {size_text(rate.bytes)}/s)"
    parts = [
        f"tail {log.tail or '-'}",
        records,
        things_text(len(log.files), "file"),
        f"{size_text(log.disk_bytes)} on disk",
    ]
    parts += [f"{follower.name} {follower_text(follower)}" for follower in view.followers]
    parts += [f"group {group.name} {group_text(group)}" for group in view.groups]
    if view.seal is not None:
        parts.append(f"seal {seal_text(view.seal, view.time_ns)}")
    if snapshot.problem is not None:
        parts.append(f"problem: {snapshot.problem}")
    return printable(f"{time_text(view.time_ns)} {', '.join(parts)}")


def json_line(snapshot: Snapshot, rate: Amount | None) -> str:
    """Format the line for programs; arguments as for `text_line`."""
    view, log = snapshot.view, snapshot.view.log
    return object_line(
        {
            "time": time_text(view.time_ns),
            "path": log.path,
            "tail": None if log.tail is None else str(log.tail),
            "file_count": len(log.files),
            "record_count": log.record_count,
            "disk_bytes": log.disk_bytes,
            "records_per_second": None if rate is None else round(rate.records, 3),
            "bytes_per_second": None if rate is None else round(rate.bytes, 3),
            "followers": [follower_object(follower) for follower in view.followers],
            "groups": [group_object(group) for group in view.groups],
            "seal": None if view.seal is None else seal_object(view.seal),
            "problem": snapshot.problem,
        }
    )
