"""`binlog tail`: print the last records, and those that are appended."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import click

import binlog
from binlog.cli.exits import opening
from binlog.cli.log.position import Position
from binlog.cli.looking.following import Follower
from binlog.cli.looking.merging import MergedBackwards, Waiters, by_time
from binlog.cli.looking.options import LookingOptions, looking_options
from binlog.cli.looking.printing import Printer, print_count, print_window
from binlog.cli.looking.sources import LogSource
from binlog.cli.options import complete_start, directories_argument, need_log, path_type, start_from
from binlog.cli.output import raise_without_reader

_COUNT = 10

# How often a waiting follower checks that its output still has a reader.
_POLL_SECONDS = 1.0
_WAIT_SECONDS = 0.1


@click.command("tail", short_help="Print the last records, and follow.")
@directories_argument
@click.option(
    "-n",
    "count",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"Print the last N records; with conditions, the last N that match. [default: {_COUNT}; with --since, --until "
    "or --count, all]",
)
@click.option("-f", "--follow", is_flag=True, help="Print records as they are appended, until Ctrl-C.")
@click.option("-F", "retry", is_flag=True, help="As -f; first wait until a writer has created DIR, or each of them.")
@click.option(
    "--from",
    "start",
    metavar="REF|beginning|end",
    callback=start_from(binlog.Start.BEGINNING, binlog.Start.END),
    shell_complete=complete_start(binlog.Start.BEGINNING, binlog.Start.END),
    help="Start at this ref, at the beginning, or at the end (new records only), instead of the last N records.",
)
@click.option(
    "--position",
    "position_path",
    type=path_type(),
    metavar="FILE",
    help="Start at the ref stored in FILE, if it exists, and update it after printing. The next run resumes there: no "
    "record is skipped, and after a crash the last ones may be printed again. If FILE does not exist yet, the run "
    "starts as usual; add '--from beginning' to start with the first record. 'binlog monitor' shows the lag of each "
    "FILE named *.position in DIR.",
)
@click.option(
    "--if-pruned",
    "if_pruned",
    type=click.Choice(["fail", "oldest"]),
    default="fail",
    show_default=True,
    help="If retention removed records before they were printed, exit with an error, or report the loss and continue "
    "with the oldest record.",
)
@looking_options
def command(
    directories: tuple[str, ...],
    count: int | None,
    follow: bool,
    retry: bool,
    start: binlog.Ref | binlog.Start | None,
    position_path: str | None,
    if_pruned: str,
    options: LookingOptions,
) -> None:
    """Print the last records of the log in DIR, one on each line; with -f, also each record that is appended.

    Only published records are printed. -f continues across cutovers. If there are several logs, their records are
    printed in the order of the times at which they were appended, new ones as they arrive, and each line names its log.
    """
    follow = follow or retry
    _check_usage(directories, count, start, position_path, options, follow=follow)
    printer = Printer(options, named=len(directories) > 1)
    sources = options.sources(directories, first=start if isinstance(start, binlog.Ref) else None)
    while retry and not all(os.path.isdir(directory) for directory in directories):
        raise_without_reader()
        time.sleep(_WAIT_SECONDS)
    if not follow:
        with opening():
            for directory in directories:
                need_log(directory)
            options.check_trust(directories)
    if count is None and start is None and not (options.is_timed or options.count_only):
        count = _COUNT
    if start is not binlog.Start.END and not (follow or position_path):
        _print_without_following(printer, sources, count, options)
        return
    position = None if position_path is None else Position(position_path)
    followers = [Follower(source, position, if_pruned) for source in sources]
    printer.begin()
    try:
        _start(printer, followers, start, count)
        _print_new(printer, followers)
        if follow:
            _follow(printer, followers)
    finally:
        for follower in followers:
            follower.close()


def _check_usage(
    directories: Sequence[str],
    count: int | None,
    start: binlog.Ref | binlog.Start | None,
    position_path: str | None,
    options: LookingOptions,
    *,
    follow: bool,
) -> None:
    if start is not None and (count is not None or options.is_timed):
        raise click.UsageError("--from cannot be used with -n, --since or --until: use only one of them")
    if options.until is not None or options.reverse or options.count_only:
        if follow:
            raise click.UsageError("-f cannot be used with --until, --reverse or --count")
        if position_path is not None:
            raise click.UsageError("--position cannot be used with --until, --reverse or --count")
    if len(directories) > 1 and (position_path is not None or isinstance(start, binlog.Ref)):
        raise click.UsageError("--position, and --from with a ref, need a single DIR")


def _print_without_following(
    printer: Printer, sources: list[LogSource], count: int | None, options: LookingOptions
) -> None:
    with opening():
        for source in sources:
            source.check()  # an error of the start has another exit code than one on the way
    if options.count_only:
        print_count(sources, last=count)
        return
    printer.begin()
    print_window(printer, sources, last=count, reverse=options.reverse)


def _start(
    printer: Printer, followers: list[Follower], start: binlog.Ref | binlog.Start | None, count: int | None
) -> None:
    """Open each log at the stored position; else at `start`; else print the last `count` records, and open it there."""
    if followers[0].stored is not None:
        followers[0].resume()
        return
    if count is None:
        for follower in followers:
            follower.start(start)
        return
    with opening():
        logs = [binlog.stat(follower.source.directory) for follower in followers]
    sources = [follower.source for follower in followers]
    if len(sources) == 1:
        backwards = sources[0].backwards(logs[0])
        printer.matches(sources[0], backwards.last(count))
        backwards.check()
    else:
        all_backwards = MergedBackwards(sources, parse=printer.format.needs_event, logs=logs)
        printer.views(all_backwards.last(count))
        all_backwards.check()
    for follower, log in zip(followers, logs, strict=True):
        follower.start(log.tail or binlog.Start.BEGINNING)


def _print_new(printer: Printer, followers: Sequence[Follower]) -> None:
    """Print all new records, by time if there are several logs."""
    if len(followers) == 1:
        printer.matches(followers[0].source, followers[0].new())
        return
    parse = printer.format.needs_event
    printer.views(by_time([each.source.views(each.new(), parse=parse) for each in followers]))


def _follow(printer: Printer, followers: list[Follower]) -> None:
    """Print records as they are appended."""
    waiters = Waiters(followers) if len(followers) > 1 else None
    while True:
        raise_without_reader()
        if waiters is not None:
            ready = [followers[index] for index in waiters.wait(_POLL_SECONDS)]
        else:
            ready = followers if followers[0].wait(_POLL_SECONDS) else []
        if ready:
            _print_new(printer, ready)
