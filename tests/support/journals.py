"""Journals for tests: small ones, files made by hand, and damage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from binlog.format.journal.file_header import FILE_START_BYTES, FileHeader, JournalLayout, parse_file_header
from binlog.format.journal.names import JournalNames
from binlog.format.journal.record import JournalRecord, pack_record
from binlog.journal.journal import Journal
from binlog.journal.options import JournalOptions
from binlog.journal.record import Loaded
from tests.support.journal_bytes import Scanned, scan_records

FILE_BYTES = 2048
LAYOUTS = [JournalLayout.NATIVE, JournalLayout.JBM]
SMALL = JournalOptions(file_bytes=FILE_BYTES, compact_files_min=0)


def as_named(path: Path) -> JournalOptions:
    """Return options for a small journal; JBoss Messaging's layout must be named."""
    there = files(path)
    is_jbm = there and header_of(there[0]).layout is JournalLayout.JBM
    return replace(SMALL, layout=JournalLayout.JBM) if is_jbm else SMALL


@contextmanager
def journal(path: Path, options: JournalOptions | None = None) -> Iterator[tuple[Journal, Loaded]]:
    """Load a journal; also return the result of the load."""
    with Journal(path, options or as_named(path)) as opened:
        yield opened, opened.load()


def reload(path: Path, options: JournalOptions | None = None) -> Loaded:
    """Load a journal as the next process would, and close it."""
    with journal(path, options) as (_, loaded):
        return loaded


def ids(loaded: Loaded) -> list[int]:
    """Return the ids of loaded records."""
    return [record.record_id for record in loaded.records]


def files(path: Path) -> list[Path]:
    """Return the files of a journal, in the order of their current use."""
    return sorted(path.glob("journal-*.jnl"), key=lambda file: header_of(file).file_id)


def header_of(file: Path, layout: JournalLayout | None = None) -> FileHeader:
    """Return the header of a file."""
    return parse_file_header(file.read_bytes()[:FILE_START_BYTES], str(file), layout)


def records_in(file: Path) -> list[Scanned]:
    """Return the records of a file."""
    return scan_records(file.read_bytes(), header_of(file)).records


def header_for(layout: JournalLayout, file_id: int) -> FileHeader:
    """Return a header for a file made by hand."""
    return FileHeader(layout, file_id, b"saltsalt" if layout is JournalLayout.NATIVE else b"")


def write_file(
    path: Path, header: FileHeader, records: Iterable[JournalRecord | bytes], file_bytes: int = FILE_BYTES
) -> Path:
    """Make a file by hand, of consecutive records, with any bytes between them."""
    path.mkdir(exist_ok=True)
    data = header.pack()
    for record in records:
        data += record if isinstance(record, bytes) else pack_record(record, header, len(data))
    file = path / JournalNames().file(header.file_id)
    file.write_bytes(data.ljust(file_bytes, bytes([header.layout.fill])))
    return file


def flip(file: Path, at: int, mask: int = 1) -> None:
    """Damage one byte."""
    data = bytearray(file.read_bytes())
    data[at] ^= mask
    file.write_bytes(data)
