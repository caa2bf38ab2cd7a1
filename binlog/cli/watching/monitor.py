"""`binlog monitor`: a live view of a log on a terminal, or a line at intervals."""

from __future__ import annotations

import io
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import click

from binlog.cli.amounts import Amount
from binlog.cli.exits import ended_by_sigterm, opening
from binlog.cli.options import directory_argument, json_option, need_log, positions_option, seconds_from
from binlog.cli.output import STANDARD_OUTPUT, write_line
from binlog.cli.watching.live_log import LiveLog
from binlog.cli.watching.monitor_view import json_line, text_line

_LAST_RECORDS = 200
_IDLE_SECONDS = 1.0
_REDRAW_SECONDS = 0.1
_INTERVAL_SECONDS_MIN = 0.01
_INTERVAL_SECONDS_MAX = 86_400.0


def _interval_from(context: click.Context, parameter: click.Parameter, value: str) -> float:
    seconds = seconds_from(context, parameter, value)
    if seconds is None or not _INTERVAL_SECONDS_MIN <= seconds <= _INTERVAL_SECONDS_MAX:
        raise click.BadParameter(f"{value!r} is not between {_INTERVAL_SECONDS_MIN} s and a day")
    return seconds


@click.command("monitor", short_help="Watch a log live: rate, files, followers, groups.")
@directory_argument
@positions_option
@click.option(
    "--interval",
    callback=_interval_from,
    metavar="TIME",
    default="1s",
    show_default=True,
    help="The time between lines if the output is not a terminal: 0.5s, 1m.",
)
@click.option("--once", is_flag=True, help="Show the current state and exit.")
@json_option("Print lines, each a JSON object, even on a terminal.")
def command(directory: str, positions: tuple[str, ...], interval: float, once: bool, as_json: bool) -> None:
    """Watch the log in DIR: its growth, its files, its followers, its consumer groups, its seal and its
    last records.

    The screen is redrawn as records arrive, at most ten times a second, and otherwise once a second. If the output is
    not a terminal, the command prints a line every --interval instead. Ctrl-C ends the command.

    A follower's lag is the number of records from its position to the tail of the log.
    """
    with opening():
        if once:
            need_log(directory)
        watch = LiveLog(directory, positions, last_count=_LAST_RECORDS)
    with closing(watch):
        if as_json or not _on_screen():
            _print_lines(watch, interval, once=once, as_json=as_json)
        else:
            _draw(watch, once=once)


def _on_screen() -> bool:
    return os.isatty(STANDARD_OUTPUT) and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


def _print_lines(watch: LiveLog, interval: float, *, once: bool, as_json: bool) -> None:
    line = json_line if as_json else text_line
    rate: Amount | None = None
    before = Amount(0, 0)
    printed = 0.0
    while True:
        watch.update(whole=True)
        snapshot, now = watch.snapshot(), time.monotonic()
        if printed:
            seconds = now - printed
            rate = Amount(
                (snapshot.seen.records - before.records) / seconds, (snapshot.seen.bytes - before.bytes) / seconds
            )
        write_line(line(snapshot, rate))
        if once:
            return
        before, printed = snapshot.seen, now
        time.sleep(interval)


def _draw(watch: LiveLog, *, once: bool) -> None:
    # Imported here, because importing rich takes longer than most commands run.
    from rich.console import Console
    from rich.live import Live

    from binlog.cli.watching.monitor_view import MonitorView

    if isinstance(sys.stdout, io.TextIOWrapper):
        # A character that the terminal's encoding lacks becomes one '?', which keeps the columns aligned.
        sys.stdout.reconfigure(errors="replace")
    console = Console(highlight=False, force_terminal=True)
    if once:
        watch.update(whole=True)
        console.print(MonitorView(watch.snapshot()))
        return
    with (
        ended_by_sigterm(),
        Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live,
    ):
        while True:
            watch.update()
            size = os.get_terminal_size(STANDARD_OUTPUT)
            if all(size):
                # Asked each time: rich trusts COLUMNS and LINES, which may be exported and stale.
                console.size = size
            with _not_interrupted():
                live.update(MonitorView(watch.snapshot()), refresh=True)
            drawn = time.monotonic()
            if watch.wait(_IDLE_SECONDS):
                # Records that arrive meanwhile are drawn together.
                time.sleep(max(drawn + _REDRAW_SECONDS - time.monotonic(), 0))


@contextmanager
def _not_interrupted() -> Iterator[None]:
    """Block Ctrl-C and SIGTERM: if they interrupt its drawing, rich does not restore the terminal."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
