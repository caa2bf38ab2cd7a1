"""LineList: a list of lines with a cursor, of which only the visible ones are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from binlog.cli.output import printable


@dataclass(frozen=True, slots=True)
class Shown:
    """A line on the screen.  style: of rich."""

    text: str
    style: str = ""


def plain(text: str, style: str = "", *, ascii_only: bool = False) -> Text:
    """Return text as rich shows it: printable, without markup, in one line; other characters than ASCII become `?`."""
    return Text(as_shown(text, ascii_only=ascii_only), style, no_wrap=True, overflow="ellipsis", end="")


def as_shown(text: str, *, ascii_only: bool) -> str:
    """Return text that a terminal shows and does not obey."""
    text = printable(text)
    return text.encode("ascii", "replace").decode() if ascii_only else text


class LineList(Widget, can_focus=True):
    """A list of lines with a cursor.  A subclass has the lines; they may change before each `changed`."""

    DEFAULT_CSS = "LineList { height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "first", show=False),
        Binding("end,G", "last", show=False),
        Binding("enter", "choose", show=False),
    ]

    @dataclass
    class Chosen(Message):
        """Enter was pressed on a line."""

        lines: LineList
        index: int

        @property
        def control(self) -> LineList:
            return self.lines

    def __init__(self, *, name: str, ascii_only: bool) -> None:
        super().__init__(id=name)
        self.cursor = 0
        self._top = 0
        self.ascii_only = ascii_only

    def line_count(self) -> int:
        """Return how many lines there are."""
        raise NotImplementedError

    def line(self, index: int) -> Shown:
        """Return a line."""
        raise NotImplementedError

    def has_cursor(self) -> bool:
        """Return whether the line of the cursor is marked."""
        return self.has_focus

    def changed(self) -> None:
        """Draw the lines again, and keep the cursor among them, in view."""
        self.cursor = max(min(self.cursor, self.line_count() - 1), 0)
        self._top = max(min(self._top, self.line_count() - self.size.height), 0)
        self._top = min(self._top, self.cursor)
        if self.size.height:
            self._top = max(self._top, self.cursor - self.size.height + 1)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return the line of a row of the screen."""
        width, index = self.size.width, self._top + y
        base = self.rich_style
        if index >= self.line_count():
            return Strip.blank(width, base)
        shown = self.line(index)
        style = base + Style.parse(shown.style)
        if index == self.cursor and self.has_cursor():
            style += Style(reverse=True)
        text = as_shown(shown.text, ascii_only=self.ascii_only)
        if cell_len(text) > width:
            text = set_cell_size(text, max(width - 1, 0)) + ("~" if self.ascii_only else "…")
        return Strip([Segment(text, style)]).adjust_cell_length(width, style)

    def on_resize(self) -> None:
        self.changed()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def action_move(self, count: int) -> None:
        """Move the cursor by some lines."""
        self.cursor += count
        self.changed()

    def step(self, count: int) -> bool:
        """Move the cursor by some lines, and return whether it moved."""
        before = self.cursor
        self.action_move(count)
        return self.cursor != before

    def action_page(self, count: int) -> None:
        """Move by pages."""
        step = count * max(self.size.height - 1, 1)
        self._top = max(self._top + step, 0)
        self.action_move(step)

    def action_first(self) -> None:
        """Move to the first line."""
        self.action_move(-self.line_count())

    def action_last(self) -> None:
        """Move to the last line."""
        self.action_move(self.line_count())

    def action_choose(self) -> None:
        """Tell that the line of the cursor was chosen."""
        if self.line_count():
            self.post_message(self.Chosen(self, self.cursor))
