"""The progress of a job on standard error: a bar on a terminal, otherwise a line at intervals."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any, Self

from binlog.cli.amounts import count_text, duration_text, things_text
from binlog.cli.spark.signals import DeferredSignals

if TYPE_CHECKING:
    from binlog.spark.jobs import Progress

_STANDARD_ERROR = 2
_LINE_SECONDS = 10.0


class Display:
    """Shows the progress of a job.  Leaving its `with` block removes the bar.

    If a signal arrived, a report raises in the caller and so stops the job.
    """

    def __init__(self, what: str, signals: DeferredSignals) -> None:
        self._what = what
        self._signals = signals
        self._begun = self._said = time.monotonic()
        self._bar: Any = None
        if os.isatty(_STANDARD_ERROR) and os.environ.get("TERM", "dumb") not in ("dumb", "unknown"):
            self._bar, self._task = _bar(what)

    def report(self, progress: Progress) -> None:
        """Show the progress of a job.  Raises: KeyboardInterrupt, Signalled."""
        self._signals.check()
        if self._bar is not None:
            self._bar.update(self._task, completed=progress.tasks_done, total=progress.tasks or None)
        elif (now := time.monotonic()) >= self._said + _LINE_SECONDS:
            self._said = now
            self._line(f"{count_text(progress.tasks_done)} of {things_text(progress.tasks, 'task')}")

    def report_records(self, batches: int, records: int) -> None:
        """Show the progress of a stream.  Raises: KeyboardInterrupt, Signalled."""
        self._signals.check()
        text = f"{things_text(batches, 'batch', 'batches')}, {things_text(records, 'record')}"
        if self._bar is not None:
            self._bar.update(self._task, description=f"{self._what}: {text}")
        elif (now := time.monotonic()) >= self._said + _LINE_SECONDS:
            self._said = now
            self._line(text)

    def _line(self, text: str) -> None:
        sys.stderr.write(f"{self._what}: {text}, {duration_text(time.monotonic() - self._begun)}\n")
        sys.stderr.flush()

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def _bar(what: str) -> tuple[Any, Any]:
    # Imported here, because importing rich is slow and most of these jobs run from cron.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
    return bar, bar.add_task(what, total=None)
