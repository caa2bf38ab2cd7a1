"""`binlog archive`: compress closed files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import click

import binlog
from binlog.cli.amounts import size_text, things_text, time_text
from binlog.cli.exits import ExitCode, opening
from binlog.cli.options import directory_argument, json_option, seconds_from
from binlog.cli.output import printable, write_line
from binlog.cli.records import object_line

_COLUMNS = ("FILE", "CLOSED", "SIZE", "ARCHIVE", "RATIO")
_LEVEL_MAX = 19


@click.command("archive", short_help="Compress closed files.")
@directory_argument
@click.option(
    "--keep-last",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Do not compress the newest N closed files.",
)
@click.option(
    "--keep-age",
    callback=seconds_from,
    metavar="TIME",
    help="Do not compress files closed less than this long ago: 90s, 15m, 12h, 30d, 2w.",
)
@click.option(
    "--level",
    type=click.IntRange(1, _LEVEL_MAX),
    default=3,
    show_default=True,
    help="The zstd level. Higher levels compress better and more slowly; reading is not slower.",
)
@click.option("--dry-run", is_flag=True, help="Compress nothing; print what would be compressed.")
@json_option('Print one JSON object: dry_run, raw_bytes, archive_bytes, and "files" with an object for each file.')
def command(
    directory: str,
    keep_last: int,
    keep_age: float | None,
    level: int,
    dry_run: bool,
    as_json: bool,
) -> ExitCode:
    """Compress the closed files of the log in DIR, oldest first: 00000001.dat becomes 00000001.dat.zst.

    Records keep their refs, and all commands and readers can still read them. A file is removed only after its archive
    has been synced, read back from the disk and found equal. A damaged file, or one that other programs may write to,
    is left as it is and reported, and the command exits with 1. Writers and readers may run meanwhile.
    """
    with opening():
        done = binlog.archive(directory, keep_last=keep_last, keep_seconds=keep_age, level=level, dry_run=dry_run)
    made = [each for each in done if each.problem is None]
    raw_bytes = sum(each.raw_bytes for each in made)
    archive_bytes = sum(each.archive_bytes or 0 for each in made)
    if as_json:
        files = [dataclasses.asdict(each) for each in done]
        sums = {"raw_bytes": raw_bytes, "archive_bytes": None if dry_run else archive_bytes}
        write_line(object_line({"dry_run": dry_run, **sums, "files": files}))
    else:
        for line in _lines(done, dry_run=dry_run):
            write_line(printable(line))
        summary = f"{things_text(len(made), 'file')}, {size_text(raw_bytes)}"
        write_line(f"would archive {summary}" if dry_run else f"archived {summary}, to {size_text(archive_bytes)}")
    return ExitCode.FAILED if len(made) < len(done) else ExitCode.OK


def _lines(done: list[binlog.Archived], *, dry_run: bool) -> Iterator[str]:
    """Yield a line for each file that was left, with the reason, and then a table of the others."""
    for each in done:
        if each.problem is not None:
            yield f"not archived: {each.problem}"
    rows = [_row(each) for each in done if each.problem is None]
    if not rows:
        return
    columns = 3 if dry_run else len(_COLUMNS)
    table = [_COLUMNS, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(columns)]
    for row in table:
        yield "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=False))


def _row(each: binlog.Archived) -> tuple[str, ...]:
    archive_bytes = each.archive_bytes or 0
    return (
        each.name.removesuffix(".zst"),
        time_text(each.closed_ns),
        size_text(each.raw_bytes),
        size_text(archive_bytes),
        f"{each.raw_bytes / archive_bytes:.1f}x" if archive_bytes else "-",
    )
