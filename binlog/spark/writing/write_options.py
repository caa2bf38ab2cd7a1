"""The options of writing to a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from binlog import FileSystem
from binlog.spark.log.options import local_path, one_path
from binlog.spark.option_values import record_bytes, reject_unknown, size

_TYPES = ("binary", "string")
_COLUMN = "data"


@dataclass(frozen=True)
class WriteOptions:
    """The options of a write.

    path: the log's directory, absolute; created if it does not exist.
    record_bytes_max: a larger row is an error.
    file_bytes_min: if a task writes at least this much, its file becomes a file of the log; otherwise it is copied.
    file_system: ANY accepts a directory on NFS and the like, which a cluster shares.  Use it only if all other
        programs that append to the log run on the driver's machine.
    source, sequence: `txnAppId` and `txnVersion`, as in Delta: rows whose version is not above the last one in the
        log are not appended again.  None and 0 if they are not given.
    """

    path: str
    record_bytes_max: int
    file_bytes_min: int = 64 << 20
    file_system: FileSystem = FileSystem.LOCAL
    source: str | None = None
    sequence: int = 0


def parse_write_options(options: Mapping[str, str]) -> WriteOptions:
    """Parse the options of a write.  Raises: ValueError for a missing, unknown or wrong option."""
    given = {name.lower(): value for name, value in options.items()}
    path = local_path(one_path(given, "rows are written to one log"))
    record_bytes_max = record_bytes("maxRecordBytes", given.pop("maxrecordbytes", "64m"))
    file_bytes_min = size("minFileBytes", given.pop("minfilebytes", "64m"))
    # Spark passes a stream's own options too.
    for name in ("checkpointlocation", "queryname"):
        given.pop(name, None)
    files = _file_system(given.pop("filesystem", FileSystem.LOCAL.value))
    source, sequence = given.pop("txnappid", None), given.pop("txnversion", None)
    reject_unknown(given, ("maxRecordBytes", "minFileBytes", "fileSystem", "txnAppId", "txnVersion"))
    if (source is None) != (sequence is None):
        raise ValueError("binlog: txnAppId and txnVersion must be given together")
    if sequence is not None and not sequence.isdecimal():
        raise ValueError(f"binlog: txnVersion must be an integer of at least 0, not {sequence!r}")
    return WriteOptions(path, record_bytes_max, file_bytes_min, files, source, int(sequence or 0))


def _file_system(text: str) -> FileSystem:
    try:
        return FileSystem(text.strip().lower())
    except ValueError:
        raise ValueError(f"binlog: fileSystem must be local or any, not {text!r}") from None


def chosen_column(schema: Any) -> str:
    """Return the column of a StructType whose values become records: `data`, or the only column.

    Raises: ValueError if there is none, or if it is neither binary nor a string.
    """
    named = [field for field in schema.fields if field.name.lower() == _COLUMN]
    fields = named or (schema.fields if len(schema.fields) == 1 else [])
    if len(fields) != 1:
        names = ", ".join(field.name for field in schema.fields)
        raise ValueError(f"binlog: rows must have a column named 'data', or only one column; they have {names}")
    kind = fields[0].dataType.simpleString()
    if kind not in _TYPES:
        raise ValueError(f"binlog: the column {fields[0].name!r} must be binary or a string, not {kind}")
    return str(fields[0].name)
