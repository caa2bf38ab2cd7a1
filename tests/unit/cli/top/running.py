"""Runs `binlog top` on real logs, without a terminal, and presses its keys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets import Input

from binlog.cli.looking.options import parse_filters
from binlog.cli.top.app import TopApp
from binlog.cli.top.record_feed import RecordFeed
from binlog.cli.watching.live_log import LiveLog
from tests.unit.cli.top.screens import screen_text

SECONDS_MAX = 30.0
# Before each line of a message.
_EDGE = "▌"


class Running:
    """An application that runs, and its keys."""

    def __init__(self, app: TopApp, pilot: Pilot[object]) -> None:
        self.app = app
        self._pilot = pilot

    @property
    def text(self) -> str:
        """The characters on the screen."""
        return screen_text(self.app)

    async def press(self, *keys: str) -> None:
        """Press keys."""
        await self._pilot.press(*keys)

    async def paste(self, text: str) -> None:
        """Paste a text, in place of the one in the box."""
        await self._pilot.press("home", "shift+end", "delete")
        box = self.app.focused
        assert isinstance(box, Input)
        box.post_message(Paste(text))
        await self._pilot.pause()

    async def shows(self, *texts: str) -> str:
        """Wait until all texts are on the screen, in one or several lines, and return the screen."""
        end = time.monotonic() + SECONDS_MAX
        while not all(_words(text) in _words(screen := self.text) for text in texts):
            assert time.monotonic() < end, f"{texts} were to come:\n{screen}"
            await self._pilot.pause(0.02)
        return screen


def _words(text: str) -> str:
    return " ".join(text.replace(_EDGE, " ").split())


def run_top(
    work: Callable[[Running], Awaitable[None]], *logs: Path, words: str = "", size: tuple[int, int] = (100, 40)
) -> None:
    """Run `binlog top` on logs while `work` presses keys."""

    async def running() -> None:
        feed = RecordFeed([(str(log), log.name) for log in logs], parse_filters(words))
        app = TopApp([LiveLog(str(log), (), last_count=0) for log in logs], feed, words=words, utc=True)
        try:
            async with app.run_test(size=size, notifications=True) as pilot:
                await work(Running(app, pilot))
        finally:
            feed.close()

    asyncio.run(running())
