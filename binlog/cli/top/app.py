"""TopApp: the screen of `binlog top` and its keys."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from typing import ClassVar, Protocol

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, Static

from binlog.cli.amounts import count_text, size_text, things_text
from binlog.cli.exits import system_text
from binlog.cli.looking.event_fields import body_of
from binlog.cli.looking.options import parse_filters
from binlog.cli.looking.times import rfc3339
from binlog.cli.output import printable
from binlog.cli.top.dialogs import Entry
from binlog.cli.top.group_screen import GroupScreen
from binlog.cli.top.line_list import LineList, plain
from binlog.cli.top.log_state import Head, Watchers
from binlog.cli.top.record_feed import RecordFeed
from binlog.cli.top.record_list import RecordList, save
from binlog.cli.top.record_screen import Opened, RecordScreen
from binlog.cli.watching.live_log import Snapshot

_READ_SECONDS = 0.2
_STATE_SECONDS = 1.0
# With the lines of the status and of the keys.
_RECORD_ROWS_MIN = 6
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_KEYS = "q quit  space pause  / filter  enter open  e export  tab groups  end follow"
_KEYS_OF_GROUPS = "q quit  tab records  enter open the group: dead letters, reset"
_FILTER_HELP = "--level warning --logger 'app.*' --field k=v --grep x -v y"


class Watched(Protocol):
    """A log as the screen sees it; LiveLog is one."""

    def update(self, *, whole: bool = False) -> None:
        """Find the state of the log."""

    def snapshot(self) -> Snapshot:
        """Return the state."""


class TopApp(App[signal.Signals | None]):
    """Watches logs until a key or a signal ends it; `run` returns the signal, or None.

    feed: of their records.  words: of its filter.  utc: whether times are in UTC.  ascii_only: for the terminal.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layout: vertical; overflow: hidden; }
    Static { height: auto; }
    #status, #keys { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    #filter { display: none; border: none; padding: 0; height: 1; }
    #filter.asked { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", priority=False),
        Binding("ctrl+c", "interrupt", priority=True),
        Binding("space", "pause"),
        Binding("slash", "ask_filter"),
        Binding("e", "export"),
    ]

    def __init__(
        self, logs: Sequence[Watched], feed: RecordFeed, *, words: str = "", utc: bool = False, ascii_only: bool = False
    ) -> None:
        super().__init__(ansi_color=True)
        self._logs = logs
        self._feed = feed
        self._words = words
        self._refused: str | None = None
        self._utc, self._ascii_only = utc, ascii_only
        self._named = len(logs) > 1
        self._head = Head(ascii_only=ascii_only)
        self._watchers = Watchers(ascii_only=ascii_only)
        self._records = RecordList(feed, named=self._named, utc=utc, ascii_only=ascii_only)
        self._status = Static(id="status", markup=False)
        self._keys = Static(id="keys", markup=False)
        self._filter = Input(id="filter", placeholder=_FILTER_HELP, compact=True)

    def compose(self) -> ComposeResult:
        yield self._head
        yield self._watchers
        yield self._status
        yield self._records
        yield self._filter
        yield self._keys

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.exit, number)
        self._records.focus()
        self._show_state()
        self._records.renew()
        self.set_interval(_READ_SECONDS, self._read)
        self.set_interval(_STATE_SECONDS, self._update_state)

    def on_resize(self) -> None:
        self._show_state()

    def on_descendant_focus(self) -> None:
        self._show_keys()

    def on_line_list_chosen(self, event: LineList.Chosen) -> None:
        """Open a record, or a group."""
        if event.lines is self._watchers:
            place = self._watchers.place_at(event.index)
            if place is not None:
                log = self._logs[place.log]
                self.push_screen(GroupScreen(place, lambda: log.snapshot().trends, ascii_only=self._ascii_only))
            return
        self.push_screen(RecordScreen(self._opened(), self._step, ascii_only=self._ascii_only))

    def _opened(self) -> Opened:
        """Return the record of the cursor."""
        view = self._records.view_at(self._records.cursor)
        facts = [
            f"record {view.ref}  sequence {'-' if view.sequence is None else view.sequence}  {view.log}",
            f"appended {rfc3339(view.appended_ns, utc=self._utc)}  {size_text(len(view.data))}",
        ]
        return Opened(facts, body_of(view.data))

    def _step(self, count: int) -> Opened | None:
        return self._opened() if self._records.step(count) else None

    def action_interrupt(self) -> None:
        """End as after Ctrl-C."""
        self.exit(signal.SIGINT)

    def action_pause(self) -> None:
        """Pause the records, or continue."""
        self._feed.pause(is_paused=not self._feed.is_paused)
        self._records.renew()
        self._show_status()

    def action_ask_filter(self) -> None:
        """Show the box for the filter."""
        self._filter.value = self._words
        self._filter.add_class("asked")
        self._filter.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Filter the records by the text of the box."""
        try:
            filters = parse_filters(event.value)
        except ValueError as error:
            self._refused = str(error)
            self._show_keys()
            return
        self._words = event.value.strip()
        self._feed.filter(filters)
        self._records.restart()
        self._close_filter()

    def on_input_changed(self) -> None:
        """Forget why the last filter was refused."""
        self._refused = None
        self._show_keys()

    def key_escape(self) -> None:
        """Close the box for the filter."""
        self._close_filter()

    def action_export(self) -> None:
        """Ask for a file, and write the records that are shown to it."""
        self.run_worker(self._export(), exclusive=True)

    async def _export(self) -> None:
        views = list(self._feed.shown.views)
        text = f"Write the {things_text(len(views), 'record')} of the list to a new file, as JSON lines. Its name:"
        path = await self.push_screen_wait(Entry(text, "records.jsonl", ascii_only=self._ascii_only))
        if path is None:
            return
        try:
            told = save(os.path.expanduser(path), views, named=self._named)
        except OSError as error:
            self.notify(printable(system_text(error)), severity="error", markup=False)
            return
        self.notify(printable(told), markup=False)

    def _close_filter(self) -> None:
        self._filter.remove_class("asked")
        self._records.focus()
        self._show_status()

    def _read(self) -> None:
        before = self._feed.new_count
        if self._feed.update():
            self._records.renew()
            self._show_status()
        elif self._feed.new_count != before:
            self._show_status()

    def _update_state(self) -> None:
        for log in self._logs:
            log.update()
        self._show_state()

    def _show_state(self) -> None:
        snapshots = [log.snapshot() for log in self._logs]
        height = self.size.height
        head_rows = self._head.show(snapshots, self._feed.level_rates())
        self._watchers.show(snapshots, max(min(height // 3, height - head_rows - _RECORD_ROWS_MIN), 1))
        self._show_status()
        self._show_keys()

    def _show_status(self) -> None:
        feed = self._feed
        parts = [things_text(len(feed.shown.views), "record")]
        if self._words:
            parts.append(f"filter {self._words}")
        if feed.is_paused:
            parts.append(f"paused, {count_text(feed.new_count)} new")
        elif not self._records.is_following:
            parts.append("scrolled; end follows")
        if feed.skipped:
            parts.append(f"{count_text(feed.skipped)} skipped, too fast")
        if feed.problem is not None:
            parts.append(feed.problem)
        style = "bold red" if feed.problem else "bold yellow" if feed.is_paused else "dim"
        self._status.update(plain("   ".join(parts), style, ascii_only=self._ascii_only))

    def _show_keys(self) -> None:
        asked = self._filter.has_class("asked")
        if asked and self._refused is not None:
            self._keys.update(plain(self._refused, "bold red", ascii_only=self._ascii_only))
            return
        text = _KEYS_OF_GROUPS if self._watchers.has_focus else "enter filter  escape cancel" if asked else _KEYS
        self._keys.update(plain(text, "dim", ascii_only=self._ascii_only))
