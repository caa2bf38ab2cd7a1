"""Questions on the screen: one that is answered with yes or no, and one for a line of text."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from binlog.cli.top.line_list import as_shown

_BOX_CSS = """
{name} {{ align: center middle; background: $background 60%; }}
{name} > Vertical {{
    width: 90%; max-width: 76; height: auto; max-height: 90%; padding: 1 2; background: $panel; overflow-y: auto;
}}
"""


def _wrapped(text: str, *, ascii_only: bool) -> Static:
    return Static(Text(as_shown(text, ascii_only=ascii_only)), markup=False)


class Question(ModalScreen[bool]):
    """Asks whether to do something, and names the consequence; only `y` means yes."""

    DEFAULT_CSS = _BOX_CSS.format(name="Question")
    BINDINGS: ClassVar[list[BindingType]] = [Binding("y", "answer(True)"), Binding("n,escape,q", "answer(False)")]

    def __init__(self, text: str, consequence: str, *, ascii_only: bool) -> None:
        super().__init__()
        self._texts = (text, consequence)
        self._ascii_only = ascii_only

    def compose(self) -> ComposeResult:
        with Vertical():
            for text in self._texts:
                yield _wrapped(text, ascii_only=self._ascii_only)
                yield Static()
            yield Static(Text("y yes   n no", "bold"), markup=False)

    def action_answer(self, answer: bool) -> None:
        """Close the question with an answer."""
        self.dismiss(answer)


class Entry(ModalScreen[str | None]):
    """Asks for a line of text.  Escape answers None."""

    DEFAULT_CSS = _BOX_CSS.format(name="Entry") + "Entry Input { border: none; padding: 0; height: 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", priority=True)]

    def __init__(self, text: str, value: str, *, ascii_only: bool) -> None:
        super().__init__()
        self._text, self._value = text, value
        self._ascii_only = ascii_only

    def compose(self) -> ComposeResult:
        with Vertical():
            yield _wrapped(self._text, ascii_only=self._ascii_only)
            yield Static()
            yield Input(self._value, compact=True)
            yield Static()
            yield Static(Text("enter confirm   escape cancel", "bold"), markup=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()  # the application has a box of its own
        self.dismiss(event.value.strip() or None)

    def action_leave(self) -> None:
        """Close the question without an answer."""
        self.dismiss(None)
