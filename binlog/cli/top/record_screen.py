"""RecordScreen: one record, as JSON, as text, or in hexadecimal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import chop_cells
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Static

from binlog.cli.amounts import size_text
from binlog.cli.output import printable
from binlog.cli.top.line_list import LineList, Shown, plain

_BYTES_SHOWN = 256 << 10
_BYTES_A_LINE = 16
_KEYS = "escape back  left, right other records  x hexadecimal  up, down, pages scroll"


@dataclass(frozen=True, slots=True)
class Opened:
    """A record to show.  facts: lines about it."""

    facts: Sequence[str]
    data: bytes


class RecordScreen(Screen[None]):
    """One record of a list.  step: returns the record a number of places further in the list, or None at its ends.

    JSON is shown with a line for each member, other text as it is, and anything else in hexadecimal.
    """

    DEFAULT_CSS = "RecordScreen Static { height: auto; text-wrap: nowrap; text-overflow: ellipsis; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "app.pop_screen"),
        Binding("x", "switch"),
        Binding("left", "step(-1)"),
        Binding("right", "step(1)"),
    ]

    def __init__(self, opened: Opened, step: Callable[[int], Opened | None], *, ascii_only: bool) -> None:
        super().__init__()
        self._opened = opened
        self._step = step
        self._ascii_only = ascii_only
        self._facts = Static(markup=False)
        self._lines = _Lines(opened.data, ascii_only=ascii_only)

    def compose(self) -> ComposeResult:
        yield self._facts
        yield Static()
        yield self._lines
        yield Static(plain(_KEYS, "dim"), markup=False)

    def on_mount(self) -> None:
        self._lines.focus()
        self._show_facts()

    def action_switch(self) -> None:
        """Show the bytes, or the text again."""
        self._lines.switch()

    def action_step(self, count: int) -> None:
        """Show the next record of the list, or the previous one."""
        opened = self._step(count)
        if opened is None:
            return
        self._opened = opened
        self._show_facts()
        self._lines.show(opened.data)

    def _show_facts(self) -> None:
        lines = [plain(fact, "bold", ascii_only=self._ascii_only) for fact in self._opened.facts]
        self._facts.update(Text("\n").join(lines))


class _Lines(LineList):
    _is_hex: bool

    def __init__(self, data: bytes, *, ascii_only: bool) -> None:
        super().__init__(name="record", ascii_only=ascii_only)
        self._wrapped: list[str] = []
        self._keep(data)

    def line_count(self) -> int:
        return len(self._wrapped)

    def line(self, index: int) -> Shown:
        return Shown(self._wrapped[index])

    def has_cursor(self) -> bool:
        return False

    def show(self, data: bytes) -> None:
        """Show another record."""
        self._keep(data)
        self._wrap()

    def switch(self) -> None:
        """Show the bytes, or the text again, if there is one."""
        self._is_hex = not self._is_hex or self._text is None
        self.cursor = self._top = 0
        self._wrap()

    def on_resize(self) -> None:
        self._wrap()

    def action_move(self, count: int) -> None:
        # There is no cursor, so a key moves the whole text.
        self._top = max(min(self._top + count, len(self._wrapped) - self.size.height), 0)
        self.cursor = self._top
        self.refresh()

    def action_page(self, count: int) -> None:
        self.action_move(count * max(self.size.height - 1, 1))

    def _keep(self, data: bytes) -> None:
        self._data = data
        self._text = text_lines(data)
        self._is_hex = self._text is None
        self.cursor = self._top = 0

    def _wrap(self) -> None:
        lines = list(hex_lines(self._data)) if self._is_hex or self._text is None else self._text
        if len(self._data) > _BYTES_SHOWN:
            lines = [*lines, f"... these are the first {size_text(_BYTES_SHOWN)} of {size_text(len(self._data))}"]
        width = max(self.size.width, 1)
        self._wrapped = [part for line in lines for part in (chop_cells(printable(line), width) or [""])]
        self.changed()


def text_lines(data: bytes) -> list[str] | None:
    """Return the lines of a record: of JSON one for each member; None if it is not text."""
    try:
        text = (
            data[:_BYTES_SHOWN].decode() if len(data) <= _BYTES_SHOWN else data[:_BYTES_SHOWN].decode(errors="ignore")
        )
    except UnicodeDecodeError:
        return None
    if "\0" in text:
        return None
    if data[:1] in (b"{", b"[") and len(data) <= _BYTES_SHOWN:
        with suppress(ValueError, RecursionError):
            text = json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    return text.expandtabs(4).split("\n")


def hex_lines(data: bytes) -> Iterator[str]:
    """Yield lines with the offset, 16 bytes in hexadecimal, and those of them that are ASCII."""
    shown = data[:_BYTES_SHOWN]
    for at in range(0, len(shown), _BYTES_A_LINE):
        part = shown[at : at + _BYTES_A_LINE]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        yield f"{at:08x}  {part.hex(' '):<{3 * _BYTES_A_LINE - 1}}  {text}"
