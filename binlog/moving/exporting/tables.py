"""Rows as tables: an SQLite database, and a Parquet file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from binlog.errors import AccessError, FullError
from binlog.moving.exporting.rows import EVENT_COLUMNS, Rows, time_of, time_text

_TYPES = {"severity": "INTEGER"}
_EVENT_TYPES = ", ".join(f"{name} {_TYPES.get(name, 'TEXT')}" for name in EVENT_COLUMNS)
_CREATE = (
    f"CREATE TABLE records (number INTEGER, offset INTEGER, sequence INTEGER, appended TEXT, {_EVENT_TYPES}, data, "
    "PRIMARY KEY (number, offset))"
)
_INSERT = f"INSERT INTO records VALUES ({', '.join('?' * (5 + len(EVENT_COLUMNS)))})"


def write_sqlite(fd: int, path: str, found: Iterable[Rows]) -> None:
    """Write a database with the table `records`, whose primary key is the ref: number and offset.

    data: the record, as TEXT if it is UTF-8 without NUL, otherwise as BLOB.
    """
    import sqlite3

    try:
        database = sqlite3.connect(path, isolation_level=None)
        try:
            # The file has no name yet, and is synced when it is complete.
            for setting in ("journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE", "cache_size=-8192"):
                database.execute(f"PRAGMA {setting}")
            database.execute("BEGIN")
            database.execute(_CREATE)
            for rows in found:
                database.executemany(_INSERT, _values(rows))
            database.execute("COMMIT")
        finally:
            database.close()
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
            raise FullError(f"{path}: {error}") from error
        raise AccessError(f"{path}: {error}") from error


def _values(rows: Rows) -> Iterator[tuple[object, ...]]:
    sequences: list[int] | list[None] = rows.sequences or [None] * len(rows.records)
    for offset, sequence, time_ns, event, record in zip(
        rows.offsets, sequences, rows.times_ns, rows.events(), rows.records, strict=True
    ):
        yield rows.number, offset, sequence, time_text(time_ns), *event, _text_or_bytes(record)


def _text_or_bytes(record: bytes) -> str | bytes:
    # Many functions of SQL end a text at a NUL.
    if b"\0" in record:
        return record
    try:
        return record.decode()
    except UnicodeDecodeError:
        return record


# A row group takes memory until it is complete.
_GROUP_BYTES = 8 << 20
_GROUP_RECORDS = 1 << 17


def write_parquet(fd: int, path: str, found: Iterable[Rows]) -> None:
    """Write a Parquet file: the columns as int64, timestamp in microseconds UTC, int32 and string, and data as binary.

    Raises: ImportError without PyArrow.
    """
    import pyarrow as pa
    from pyarrow import parquet

    schema = _schema(pa)
    with os.fdopen(os.dup(fd), "wb") as file, parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for group in _groups(found):
            columns: list[Any] = [[], [], [], [], *([] for _ in EVENT_COLUMNS), []]
            for rows in group:
                _add(columns, rows)
            arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _schema(pa: Any) -> Any:
    types = {"severity": pa.int32()}
    events = [(name, types.get(name, pa.string())) for name in EVENT_COLUMNS]
    places = [(name, pa.int64()) for name in ("number", "offset", "sequence")]
    return pa.schema([*places, ("appended", pa.timestamp("us", "UTC")), *events, ("data", pa.binary())])


def _add(columns: list[list[Any]], rows: Rows) -> None:
    count = len(rows.records)
    columns[0] += [rows.number] * count
    columns[1] += rows.offsets
    columns[2] += rows.sequences or [None] * count
    columns[3] += [time_of(time_ns) for time_ns in rows.times_ns]
    for column, values in zip(columns[4:-1], zip(*rows.events(), strict=True), strict=True):
        column += values
    columns[-1] += rows.records


def _groups(found: Iterable[Rows]) -> Iterator[list[Rows]]:
    group: list[Rows] = []
    size = count = 0
    for rows in found:
        group.append(rows)
        size += sum(map(len, rows.records))
        count += len(rows.records)
        if size >= _GROUP_BYTES or count >= _GROUP_RECORDS:
            yield group
            group, size, count = [], 0, 0
    if group:
        yield group
