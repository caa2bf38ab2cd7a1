"""The options of writing."""

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
    """What a write is told.

    path: the log's directory, absolute; made where it is missing.
    record_bytes_max: a larger row is an error.
    file_bytes_min: what a task writes becomes a file of the log where it is as large, and is copied otherwise.
    file_system: ANY accepts a directory on NFS and the like, as a cluster shares it: for whoever knows that all others
        who append to the log do so on the driver's machine.
    source, turn: `txnAppId` and `txnVersion`, as Delta's users know them: rows with a version that is in the log, or a
    lower one, are not appended again.  None and 0 where they are not given.
    """

    path: str
    record_bytes_max: int
    file_bytes_min: int = 64 << 20
    file_system: FileSystem = FileSystem.LOCAL
    source: str | None = None
    turn: int = 0


def parse_write_options(options: Mapping[str, str]) -> WriteOptions:
    """The options of a write, as Spark hands them over.  Raises: ValueError for one that is missing or not known."""
    given = {name.lower(): value for name, value in options.items()}
    path = local_path(one_path(given, "what is written goes to one log"))
    record_bytes_max = record_bytes("maxRecordBytes", given.pop("maxrecordbytes", "64m"))
    file_bytes_min = size("minFileBytes", given.pop("minfilebytes", "64m"))
    # A stream's own, which Spark hands over with ours.
    for name in ("checkpointlocation", "queryname"):
        given.pop(name, None)
    files = _file_system(given.pop("filesystem", FileSystem.LOCAL.value))
    source, turn = given.pop("txnappid", None), given.pop("txnversion", None)
    reject_unknown(given, ("maxRecordBytes", "minFileBytes", "fileSystem", "txnAppId", "txnVersion"))
    if (source is None) != (turn is None):
        raise ValueError("binlog: txnAppId and txnVersion go together")
    if turn is not None and not turn.isdecimal():
        raise ValueError(f"binlog: txnVersion is a whole number from 0 on, not {turn!r}")
    return WriteOptions(path, record_bytes_max, file_bytes_min, files, source, int(turn or 0))


def _file_system(text: str) -> FileSystem:
    try:
        return FileSystem(text.strip().lower())
    except ValueError:
        raise ValueError(f"binlog: fileSystem is local or any, not {text!r}") from None


def chosen_column(schema: Any) -> str:
    """The column of a StructType whose values become records: the one named `data`, or the only one.

    Raises: ValueError where there is none, or it is neither binary nor a string.
    """
    named = [field for field in schema.fields if field.name.lower() == _COLUMN]
    fields = named or (schema.fields if len(schema.fields) == 1 else [])
    if len(fields) != 1:
        names = ", ".join(field.name for field in schema.fields)
        raise ValueError(f"binlog: the rows have a column named 'data', or one column alone; they have {names}")
    kind = fields[0].dataType.simpleString()
    if kind not in _TYPES:
        raise ValueError(f"binlog: the column {fields[0].name!r} is binary or a string, not {kind}")
    return str(fields[0].name)
