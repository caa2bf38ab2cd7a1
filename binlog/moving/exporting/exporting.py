"""export_records: writes records of a log to a file of another format."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterator
from dataclasses import dataclass

from binlog import Ref, Since
from binlog.format.values import member
from binlog.moving.exporting.rows import Rows, read_rows
from binlog.moving.exporting.tables import write_parquet, write_sqlite
from binlog.moving.exporting.text_files import Writer, write_csv, write_json_lines
from binlog.moving.exporting.unfinished_file import unfinished_file
from binlog.storage.failures import own_errors


class ExportForm(enum.Enum):
    """The forms that can be exported."""

    JSONL = "jsonl"
    CSV = "csv"
    SQLITE = "sqlite"
    PARQUET = "parquet"


_WRITERS: dict[ExportForm, Writer] = {
    ExportForm.JSONL: write_json_lines,
    ExportForm.CSV: write_csv,
    ExportForm.SQLITE: write_sqlite,
    ExportForm.PARQUET: write_parquet,
}


@dataclass(frozen=True, kw_only=True)
class Exported:
    """The result of an export.

    record_count: of the records, from `first` to `last`.  file_bytes: the size of the file.
    """

    record_count: int
    first: Ref | None
    last: Ref | None
    file_bytes: int


def export_records(
    path: str | os.PathLike[str],
    file: str | os.PathLike[str],
    form: ExportForm | str,
    *,
    start: Ref | str | None = None,
    since: Since | None = None,
    until: Since | None = None,
) -> Exported:
    """Write the records that the log in a directory has now to a file.

    start: the ref of the first record.  since, until: only records that were appended at that time or later, and before
    that time; times are those of the index.
    Each record has the columns number, offset, sequence and appended; time, severity, level, logger, body, event,
    attributes, trace_id and span_id, if it is a JSON object that has them; and its bytes.
    form: JSONL and CSV: the bytes are in `text`, or in `base64` if they are not UTF-8.  SQLITE: a table `records`.
    PARQUET: needs PyArrow.

    The file gets its name when it is complete, durably; until then, it is `.NAME.partial`.  An existing file is
    replaced.  Takes no lock, and holds some MiB of records in memory, and one record at least.
    Raises: NotFoundError, AccessError, FullError, VersionError; CorruptError for damaged records; BusyError if another
    process writes the same file; ValueError if `start` is not a ref of the log; ImportError without PyArrow.
    """
    form = member(ExportForm, form, "form")
    start = Ref.parse(start) if isinstance(start, str) else start
    if start is not None and since is not None:
        raise ValueError("start and since cannot be used together")
    tally = _Tally()
    # Reads the log's first records before it makes a file.
    found = _begun(tally.counted(read_rows(path, start=start, since=since, until=until)))
    target = os.fspath(file)
    with unfinished_file(target) as (fd, partial):
        with own_errors(partial, "writing"):
            _WRITERS[form](fd, partial, found)
        size = os.fstat(fd).st_size
    return Exported(record_count=tally.count, first=tally.first, last=tally.last, file_bytes=size)


def _begun(found: Iterator[Rows]) -> Iterator[Rows]:
    first = next(found, None)
    return iter(()) if first is None else _chained(first, found)


def _chained(first: Rows, found: Iterator[Rows]) -> Iterator[Rows]:
    yield first
    yield from found


class _Tally:
    """Counts rows."""

    def __init__(self) -> None:
        self.count = 0
        self.first: Ref | None = None
        self.last: Ref | None = None

    def counted(self, found: Iterator[Rows]) -> Iterator[Rows]:
        """Yield the rows, and count them."""
        for rows in found:
            self.first = self.first or Ref(rows.number, rows.offsets[0])
            self.last = Ref(rows.number, rows.offsets[-1])
            self.count += len(rows.records)
            yield rows
