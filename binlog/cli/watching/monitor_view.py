"""Render a snapshot of a log as a screen, drawn with rich, or as one line.

Text from the log or from file names is passed as Text, never as a string, which rich would parse as markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

import binlog
from binlog.cli.amounts import Amount, count_text, duration_text, size_text, things_text, time_text
from binlog.cli.log.stat import state_text
from binlog.cli.output import printable
from binlog.cli.records import object_line
from binlog.cli.watching.live_log import Snapshot
from binlog.cli.watching.texts import (
    follower_object,
    follower_text,
    group_object,
    group_text,
    seal_object,
    seal_text,
)
from binlog.watching import FollowerStat, GroupView, LogView

_BARS = "▁▂▃▄▅▆▇█"
_BARS_ASCII = "_.:-=+*#"

_RECORD_BYTES_SHOWN = 1000


class MonitorView:
    """A screen that fills its height: files, followers and groups in two thirds at most, last records below."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        snapshot, view = self._snapshot, self._snapshot.view
        height = options.height or console.size.height
        above = [
            *_head(snapshot, options),
            *_file_rows(view.log.files, max(height // 4, 1)),
            *_follower_rows(view, max(height // 5, 1)),
            *_group_rows(view.groups, max(height // 5, 1)),
            *_seal_rows(view),
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


def _follower_rows(view: LogView, count_max: int) -> Iterator[Table | Text]:
    followers = view.followers
    if not followers:
        return
    table = _table(("follower", "next ref", "lag", "lag bytes", "lag time", "updated"), left=("follower",))
    for follower in followers[:count_max]:
        table.add_row(*(Text(printable(cell)) for cell in _follower_cells(follower, view.time_ns)))
    yield Text()
    yield table
    if len(followers) > count_max:
        yield _one_line(f"and {len(followers) - count_max} more followers", "dim")


def _follower_cells(follower: FollowerStat, now_ns: int) -> tuple[str, ...]:
    updated = "-" if follower.updated_ns is None else f"{duration_text((now_ns - follower.updated_ns) / 1e9)} ago"
    return (
        follower.name,
        str(follower.ref or "-"),
        count_text(follower.lag_records),
        follower.problem or size_text(follower.lag_bytes or 0),
        "-" if follower.lag_seconds is None else duration_text(follower.lag_seconds),
        updated,
    )


def _group_rows(groups: Sequence[GroupView], count_max: int) -> Iterator[Text]:
    if groups:
        yield Text()
    for group in groups[:count_max]:
        yield _one_line(printable(f"group {group.name}  {group_text(group)}"), "red" if group.stat is None else "")
    if len(groups) > count_max:
        yield _one_line(f"and {len(groups) - count_max} more groups", "dim")


def _seal_rows(view: LogView) -> Iterator[Text]:
    if view.seal is not None:
        is_bad = view.seal.is_cut or view.seal.problem is not None
        yield Text()
        yield _one_line(printable(f"seal  {seal_text(view.seal, view.time_ns)}"), "bold red" if is_bad else "")


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
