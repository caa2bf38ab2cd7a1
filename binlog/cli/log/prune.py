"""`binlog prune`: remove the oldest closed files."""

from __future__ import annotations

import dataclasses
import functools
import os

import click

import binlog
from binlog.cli.amounts import size_text, things_text, time_text
from binlog.cli.exits import opening, print_error
from binlog.cli.options import directory_argument, json_option, retention_options
from binlog.cli.output import write_line
from binlog.cli.records import object_line


@click.command("prune", short_help="Remove the oldest closed files.")
@directory_argument
@retention_options
@click.option("--consumed", is_flag=True, help="Remove files if every consumer group is done with their messages.")
@click.option(
    "--ignore-groups", is_flag=True, help="Also remove files with messages that a consumer group is not done with."
)
@click.option(
    "--ignore-seal",
    is_flag=True,
    help="Also remove files that the seal protects; 'seal verify' then reports that they are missing.",
)
@click.option("--damaged", is_flag=True, help="Also remove the *.damaged files that belong to the removed files.")
@click.option("--dry-run", is_flag=True, help="Remove nothing; print what would be removed.")
@json_option('Print one JSON object: dry_run, disk_bytes, and "files" with an object for each file.')
def command(
    directory: str,
    keep_bytes: int | None,
    keep_age: float | None,
    before: binlog.Ref | None,
    consumed: bool,
    ignore_groups: bool,
    ignore_seal: bool,
    damaged: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Remove closed files of the log in DIR, oldest first.

    Give at least one of --keep-bytes, --keep-age, --before and --consumed. A file is removed only if all of the given
    limits allow it, and no consumer group needs it; the open file is never removed. In a sealed log, only files that
    'binlog seal prune' has allowed are removed. The file's index or archive is removed with it. Writers and readers may
    run meanwhile; a reader in a removed file gets an error. The removal is durable when the command ends.
    """
    if keep_bytes is None and keep_age is None and before is None and not consumed:
        raise click.UsageError("give at least one of --keep-bytes, --keep-age, --before and --consumed")
    if consumed and ignore_groups:
        raise click.UsageError("--consumed and --ignore-groups cannot be used together")
    prune = functools.partial(
        binlog.prune,
        directory,
        keep_bytes=keep_bytes,
        keep_seconds=keep_age,
        before=before,
        consumed=consumed,
        ignore_groups=ignore_groups,
        damaged=damaged,
    )
    with opening():
        is_protected = not ignore_seal and os.path.isdir(os.path.join(directory, "seal"))
        without_seal = prune(ignore_seal=True, dry_run=True) if is_protected else []
        pruned = prune(ignore_seal=ignore_seal, dry_run=dry_run)
    kept = len(without_seal) - len(pruned)
    if kept > 0:
        print_error(f"the seal keeps {things_text(kept, 'more file')}; 'binlog seal prune' allows to remove them")
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
