"""`binlog top`: watch logs on a screen with keys."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import closing

import click

from binlog.cli.exits import CommandError, ExitCode, Signalled, opening
from binlog.cli.looking.options import parse_filters
from binlog.cli.options import directories_argument, need_log, positions_option
from binlog.cli.watching.live_log import LiveLog


@click.command("top", short_help="Watch logs on a screen with keys: stop, scroll, filter, open.")
@directories_argument
@positions_option
@click.option(
    "--filter",
    "words",
    default="",
    metavar="WORDS",
    help="The filter to begin with, quoted as one word: \"--level warning --logger 'app.*'\". The key / changes it.",
)
@click.option("--utc", is_flag=True, help="Show times in UTC instead of local time.")
def command(directories: tuple[str, ...], positions: tuple[str, ...], words: str, utc: bool) -> None:
    """Watch the logs in DIR...: rates, followers, consumer groups, seals, and the records as they come.

    Space pauses the records. The arrows and the page keys scroll, / filters by the options of 'binlog tail', enter
    opens a record, e writes the listed records to a file. Tab goes to the groups; enter opens one, where you can
    deliver its dead letters again, drop them, or reset the group. q ends the command.

    Needs a terminal, and the package textual.
    """
    with opening():
        for directory in directories:
            need_log(directory)
        filters = parse_filters(words)
    try:
        import textual  # noqa: F401
    except ModuleNotFoundError as error:
        needs = "'binlog top' needs the package textual"
        text = f"{needs}; install binlog's extra 'tui': pip install '.[tui]' in a checkout"
        raise CommandError(text, ExitCode.FAILED) from error
    # Imported here, because importing textual takes longer than most commands run.
    from binlog.cli.top.app import TopApp
    from binlog.cli.top.record_feed import RecordFeed

    can_draw = os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    if not (can_draw and os.isatty(0) and sys.__stderr__ is not None and os.isatty(2)):
        raise CommandError("'binlog top' needs a terminal that can draw; 'binlog monitor' does not", ExitCode.USAGE)
    with opening():
        logs = [LiveLog(directory, positions, last_count=0) for directory in directories]
        feed = RecordFeed([(directory, _name(directory, directories)) for directory in directories], filters)
    ascii_only = "utf" not in sys.__stderr__.encoding.lower()
    with closing(feed):
        ended = TopApp(logs, feed, words=words, utc=utc, ascii_only=ascii_only).run(mouse=False)
    if ended == signal.SIGINT:
        raise KeyboardInterrupt
    if ended is not None:
        raise Signalled(ended)


def _name(directory: str, directories: tuple[str, ...]) -> str:
    """Return the name to show for a log: the last part of its path, if no other one has the same."""
    last = os.path.basename(os.path.abspath(directory))
    names = [os.path.basename(os.path.abspath(each)) for each in directories]
    return last if names.count(last) == 1 else directory
