"""The state of the logs on the screen: Head has rates, files and seal, Watchers the followers and consumer groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text
from textual.widgets import Static

from binlog.cli.amounts import count_text, duration_text, size_text, things_text
from binlog.cli.output import printable
from binlog.cli.top.line_list import LineList, Shown, plain
from binlog.cli.top.record_feed import LevelRate
from binlog.cli.watching.live_log import Snapshot
from binlog.cli.watching.monitor_view import STYLES, sparkline
from binlog.cli.watching.tables import Line, file_lines, follower_lines, group_lines, member_lines
from binlog.cli.watching.texts import seal_text

_LABEL_CELLS = 19
_LEVEL_STYLES = {"warnings": "yellow", "errors": "red"}
# The height from which on the head has the files of the log.
_TALL = 32
_LEVELS_HEIGHT_MIN = 16


class Head(Static):
    """The state of logs: where each ends, how fast it grows, its seal; warnings and errors of all of them."""

    DEFAULT_CSS = "Head { height: auto; }"

    def __init__(self, *, ascii_only: bool) -> None:
        super().__init__(id="head", markup=False)
        self._ascii_only = ascii_only

    def show(self, snapshots: Sequence[Snapshot], levels: Mapping[str, LevelRate]) -> int:
        """Show the state of logs, and return the height of that."""
        width = self.app.size.width
        is_tall = self.app.size.height >= _TALL
        lines: list[Text] = []
        shown = levels if self.app.size.height >= _LEVELS_HEIGHT_MIN else {}
        rates = [self._level_line(level, rate, width) for level, rate in shown.items()]
        for snapshot in snapshots:
            lines += self._log_lines(snapshot, width)
            if len(snapshots) == 1:
                lines += rates
            lines += self._seal_lines(snapshot)
            if is_tall and len(snapshots) == 1:
                lines += [self._line(each.text, STYLES[each.style]) for each in file_lines(snapshot.view, width, 3)]
        if len(snapshots) > 1:
            lines += rates
        self.update(Text("\n").join(lines))
        return len(lines)

    def _log_lines(self, snapshot: Snapshot, width: int) -> Iterator[Text]:
        view, log = snapshot.view, snapshot.view.log
        yield self._line(f"binlog top  {log.path}", "bold")
        tail = "no files yet" if log.tail is None else f"tail {log.tail}"
        records, files = things_text(log.record_count, "record"), things_text(len(log.files), "file")
        idle_ns = None if log.appended_ns is None else view.time_ns - log.appended_ns
        idle = "" if idle_ns is None else f"  last {duration_text(idle_ns / 1e9)} ago"
        yield self._line(
            f"{tail}  {records}  {files}, {size_text(log.disk_bytes)}  {size_text(snapshot.rate.bytes)}/s{idle}"
        )
        yield self._rate_line(snapshot.rate.records, "records", snapshot.history, width, "green")
        if log.is_poisoned:
            yield self._line("poisoned: a write or a sync failed; reopen the log to recover", "bold red")
        if snapshot.problem is not None:
            yield self._line(snapshot.problem, "bold red")

    def _seal_lines(self, snapshot: Snapshot) -> Iterator[Text]:
        view = snapshot.view
        if view.seal is not None:
            is_bad = view.seal.is_cut or view.seal.problem is not None
            yield self._line(f"seal  {seal_text(view.seal, view.time_ns)}", "bold red" if is_bad else "")

    def _level_line(self, level: str, rate: LevelRate, width: int) -> Text:
        style = _LEVEL_STYLES[level] if rate.per_second else "dim"
        return self._rate_line(rate.per_second, level, rate.history, width, style)

    def _rate_line(self, rate: float, what: str, history: Sequence[float], width: int, style: str) -> Text:
        label = f"{count_text(rate):>7} {what}/s"
        room = max(width - _LABEL_CELLS, 1)
        bars = sparkline(history[-room:], ascii_only=self._ascii_only)
        return self._line(f"{label:<{_LABEL_CELLS}}{bars}", style)

    def _line(self, text: str, style: str = "") -> Text:
        # The text is cut here, because a longer one would continue in the next line.
        line = plain(printable(text), style, ascii_only=self._ascii_only)
        line.truncate(self.app.size.width, overflow="ellipsis" if not self._ascii_only else "crop")
        return line


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """A consumer group.  log: the index of its log on the screen.  directory: of that log."""

    log: int
    directory: str
    name: str


class Watchers(LineList):
    """The followers, groups and members of logs.  The cursor is always on a group, if there is one."""

    DEFAULT_CSS = "Watchers { height: auto; }"

    def __init__(self, *, ascii_only: bool) -> None:
        super().__init__(name="watchers", ascii_only=ascii_only)
        self._lines: list[tuple[Line, GroupPlace | None]] = []
        self._snapshots: Sequence[Snapshot] = ()

    def line_count(self) -> int:
        return len(self._lines)

    def line(self, index: int) -> Shown:
        line = self._lines[index][0]
        return Shown(line.text, STYLES[line.style])

    def show(self, snapshots: Sequence[Snapshot], rows_max: int) -> None:
        """Show the followers and groups of logs.  rows_max: the height; more of them scroll."""
        self._snapshots = snapshots
        self._lines = []
        for index, snapshot in enumerate(snapshots):
            self._add(index, snapshot, named=len(snapshots) > 1)
        if len(self._lines) < rows_max:
            self._add_members(rows_max - len(self._lines))
        self.styles.height = min(len(self._lines), rows_max)
        self.can_focus = any(place for _, place in self._lines)
        if self._lines and self._place() is None:
            self.action_move(1)
        self.changed()

    def place_at(self, index: int) -> GroupPlace | None:
        """Return the group of a line."""
        return self._lines[index][1]

    def action_move(self, count: int) -> None:
        """Move to the next group in a direction, or stay."""
        step = 1 if count > 0 else -1
        at = self.cursor + step
        while 0 <= at < len(self._lines) and self._lines[at][1] is None:
            at += step
        if 0 <= at < len(self._lines):
            self.cursor = at
        self.changed()

    def _place(self) -> GroupPlace | None:
        return self._lines[self.cursor][1] if self.cursor < len(self._lines) else None

    def _add(self, index: int, snapshot: Snapshot, *, named: bool) -> None:
        view, width = snapshot.view, self.app.size.width
        if named and (view.followers or view.groups):
            self._lines.append((Line(printable(view.log.path), "head"), None))
        if view.followers:
            self._lines += [(line, None) for line in follower_lines(view, snapshot.trends, width)]
        if view.groups:
            head, *lines = group_lines(view.groups, snapshot.trends, width)
            self._lines.append((head, None))
            for line, group in zip(lines, view.groups, strict=True):
                self._lines.append((line, GroupPlace(index, view.log.path, group.name)))

    def _add_members(self, room: int) -> None:
        """Add the members of all groups, if there is room for them."""
        groups = [group for snapshot in self._snapshots for group in snapshot.view.groups]
        lines = member_lines(groups, self.app.size.width)
        if len(lines) <= room:
            self._lines += [(line, None) for line in lines]
