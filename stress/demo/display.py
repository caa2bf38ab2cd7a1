"""The output of the demo: one line for each event, and progress bars on a terminal."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

# Of a progress bar, if there is no terminal to draw it on.
_QUARTERS = 4


class Display:
    """Standard output, as a context manager."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True)
        self._progress = Progress(
            TextColumn("{task.description:>12}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._bars: dict[str, TaskID] = {}
        self._quarters: dict[str, int] = {}
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Return the time since the start."""
        return time.monotonic() - self._started

    def say(self, text: str) -> None:
        """Print an event."""
        self.show(f"{self.seconds:6.1f} s  {text}", style="bold")

    def show(self, text: str, style: str = "") -> None:
        """Print a text unchanged."""
        self._console.print(text, style=style, markup=False)

    def bar(self, name: str, count: int, total: int | None) -> None:
        """Show progress; total: None if unknown."""
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(name, total=total)
        self._progress.update(self._bars[name], completed=count)
        quarter = _QUARTERS * count // total if total else 0
        if self._progress.disable and total and quarter > self._quarters.get(name, 0):
            self._quarters[name] = quarter
            self.show(f"{self.seconds:6.1f} s  {name}: {count:,} of {total:,}")

    def end_bars(self) -> None:
        """Remove the bars."""
        for bar in self._bars.values():
            self._progress.remove_task(bar)
        self._bars.clear()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
