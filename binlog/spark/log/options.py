"""The options of the data source, by the names that users of Kafka's and Delta's sources know."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from binlog import Start
from binlog.spark.log.positions import Position, parse_position
from binlog.spark.option_values import Options, boolean, count, parse_known, permissive, record_bytes, size, some_text

_MIB = 1 << 20
# Which of binlog's engines is to be read: it decides which options there are, and is taken out before they are parsed.
ENGINE = "engine"

# The second form is fsspec's, of one file system over another: simplecache::s3://bucket/log.
_URL = re.compile(r"(?!file:)[a-z][a-z0-9+.-]*://|[a-z0-9]+::[a-z][a-z0-9+.:-]*//", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class ReadOptions:
    """What a read is told.

    paths: directories of logs, absolute, so that they are the same for the driver and the tasks; or globs of them; or
        URLs of directories in remote file systems.
    start, end: `startingPosition`, `endingPosition`: the first record read, and the first one not read any more.
    partition_bytes, partitions_min: how much a task reads, None for what is usual; how many tasks there are at least.
    record_bytes_max: a larger record is an error.
    fail_on_data_loss: whether what retention removed is an error, or is passed over.
    include_open_file: whether the file still appended to is read.
    permissive: whether damage becomes a row, or is an error.
    records_per_trigger, bytes_per_trigger: how much one batch of a stream takes at most; None for all there is.
    parser, parser_schema: the function that makes columns of records, as module:function, and what it gives.
    """

    paths: tuple[str, ...]
    start: Position = Start.BEGINNING
    end: Position = Start.END
    partition_bytes: int | None = None
    partitions_min: int = 1
    record_bytes_max: int = 64 * _MIB
    fail_on_data_loss: bool = True
    include_open_file: bool = True
    permissive: bool = False
    records_per_trigger: int | None = None
    bytes_per_trigger: int | None = None
    parser: str | None = None
    parser_schema: str | None = None

    @property
    def several(self) -> bool:
        """Whether the read may be of more than one log, so that each row is to say of which it is."""
        return len(self.paths) > 1 or any(is_glob(path) for path in self.paths)


def parse_options(options: Mapping[str, str]) -> ReadOptions:
    """The options of a read, as Spark hands them over.  Raises: ValueError for one that is missing or not known."""
    given = {name.lower(): value for name, value in options.items()}
    named = _paths(given)
    found = parse_known(given, _OPTIONS, ENGINE)
    if "parser_schema" in found and "parser" not in found:
        raise ValueError("binlog: parserSchema says what a parser gives, and there is none: see the option parser")
    return ReadOptions(paths=tuple(each.rstrip("/") if is_url(each) else local_path(each) for each in named), **found)


def _paths(given: dict[str, str]) -> list[str]:
    path, paths = given.pop("path", None), given.pop("paths", None)
    named = json.loads(paths) if paths else [path] if path else []
    if not named or not all(named):
        raise ValueError("binlog: load() and save() need the path of a log's directory")
    return named


def one_path(given: dict[str, str], why: str) -> str:
    """The one path among the options given, taken out of them.  why: there may be no other.  Raises: ValueError."""
    named = _paths(given)
    if len(named) > 1:
        raise ValueError(f"binlog: {why}")
    return named[0]


def one_local_path(given: dict[str, str], what: str, place: str) -> str:
    """The same, absolute, of what is read from one place of this machine.  Raises: ValueError."""
    path = one_path(given, f"a {what} is read from one {place}")
    if is_url(path):
        raise ValueError(f"binlog: {path!r} is in a remote file system, where no {what} can be read")
    if is_glob(path) and not os.path.isdir(local_path(path)):
        raise ValueError(f"binlog: {path!r} stands for several directories; a {what} is read from one {place}")
    return local_path(path)


def is_glob(path: str) -> bool:
    """Whether it stands for several directories of this machine.  In a URL such a character means something else."""
    return any(character in path for character in "*?[") and not is_url(path)


def is_url(path: str) -> bool:
    """Whether it is a directory in a file system that is not this machine's."""
    return _URL.match(path) is not None


_OPTIONS: Options = {
    "startingPosition": ("start", parse_position),
    "endingPosition": ("end", parse_position),
    "minPartitions": ("partitions_min", count),
    "maxPartitionBytes": ("partition_bytes", size),
    "maxRecordBytes": ("record_bytes_max", record_bytes),
    "failOnDataLoss": ("fail_on_data_loss", boolean),
    "includeOpenFile": ("include_open_file", boolean),
    "mode": ("permissive", permissive),
    "maxRecordsPerTrigger": ("records_per_trigger", count),
    "maxBytesPerTrigger": ("bytes_per_trigger", size),
    "parser": ("parser", some_text),
    "parserSchema": ("parser_schema", some_text),
}


def local_path(path: str) -> str:
    """The absolute path that a plain path or a file: URI stands for."""
    try:
        parts = urlsplit(path)
    except ValueError as error:
        if not is_glob(path):  # brackets are of an address to it
            raise ValueError(f"binlog: {path!r} is neither a path nor a file: URI ({error})") from error
        return os.path.abspath(path)
    if parts.scheme == "file" and parts.path.startswith("/"):
        if parts.netloc not in ("", "localhost"):
            raise ValueError(f"binlog: {path!r} is on another machine")
        if parts.query or parts.fragment:
            raise ValueError(f"binlog: {path!r} has a '?' or a '#', which a file: URI writes as %3F and %23")
        return os.path.abspath(unquote(parts.path))
    if "://" in path:
        raise ValueError(f"binlog: {path!r} is not a path in a file system of this machine")
    return os.path.abspath(path)
