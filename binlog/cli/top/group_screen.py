"""GroupScreen: a consumer group with its members and dead letters, and the changes that an operator makes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Static

import binlog
from binlog.cli.amounts import things_text, time_text
from binlog.cli.group.messages import short_text
from binlog.cli.output import printable
from binlog.cli.top import group_changes
from binlog.cli.top.dialogs import Entry, Question
from binlog.cli.top.line_list import LineList, Shown, plain
from binlog.cli.top.log_state import GroupPlace
from binlog.cli.top.record_screen import Opened, RecordScreen
from binlog.cli.watching.monitor_view import STYLES
from binlog.cli.watching.tables import group_lines, member_lines
from binlog.consumers import DeadLetter, stat_group
from binlog.errors import BinlogError
from binlog.watching import GroupView, Trend
from binlog.watching.trends import Key

_KEYS = "escape back  enter open  r retry  d drop  x reset the group"
_SECONDS = 1.0
_MEMBERS_MAX = 5
_REASON_SHOWN = 40


class GroupScreen(Screen[None]):
    """A consumer group.  trends: returns those of its log.

    If this process may not change the group, the keys that would change it say why.
    """

    DEFAULT_CSS = "GroupScreen Static { height: auto; text-wrap: nowrap; text-overflow: ellipsis; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "app.pop_screen"),
        Binding("r", "change('retry')"),
        Binding("d", "change('drop')"),
        Binding("x", "change('reset')"),
    ]

    def __init__(self, place: GroupPlace, trends: Callable[[], Mapping[Key, Trend]], *, ascii_only: bool) -> None:
        super().__init__()
        self._place = place
        self._trends = trends
        self._ascii_only = ascii_only
        self._state = Static(markup=False)
        self._count = Static(markup=False)
        self._letters = _Letters(ascii_only=ascii_only)
        self._dead: int | None = None

    def compose(self) -> ComposeResult:
        yield Static(self._line(f"group {self._place.name}  {self._place.directory}", "bold"), markup=False)
        yield self._state
        yield Static()
        yield self._count
        yield self._letters
        yield Static(self._line(_KEYS, "dim"), markup=False)

    def on_mount(self) -> None:
        self._letters.focus()
        self._update()
        self.set_interval(_SECONDS, self._update)

    def on_resize(self) -> None:
        self._update()

    def on_line_list_chosen(self, event: LineList.Chosen) -> None:
        """Open the message of a dead letter."""
        event.stop()
        self.app.push_screen(RecordScreen(self._opened(), self._step, ascii_only=self._ascii_only))

    def _opened(self) -> Opened:
        """Return the message of the dead letter of the cursor."""
        letter = self._letters.letters[self._letters.cursor]
        deliveries = things_text(letter.deliveries, "delivery", "deliveries")
        facts = [
            f"dead letter {letter.ref}  message {'-' if letter.sequence is None else letter.sequence}",
            f"{time_text(letter.time_ns or None)}  {deliveries}  {things_text(letter.deaths, 'death')}",
            f"key  {'-' if letter.key is None else letter.key.decode('utf-8', 'backslashreplace')}",
            f"reason  {letter.reason or '-'}",
        ]
        return Opened(facts, letter.body)

    def _step(self, count: int) -> Opened | None:
        return self._opened() if self._letters.step(count) else None

    def action_change(self, what: str) -> None:
        """Begin a change of the group: `retry`, `drop` or `reset`."""
        changes: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "retry": self._retry,
            "drop": self._drop,
            "reset": self._reset,
        }
        self.run_worker(self._reported(changes[what]), exclusive=True)

    async def _reported(self, change: Callable[[], Coroutine[Any, Any, None]]) -> None:
        refused = group_changes.why_not(self._place.directory, self._place.name)
        if refused is not None:
            self._tell(refused, is_bad=True)
            return
        try:
            await change()
        except (BinlogError, ValueError) as error:
            self._tell(str(error), is_bad=True)

    async def _retry(self) -> None:
        letter = self._chosen()
        if letter is None:
            return
        if letter.sequence is None:
            self._tell("the message of this dead letter is not known, so it cannot be delivered again", is_bad=True)
            return
        text = f"Deliver message {letter.sequence} to the group {self._place.name} again?"
        consequence = "Its deliveries are counted from 1 again. The dead letter stays in this list until it is dropped."
        if await self._agrees(text, consequence):
            await self._do(group_changes.retry, letter)

    async def _drop(self) -> None:
        letter = self._chosen()
        if letter is None:
            return
        name = f"the dead letter {letter.ref}" if letter.sequence is None else f"dead letter {letter.sequence}"
        if await self._agrees(f"Remove {name}?", group_changes.drop_text(self._letters.letters, letter)):
            await self._do(group_changes.drop, letter)

    async def _reset(self) -> None:
        name = self._place.name
        asked = f"Reset the group {name} to which message? A sequence number, beginning or end."
        text = await self.app.push_screen_wait(Entry(asked, "", ascii_only=self._ascii_only))
        if text is None:
            return
        log = binlog.stat(self._place.directory)
        sequence = group_changes.place_of(log, text)
        stat = stat_group(self._place.directory, name, log=log)
        if await self._agrees(
            f"Reset the group {name} to message {sequence}?", group_changes.reset_text(stat, sequence)
        ):
            await self._do(group_changes.reset, sequence)

    def _chosen(self) -> DeadLetter | None:
        letters = self._letters.letters
        if not letters:
            self._tell("the group has no dead letters")
            return None
        return letters[self._letters.cursor]

    async def _agrees(self, text: str, consequence: str) -> bool:
        return await self.app.push_screen_wait(Question(text, consequence, ascii_only=self._ascii_only))

    async def _do(self, change: Callable[..., str], argument: object) -> None:
        # In a thread, because a change waits for a sync.
        outcome = await asyncio.to_thread(change, self._place.directory, self._place.name, argument)
        self._dead = None
        self._update()
        self._tell(outcome)

    def _tell(self, text: str, *, is_bad: bool = False) -> None:
        self.app.notify(printable(text), severity="error" if is_bad else "information", markup=False)

    def _update(self) -> None:
        directory, name = self._place.directory, self._place.name
        try:
            stat = stat_group(directory, name)
            group = GroupView(name, stat)
            if self._dead != stat.dead_letters:
                self._letters.show(group_changes.last_letters(directory, name))
                self._dead = stat.dead_letters
        except BinlogError as error:
            group = GroupView(name, None, str(error))
        width = self.size.width
        members = member_lines([group], width)
        lines = [*group_lines([group], self._trends(), width), *members[: 1 + _MEMBERS_MAX]]
        shown = len(self._letters.letters)
        told = things_text(shown, "dead letter") if shown else "no dead letters"
        self._count.update(self._line(f"{told}, the newest first" if shown > 1 else told, "dim"))
        self._state.update(Text("\n").join(self._line(each.text, STYLES[each.style]) for each in lines))

    def _line(self, text: str, style: str) -> Text:
        return plain(text, style, ascii_only=self._ascii_only)


class _Letters(LineList):
    """The dead letters of a group, the newest first."""

    def __init__(self, *, ascii_only: bool) -> None:
        super().__init__(name="letters", ascii_only=ascii_only)
        self.letters: Sequence[DeadLetter] = ()

    def show(self, letters: Sequence[DeadLetter]) -> None:
        """Show dead letters, with the cursor on the one that had it."""
        before = self.letters[self.cursor].ref if self.letters else None
        self.letters = letters
        self.cursor = next((at for at, each in enumerate(letters) if each.ref == before), self.cursor)
        self.changed()

    def line_count(self) -> int:
        return len(self.letters)

    def line(self, index: int) -> Shown:
        letter = self.letters[index]
        sequence = "-" if letter.sequence is None else letter.sequence
        deliveries = things_text(letter.deliveries, "delivery", "deliveries")
        what = f"{sequence:>10}  {time_text(letter.time_ns or None)}  {deliveries:<13}"
        return Shown(f"{what}  {letter.reason[:_REASON_SHOWN] or '-'}  {short_text(letter.body)}")
