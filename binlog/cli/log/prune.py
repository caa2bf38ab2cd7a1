"""`binlog prune`: remove the oldest closed files."""

from __future__ import annotations

import dataclasses

import click

import binlog
from binlog.cli.amounts import size_text, things_text, time_text
from binlog.cli.exits import opening
from binlog.cli.options import byte_count_from, directory_argument, json_option, ref_from, seconds_from
from binlog.cli.output import write_line
from binlog.cli.records import object_line


@click.command("prune", short_help="Remove the oldest closed files.")
@directory_argument
@click.option(
    "--keep-bytes",
    callback=byte_count_from,
    metavar="BYTES",
    help="Keep at least so many of the newest bytes: 512, 10G, 1.5MiB.",
)
@click.option(
    "--keep-age",
    callback=seconds_from,
    metavar="TIME",
    help="Keep what was closed less than so long ago: 90s, 15m, 12h, 30d, 2w.",
)
@click.option("--before", callback=ref_from, metavar="REF", help="Keep the file of this ref, and all after it.")
@click.option("--damaged", is_flag=True, help="Remove too what recovery or repair had set aside from those files.")
@click.option("--dry-run", is_flag=True, help="Remove nothing, and tell what would be.")
@json_option('Print one JSON object: dry_run, disk_bytes, and "files" with one for each file.')
def command(
    directory: str,
    keep_bytes: int | None,
    keep_age: float | None,
    before: binlog.Ref | None,
    damaged: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Remove closed files of the log in DIR, oldest first.

    At least one of --keep-bytes, --keep-age and --before is needed; a file goes where all that are given allow it. The
    open file never goes. Indexes and archives go with their files. It may run beside writers and readers; a reader
    that was still there is told that its place is gone. Durable when the command ends.
    """
    if keep_bytes is None and keep_age is None and before is None:
        raise click.UsageError("one of --keep-bytes, --keep-age and --before is needed")
    with opening():
        pruned = binlog.prune(
            directory, keep_bytes=keep_bytes, keep_seconds=keep_age, before=before, damaged=damaged, dry_run=dry_run
        )
    disk_bytes = sum(file.disk_bytes for file in pruned)
    if as_json:
        files = [dataclasses.asdict(file) for file in pruned]
        write_line(object_line({"dry_run": dry_run, "disk_bytes": disk_bytes, "files": files}))
        return
    done = "would remove" if dry_run else "removed"
    for file in pruned:
        closed = time_text(file.closed_ns)
        write_line(f"{done} {', '.join(file.names)}: closed {closed}, {size_text(file.disk_bytes)} on disk")
    write_line(f"{done} {things_text(len(pruned), 'file')}, {size_text(disk_bytes)} on disk")
