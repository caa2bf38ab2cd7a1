"""`binlog journal stat`: what a journal consists of."""

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
from binlog.journal import JournalFileStat, JournalStat, Kept, stat_journal

_FILES = ("FILE", "ID", "SIZE", "ON DISK", "BEGAN", "RECORDS", "LIVE", "LIVE SIZE")
_KEPT = "KEPT FOR"
_ASIDE = ("SET ASIDE", "SIZE")
_IDS_MAX = 3


@click.command("stat", short_help="Show files, what is live, and who has it.")
@directory_argument
@click.option("--why", is_flag=True, help="Show what keeps each file from being used again. Takes longer.")
@json_option('Print one JSON object: path, layout, who has it, transactions, "files", "quarantine" and "unfinished".')
@files_options
def command(directory: str, why: bool, as_json: bool, files: Files) -> None:
    """Show what the journal in DIR consists of: its files, oldest first, and what of their records is there.

    A file without records waits to be used. What loads have set aside, because it was damaged, is shown as well, and is
    in the folder quarantine; nothing removes it. '-' stands for what is not known, or not there.
    """
    with opening():
        journal = stat_journal(directory, why=why, **files)
    if as_json:
        write_line(object_line(_as_object(journal)))
        return
    layout = "no files" if journal.layout is None else f"layout {journal.layout.value}"
    records = f"{things_text(journal.record_count, 'record')}, {count_text(journal.live_count)} live"
    write_line(f"{printable(journal.path)}: {layout}, {records}, on disk {size_text(journal.disk_bytes)}")
    write_line("; ".join(_state(journal)))
    if journal.files:
        names = (*_FILES, _KEPT) if why else _FILES
        last = max((at for at, file in enumerate(journal.files) if file.is_used), default=-1)
        rows = [
            (*_row(file), *([_kept_text(file, is_last=at == last)] if why else []))
            for at, file in enumerate(journal.files)
        ]
        write_table(names, rows, left=("FILE", _KEPT))
    if journal.quarantine:
        write_table(_ASIDE, [(name, size_text(size)) for name, size in journal.quarantine], left=("SET ASIDE",))


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
    said = [f"open in {journal.owner or 'another process'}" if journal.owned else "nobody has it"]
    said.append(f"transactions: {count_text(journal.prepared_count)} prepared, {count_text(journal.open_count)} open")
    if journal.unfinished:
        said.append(f"being made, or left by a crash: {', '.join(map(printable, journal.unfinished))}")
    if journal.problem_count:
        said.append(f"{things_text(journal.problem_count, 'problem')}, see 'binlog journal check'")
    return said


def _kept_text(file: JournalFileStat, *, is_last: bool) -> str:
    if not file.is_used:
        return "-"
    if is_last:
        return "the journal goes on in it"
    return "nothing" if file.kept is None else ", ".join(_reasons(file.kept))


def _reasons(kept: Kept) -> list[str]:
    said = []
    for ids, thing in ((kept.records, "record"), (kept.transactions, "transaction")):
        if ids:
            more = ", ..." if len(ids) > _IDS_MAX else ""
            said.append(f"{things_text(len(ids), thing)} ({', '.join(map(str, ids[:_IDS_MAX]))}{more})")
    if kept.outlasts:
        said.append(f"what it ended in {', '.join(kept.outlasts)}")
    return said or ["records of transactions that are in files before"]


def _as_object(journal: JournalStat) -> dict[str, object]:
    """The journal as --json prints it."""
    sums = {name: getattr(journal, name) for name in ("record_count", "live_count", "disk_bytes")}
    layout = None if journal.layout is None else journal.layout.value
    files = [
        {**dataclasses.asdict(file), "kept": None if file.kept is None else file.kept._asdict()}
        for file in journal.files
    ]
    quarantine = [{"name": name, "file_bytes": size} for name, size in journal.quarantine]
    return {**dataclasses.asdict(journal), **sums, "layout": layout, "files": files, "quarantine": quarantine}
