"""`binlog journal stat`: show the files of a journal and their use."""

from __future__ import annotations

import dataclasses
import os

import click

from binlog.cli.amounts import count_text, size_text, things_text, time_text
from binlog.cli.exits import opening
from binlog.cli.journal.options import Files, files_options
from binlog.cli.options import directory_argument, json_option
from binlog.cli.output import printable, write_line, write_table
from binlog.cli.records import object_line
from binlog.journal import FilePins, JournalFileStat, JournalStat, stat_journal

_FILES = ("FILE", "ID", "SIZE", "ON DISK", "BEGAN", "RECORDS", "LIVE", "LIVE SIZE")
_PINNED_BY = "PINNED BY"
_QUARANTINED = ("QUARANTINED", "SIZE")
_IDS_MAX = 3


@click.command("stat", short_help="Show files, live records, and the owner.")
@directory_argument
@click.option("--pins", "with_pins", is_flag=True, help="Show why each file cannot be reused. Takes longer.")
@json_option('Print one JSON object: path, layout, owner, transactions, "files", "quarantine" and "unfinished".')
@files_options
def command(directory: str, with_pins: bool, as_json: bool, files: Files) -> None:
    """Show the files of the journal in DIR, oldest first, and how many of their records are live.

    A file without records is free. Also shows quarantined files: loads have moved them to the folder quarantine because
    they were damaged, and nothing removes them. '-' means unknown or none.
    """
    with opening():
        journal = stat_journal(directory, with_pins=with_pins, **files)
    if as_json:
        write_line(object_line(_as_object(journal)))
        return
    layout = "no files" if journal.layout is None else f"layout {journal.layout.value}"
    records = f"{things_text(journal.record_count, 'record')}, {count_text(journal.live_count)} live"
    write_line(f"{printable(journal.path)}: {layout}, {records}, on disk {size_text(journal.disk_bytes)}")
    write_line("; ".join(_state(journal)))
    if journal.files:
        names = (*_FILES, _PINNED_BY) if with_pins else _FILES
        last = max((at for at, file in enumerate(journal.files) if file.is_used), default=-1)
        rows = [
            (*_row(file), *([_pins_text(file, is_last=at == last)] if with_pins else []))
            for at, file in enumerate(journal.files)
        ]
        write_table(names, rows, left=("FILE", _PINNED_BY))
    if journal.quarantine:
        write_table(_QUARANTINED, [(name, size_text(size)) for name, size in journal.quarantine], left=("QUARANTINED",))


def _row(file: JournalFileStat) -> tuple[str, ...]:
    return (
        os.path.basename(file.path),
        str(file.file_id),
        size_text(file.file_bytes),
        size_text(file.disk_bytes),
        time_text(file.began_ns),
        count_text(file.record_count) if file.is_used else "-",
        count_text(file.live_count) if file.is_used else "-",
        size_text(file.live_bytes) if file.is_used else "-",
    )


def _state(journal: JournalStat) -> list[str]:
    parts = [f"open in {journal.owner or 'another process'}" if journal.owned else "not open"]
    parts.append(f"transactions: {count_text(journal.prepared_count)} prepared, {count_text(journal.open_count)} open")
    if journal.unfinished:
        parts.append(f"unfinished, in use or left by a crash: {', '.join(map(printable, journal.unfinished))}")
    if journal.problem_count:
        parts.append(f"{things_text(journal.problem_count, 'problem')}, see 'binlog journal check'")
    return parts


def _pins_text(file: JournalFileStat, *, is_last: bool) -> str:
    if not file.is_used:
        return "-"
    if is_last:
        return "takes appends"
    return "nothing" if file.pins is None else ", ".join(_reasons(file.pins))


def _reasons(pins: FilePins) -> list[str]:
    reasons = []
    for ids, thing in ((pins.records, "record"), (pins.transactions, "transaction")):
        if ids:
            more = ", ..." if len(ids) > _IDS_MAX else ""
            reasons.append(f"{things_text(len(ids), thing)} ({', '.join(map(str, ids[:_IDS_MAX]))}{more})")
    if pins.must_outlive:
        reasons.append(f"deletes for {', '.join(pins.must_outlive)}")
    return reasons or ["transactions with records in earlier files"]


def _as_object(journal: JournalStat) -> dict[str, object]:
    """Return the journal as --json prints it."""
    sums = {name: getattr(journal, name) for name in ("record_count", "live_count", "disk_bytes")}
    layout = None if journal.layout is None else journal.layout.value
    files = [
        {**dataclasses.asdict(file), "pins": None if file.pins is None else file.pins._asdict()}
        for file in journal.files
    ]
    quarantine = [{"name": name, "file_bytes": size} for name, size in journal.quarantine]
    return {**dataclasses.asdict(journal), **sums, "layout": layout, "files": files, "quarantine": quarantine}
