"""`binlog ship`: copy closed files to a directory or an object store."""

from __future__ import annotations

import click

import binlog
from binlog.cli.amounts import size_text, things_text
from binlog.cli.exits import CommandError, ExitCode, opening, print_error
from binlog.cli.options import directory_argument, json_option
from binlog.cli.output import printable, raise_without_reader, write_line
from binlog.cli.records import object_line
from binlog.errors import CorruptError
from binlog.moving import Shipped, follow, ship


@click.command("ship", short_help="Copy closed files to a directory or an object store.")
@directory_argument
@click.argument("url", metavar="URL")
@click.option(
    "-f", "--follow", "as_follower", is_flag=True, help="Also copy each file after its cutover, until Ctrl-C."
)
@click.option(
    "--prune-shipped",
    is_flag=True,
    help="Then remove from DIR the files that have arrived, oldest first, except those that a consumer group needs.",
)
@json_option('Print one JSON object for each run: last_number, "files" and "pruned".')
def command(directory: str, url: str, as_follower: bool, prune_shipped: bool, as_json: bool) -> ExitCode:
    """Copy the closed files of the log in DIR to URL, with their indexes.

    URL is the path of a directory, or names one that PyArrow or fsspec supports: s3://bucket/log, sftp://host/log. Only
    files that have not arrived yet are copied. Each copy is read back and compared before it counts, so a run that is
    killed leaves no incomplete file under the name of a log file, and the next run continues.

    URL is then a log without an open file: 'binlog cat', 'tail -f' and 'check' read it in place if URL is a
    directory, and Spark reads it wherever it is. To append to it, run 'binlog repair' on it first.

    Writers, 'binlog archive' and 'binlog prune' may run meanwhile. A damaged file is not copied, and makes the command
    exit with 1. If a file and its copy differ, --prune-shipped keeps it and all later files, and the command exits with
    1.
    """
    try:
        with opening():
            binlog.stat(directory)  # so that a log that cannot be opened has another exit code than a damaged record
            runs = follow(directory, url, prune_shipped=prune_shipped) if as_follower else None
            first = ship(directory, url, prune_shipped=prune_shipped) if runs is None else next(runs)
    except CommandError as error:
        if isinstance(error.__cause__, CorruptError):
            raise CommandError(str(error), ExitCode.FAILED) from error
        raise
    except ImportError as error:
        raise CommandError(str(error).removeprefix("binlog: "), ExitCode.USAGE) from error
    _print(first, directory, as_json=as_json, is_follower=False)
    for done in runs or ():
        raise_without_reader()
        _print(done, directory, as_json=as_json, is_follower=True)
    return ExitCode.OK if first.kept_number is None else ExitCode.FAILED


def _print(done: Shipped, directory: str, *, as_json: bool, is_follower: bool) -> None:
    """Print a run.  is_follower: say nothing if nothing was done."""
    if done.kept_number is not None:
        number = done.kept_number
        print_error(
            f"file {number} of {directory} and its copy differ, so all files from it on are kept. 'binlog check' says "
            f"which one is damaged. If it is the copy, remove it and {number:08d}.shipped, and ship again"
        )
    if as_json:
        files = [{"number": each.number, "names": sorted(each.copies), "bytes": each.bytes} for each in done.files]
        pruned = [each.number for each in done.pruned]
        write_line(object_line({"last_number": done.last_number, "files": files, "pruned": pruned}))
        return
    for each in done.files:
        write_line(printable(f"shipped {', '.join(sorted(each.copies))}: {size_text(each.bytes)}"))
    for removed in done.pruned:
        write_line(printable(f"removed {', '.join(removed.names)}"))
    if not is_follower:
        total = sum(each.bytes for each in done.files)
        write_line(f"shipped {things_text(len(done.files), 'file')}, {size_text(total)}")
