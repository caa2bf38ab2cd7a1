"""Render a snapshot of a log as a screen, drawn with rich, or as one line.

Text from the log or from file names is passed as Text, never as a string, which rich would parse as markup.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

import binlog
from binlog.cli.amounts import Amount, count_text, duration_text, size_text, things_text, time_text
from binlog.cli.groups import NamedGroup, group_object, group_text
from binlog.cli.log.followers import Lag, lag_object, lag_text
from binlog.cli.log.log_watch import Snapshot
from binlog.cli.log.stat import state_text
from binlog.cli.output import printable
from binlog.cli.records import object_line

_BARS = "▁▂▃▄▅▆▇█"
_BARS_ASCII = "_.:-=+*#"

_RECORD_BYTES_SHOWN = 1000


class MonitorView:
    """A screen that fills its height: files, followers and groups in two thirds at most, last records below."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        snapshot = self._snapshot
        height = options.height or console.size.height
        above = [
            *_head(snapshot, options),
            *_file_rows(snapshot.log.files, max(height // 4, 1)),
            *_lag_rows(snapshot.lags, max(height // 5, 1)),
            *_group_rows(snapshot.groups, max(height // 5, 1)),
            Text(),
            _one_line("last records" if snapshot.last else "no records seen yet", "dim"),
        ]
        yield from above
        # A table also has a header row.
        taken = sum(1 + part.row_count if isinstance(part, Table) else 1 for part in above)
        for entry in snapshot.last[-max(height - taken, 1) :]:
            yield _record(entry)


def _one_line(text: str, style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def _head(snapshot: Snapshot, options: ConsoleOptions) -> Iterator[Text]:
    yield _one_line(f"binlog monitor  {printable(snapshot.log.path)}", "bold")
    yield _one_line(_tail_line(snapshot))
    yield _one_line(_rate_line(snapshot, options.max_width, ascii_only=options.ascii_only))
    if snapshot.problem is not None:
        yield _one_line(printable(snapshot.problem), "bold red")


def _tail_line(snapshot: Snapshot) -> str:
    log = snapshot.log
    tail = "no files yet" if log.tail is None else f"tail {log.tail}"
    idle = "" if snapshot.idle_seconds is None else f"   last record {duration_text(snapshot.idle_seconds)} ago"
    return f"{tail}   records {count_text(log.record_count)}   on disk {size_text(log.disk_bytes)}{idle}"


def _rate_line(snapshot: Snapshot, width: int, *, ascii_only: bool) -> str:
    rate = snapshot.rate
    text = f"{count_text(rate.records):>9} records/s {size_text(rate.bytes):>9}/s   "
    # Show as many seconds as fit before the label.
    history = snapshot.history[-max(width - len(text) - len(" last 60 s"), 1) :]
    bars, most = _BARS_ASCII if ascii_only else _BARS, max(history)
    return f"{text}{''.join(_bar(value, most, bars) for value in history)} last {len(history)} s"


def _bar(value: float, most: float, bars: str) -> str:
    if value <= 0:
        return " "
    return bars[min(int(value / most * len(bars)), len(bars) - 1)]


def _file_rows(files: tuple[binlog.FileStat, ...], count_max: int) -> Iterator[Table | Text]:
    table = _table(("file", "state", "records", "tail", "on disk", "created"), left=("state",))
    for file in files[-count_max:]:
        cells = (
            str(file.number),
            state_text(file),
            count_text(file.record_count),
            count_text(file.tail),
            size_text(file.disk_bytes),
            time_text(file.created_ns),
        )
        table.add_row(*cells, style="" if file.closed else "green")
    yield Text()
    yield table
    if len(files) > count_max:
        yield _one_line(f"and {len(files) - count_max} earlier files", "dim")


def _lag_rows(lags: list[Lag], count_max: int) -> Iterator[Table | Text]:
    if not lags:
        return
    table = _table(("follower", "next ref", "lag", "lag bytes", "updated"), left=("follower",))
    now = time.time()
    for lag in lags[:count_max]:
        updated = "-" if lag.updated is None else f"{duration_text(now - lag.updated)} ago"
        lag_bytes = size_text(lag.bytes or 0) if lag.problem is None else lag.problem
        cells = (lag.name, str(lag.ref or "-"), count_text(lag.records), lag_bytes, updated)
        table.add_row(*(Text(printable(cell)) for cell in cells))
    yield Text()
    yield table
    if len(lags) > count_max:
        yield _one_line(f"and {len(lags) - count_max} more followers", "dim")


def _group_rows(groups: list[NamedGroup], count_max: int) -> Iterator[Text]:
    if groups:
        yield Text()
    for group in groups[:count_max]:
        yield _one_line(printable(f"group {group.name}  {group_text(group)}"), "red" if group.stat is None else "")
    if len(groups) > count_max:
        yield _one_line(f"and {len(groups) - count_max} more groups", "dim")


def _table(columns: tuple[str, ...], *, left: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        table.add_column(column, justify="left" if column in left else "right", no_wrap=True)
    return table


def _record(entry: binlog.Entry) -> Text:
    line = Text(f"{entry.ref} ", "cyan", no_wrap=True, overflow="ellipsis")
    shown = entry.data[:_RECORD_BYTES_SHOWN].decode("utf-8", "backslashreplace")
    line.append(printable(shown), "default")
    return line


def text_line(snapshot: Snapshot, rate: Amount | None) -> str:
    """Format the line for people.  rate: per second since the previous line; None for the first."""
    log = snapshot.log
    records = things_text(log.record_count, "record")
    if rate is not None:
        records += f" ({count_text(rate.records)}/s, {size_text(rate.bytes)}/s)"
    parts = [
        f"tail {log.tail or '-'}",
        records,
        things_text(len(log.files), "file"),
        f"{size_text(log.disk_bytes)} on disk",
    ]
    parts += [f"{lag.name} {lag_text(lag)}" for lag in snapshot.lags]
    parts += [f"group {group.name} {group_text(group)}" for group in snapshot.groups]
    if snapshot.problem is not None:
        parts.append(f"problem: {snapshot.problem}")
    return printable(f"{time_text(snapshot.time_ns)} {', '.join(parts)}")


def json_line(snapshot: Snapshot, rate: Amount | None) -> str:
    """Format the line for programs; arguments as for `text_line`."""
    log = snapshot.log
    return object_line(
        {
            "time": time_text(snapshot.time_ns),
            "path": log.path,
            "tail": None if log.tail is None else str(log.tail),
            "file_count": len(log.files),
            "record_count": log.record_count,
            "disk_bytes": log.disk_bytes,
            "records_per_second": None if rate is None else round(rate.records, 3),
            "bytes_per_second": None if rate is None else round(rate.bytes, 3),
            "followers": [lag_object(lag) for lag in snapshot.lags],
            "groups": [group_object(group) for group in snapshot.groups],
            "problem": snapshot.problem,
        }
    )
