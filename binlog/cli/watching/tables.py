"""Followers, groups, members and files as rows of aligned text, which fit into a width."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from binlog.cli.amounts import count_text, duration_text, size_text, time_text
from binlog.cli.log.stat import state_text
from binlog.cli.output import printable
from binlog.watching import FollowerStat, GroupView, LogView, Trend
from binlog.watching.trends import Key

_GAP = "  "
_NAME_CELLS_MAX = 32
_NAME_CELLS_MIN = 8
# So that columns stay where they are while a trend changes.
_TREND_CELLS_MIN = 14


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table.

    style: `good`, `warning`, `bad` or nothing.  note: takes the place of all cells but the first.
    """

    cells: tuple[str, ...]
    style: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A row as text.  style: as of a Row; `head` for the names of the columns."""

    text: str
    style: str


def follower_lines(view: LogView, trends: Mapping[Key, Trend], width: int) -> list[Line]:
    """Return the followers of a log, after a line with the names of the columns."""
    names = ("follower", "lag", "lag time", "trend", "lag bytes", "next ref", "updated")
    rows = [_follower_row(each, trends.get(("follower", each.path)), view.time_ns) for each in view.followers]
    return _lines(names, rows, width, left=("follower", "trend"), droppable=("next ref", "lag bytes", "updated"))


def group_lines(groups: Sequence[GroupView], trends: Mapping[Key, Trend], width: int) -> list[Line]:
    """Return consumer groups, after a line with the names of the columns."""
    names = ("group", "lag", "lag time", "trend", "members", "in hand", "delayed", "dead", "state")
    rows = [_group_row(each, trends.get(("group", each.name))) for each in groups]
    return _lines(names, rows, width, left=("group", "trend", "state"), droppable=("delayed", "in hand", "lag time"))


def member_lines(groups: Iterable[GroupView], width: int) -> list[Line]:
    """Return the members of groups, each with its group, after a line with the names of the columns; or nothing."""
    rows = []
    for group in groups:
        for member in group.stat.members if group.stat is not None else ():
            listed = ", ".join(map(str, member.in_hand[:8])) + (", ..." if len(member.in_hand) > 8 else "")
            cells = (group.name, str(member.seat), count_text(len(member.in_hand)), member.hint or "-", listed or "-")
            rows.append(Row(cells, "bad" if member.is_alive is False else ""))
    names = ("member of", "seat", "in hand", "process", "messages")
    return (
        _lines(names, rows, width, left=("member of", "process", "messages"), droppable=("messages",)) if rows else []
    )


def file_lines(view: LogView, width: int, count_max: int) -> list[Line]:
    """Return the newest files of a log, after a line with the names of the columns."""
    names = ("file", "state", "records", "tail", "on disk", "created")
    rows = [
        Row(
            (
                str(file.number),
                state_text(file),
                count_text(file.record_count),
                count_text(file.tail),
                size_text(file.disk_bytes),
                time_text(file.created_ns),
            ),
            "" if file.closed else "good",
        )
        for file in view.log.files[-count_max:]
    ]
    return _lines(names, rows, width, left=("state",), droppable=("created", "tail"))


def trend_text(trend: Trend | None) -> str:
    """Format a trend: `rising 12/s`, `falling 0.5/s`, `steady`; `-` if it is not known yet."""
    if trend is None:
        return "-"
    if trend.direction == "steady":
        return trend.direction
    change = abs(trend.per_second)
    return f"{trend.direction} {f'{change:.1f}' if change < 10 else count_text(change)}/s"


def state_of(group: GroupView) -> str:
    """Return the state of a group, in a word or two."""
    stat = group.stat
    if stat is None:
        return "unreadable"
    if stat.is_paused:
        return "paused"
    if not stat.members:
        return "no members"
    return "working" if stat.in_hand else "waiting"


def _follower_row(follower: FollowerStat, trend: Trend | None, now_ns: int) -> Row:
    if follower.problem is not None:
        return Row((follower.name,), "bad", follower.problem)
    cells = (
        follower.name,
        count_text(follower.lag_records),
        "-" if follower.lag_seconds is None else duration_text(follower.lag_seconds),
        trend_text(trend),
        size_text(follower.lag_bytes or 0),
        str(follower.ref or "-"),
        "-" if follower.updated_ns is None else f"{duration_text((now_ns - follower.updated_ns) / 1e9)} ago",
    )
    return Row(cells, _trend_style(trend))


def _group_row(group: GroupView, trend: Trend | None) -> Row:
    stat = group.stat
    if stat is None:
        return Row((group.name,), "bad", group.problem or "unreadable")
    cells = (
        group.name,
        count_text(stat.lag),
        "-" if not stat.lag or stat.lag_seconds is None else duration_text(stat.lag_seconds),
        trend_text(trend),
        count_text(len(stat.members)),
        count_text(stat.in_hand),
        count_text(stat.delayed),
        count_text(stat.dead_letters),
        state_of(group),
    )
    return Row(cells, "warning" if stat.is_paused or (stat.lag and not stat.members) else _trend_style(trend))


def _trend_style(trend: Trend | None) -> str:
    return "warning" if trend is not None and trend.direction == "rising" else ""


def _lines(
    names: Sequence[str], rows: Sequence[Row], room: int, *, left: Sequence[str], droppable: Sequence[str]
) -> list[Line]:
    """Align rows in columns, in lines of `room` cells.

    droppable: columns to leave out if they do not fit, in this order.
    """
    texts = [Row(tuple(printable(cell) for cell in row.cells), row.style, printable(row.note)) for row in rows]
    full = [names, *(row.cells for row in texts if not row.note)]
    widths = [max(cell_len(cells[at]) for cells in full) for at in range(len(names))]
    widths = [
        max(width, _TREND_CELLS_MIN) if name == "trend" else width for name, width in zip(names, widths, strict=True)
    ]
    widths[0] = min(max([widths[0], *(cell_len(row.cells[0]) for row in texts)]), _NAME_CELLS_MAX)
    shown = list(range(len(names)))
    for name in droppable:
        if _width(widths, shown) <= room:
            break
        shown.remove(names.index(name))
    widths[0] = max(widths[0] - max(_width(widths, shown) - room, 0), min(widths[0], _NAME_CELLS_MIN))

    def aligned(cells: Sequence[str]) -> str:
        parts = [_fitted(cells[at], widths[at], is_left=names[at] in left) for at in shown]
        return _GAP.join(parts).rstrip()

    lines = [Line(aligned(names), "head")]
    for row in texts:
        noted = f"{_fitted(row.cells[0], widths[0], is_left=True)}{_GAP}{row.note}"
        lines.append(Line(noted if row.note else aligned(row.cells), row.style))
    return lines


def _width(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[at] for at in shown) + len(_GAP) * (len(shown) - 1)


def _fitted(text: str, cells: int, *, is_left: bool) -> str:
    """Return text with a width: cut, or filled with spaces."""
    missing = cells - cell_len(text)
    if missing < 0:
        return set_cell_size(text, max(cells - 1, 0)) + "~"
    return text + " " * missing if is_left else " " * missing + text
