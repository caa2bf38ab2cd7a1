"""`binlog stat`: list the files of a log."""

from __future__ import annotations

from collections.abc import Iterator

import click

import binlog
from binlog.cli.amounts import count_text, size_text, time_text
from binlog.cli.exits import opening
from binlog.cli.options import directory_argument, json_option, need_log, positions_option
from binlog.cli.output import printable, write_line, write_table
from binlog.cli.records import object_line
from binlog.cli.watching.texts import (
    follower_object,
    follower_text,
    group_object,
    group_text,
    seal_object,
    seal_text,
)
from binlog.watching import view_log

_COLUMNS = ("FILE", "STATE", "RECORDS", "FIRST SEQUENCE", "TAIL", "DURABLE", "ON DISK", "PREPARED", "CREATED")
_LEAST = ("PREPARED", "FIRST SEQUENCE", "DURABLE", "CREATED")


@click.command("stat", short_help="List the files of a log.")
@directory_argument
@positions_option
@json_option(
    'Print one JSON object: path, tail, totals in bytes and records, "files", "followers" and "groups", with one '
    'object for each, and "seal".'
)
def command(directory: str, positions: tuple[str, ...], as_json: bool) -> None:
    """List the files of the log in DIR: open, closed or archived, record count and size.

    TAIL is the offset in bytes at which the file's next record will start, DURABLE the offset up to which the file is
    known to be synced. ON DISK is the space that the file or its archive takes, PREPARED the part of it after the tail,
    allocated for future records. '-' means that another program wrote the file and the value is unknown. A narrow
    terminal shows fewer columns; --json has them all.

    Followers and consumer groups have a line each, with what they have yet to read or to do, and the seal has one.
    """
    with opening():
        need_log(directory)
        view = view_log(directory, positions)
    log = view.log
    if as_json:
        more = {
            "followers": [follower_object(follower) for follower in view.followers],
            "groups": [group_object(group) for group in view.groups],
            "seal": None if view.seal is None else seal_object(view.seal),
        }
        write_line(object_line({**as_object(log), **more}))
        return
    counts = f"records {count_text(log.record_count)}, on disk {size_text(log.disk_bytes)}"
    write_line(f"{printable(log.path)}: tail {log.tail}, {counts}")
    if notes := list(_notes(log)):
        write_line("; ".join(notes))
    write_table(_COLUMNS, [_row(file) for file in log.files], droppable=_LEAST)
    for follower in view.followers:
        ref = "" if follower.ref is None else f"{follower.ref}, "
        write_line(printable(f"{follower.name}: {ref}{follower_text(follower)}"))
    for group in view.groups:
        write_line(printable(f"group {group.name}: {group_text(group)}"))
    if view.seal is not None:
        write_line(printable(f"seal: {seal_text(view.seal, view.time_ns)}"))


def _notes(log: binlog.LogStat) -> Iterator[str]:
    """Yield a note for each size that the table does not show."""
    for size, text in (
        (log.index_bytes, "indexes {}"),
        (log.archive_bytes, "archives {}"),
        (log.damaged_bytes, "quarantined {}"),
        (log.new_bytes, "prepared files {}"),
        (log.unsynced_bytes, "unsynced {}"),
        (log.staged_bytes, "staged {}"),
        (log.memory_bytes, "shared memory {}"),
    ):
        if size:
            yield text.format(size_text(size))


def as_object(log: binlog.LogStat) -> dict[str, object]:
    """Return the log as --json prints it."""
    return {
        "path": log.path,
        "tail": None if log.tail is None else str(log.tail),
        "record_count": log.record_count,
        "disk_bytes": log.disk_bytes,
        "used_bytes": log.used_bytes,
        "prepared_bytes": log.prepared_bytes,
        "unsynced_bytes": log.unsynced_bytes,
        "index_bytes": log.index_bytes,
        "archive_bytes": log.archive_bytes,
        "damaged_bytes": log.damaged_bytes,
        "new_bytes": log.new_bytes,
        "staged_bytes": log.staged_bytes,
        "memory_bytes": log.memory_bytes,
        "files": [file._asdict() for file in log.files],
    }


def state_text(file: binlog.FileStat) -> str:
    """Return `open`, `closed` or `archived`."""
    if file.archived:
        return "archived"
    return "closed" if file.closed else "open"


def _row(file: binlog.FileStat) -> tuple[str, ...]:
    return (
        str(file.number),
        state_text(file),
        count_text(file.record_count),
        count_text(file.first_sequence),
        count_text(file.tail),
        count_text(file.durable_end),
        size_text(file.disk_bytes),
        size_text(file.prepared_bytes),
        time_text(file.created_ns),
    )
