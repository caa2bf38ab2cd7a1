"""The options of reading a log, named like those of Kafka's and Delta's sources."""

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
# Selects the engine, and so the options that exist; it is removed before they are parsed.
ENGINE = "engine"

# The second form is fsspec's, for one file system over another: simplecache::s3://bucket/log.
_URL = re.compile(r"(?!file:)[a-z][a-z0-9+.-]*://|[a-z0-9]+::[a-z][a-z0-9+.:-]*//", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class ReadOptions:
    """The options of a read.

    paths: directories of logs, absolute, so that they are the same for the driver and the tasks; or globs of them; or
        URLs of directories in remote file systems.
    start, end: `startingPosition` and `endingPosition`, the first record to read and the first one not to read.
    partition_bytes, partitions_min: how much a task reads, None for the default; how many tasks to have at least.
    record_bytes_max: a larger record is an error.
    fail_on_data_loss: whether records that retention removed are an error, or are skipped.
    include_open_file: whether to read the open file.
    permissive: whether damage becomes a row, or is an error.
    records_per_trigger, bytes_per_trigger: the most that one batch of a stream reads; None for no limit.
    parser, parser_schema: the function that makes columns from records, as module:function, and their schema.
    messages: whether the fields of envelopes become columns, and bodies the data.
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
    messages: bool = False

    @property
    def several(self) -> bool:
        """Whether the read may cover more than one log, so that each row must name its log."""
        return len(self.paths) > 1 or any(is_glob(path) for path in self.paths)


def parse_options(options: Mapping[str, str]) -> ReadOptions:
    """Parse the options of a read.  Raises: ValueError for a missing, unknown or wrong option."""
    given = {name.lower(): value for name, value in options.items()}
    named = _paths(given)
    found = parse_known(given, _OPTIONS, ENGINE)
    if "parser_schema" in found and "parser" not in found:
        raise ValueError("binlog: parserSchema needs the option parser")
    return ReadOptions(paths=tuple(each.rstrip("/") if is_url(each) else local_path(each) for each in named), **found)


def _paths(given: dict[str, str]) -> list[str]:
    path, paths = given.pop("path", None), given.pop("paths", None)
    named = json.loads(paths) if paths else [path] if path else []
    if not named or not all(named):
        raise ValueError("binlog: load() and save() need the path of a log's directory")
    return named


def one_path(given: dict[str, str], why: str) -> str:
    """Remove the path from the options and return it.  why: there may be only one.  Raises: ValueError."""
    named = _paths(given)
    if len(named) > 1:
        raise ValueError(f"binlog: {why}")
    return named[0]


def one_local_path(given: dict[str, str], what: str, place: str) -> str:
    """Remove the path from the options and return it as an absolute local path.  Raises: ValueError."""
    path = one_path(given, f"a {what} is read from one {place}")
    if is_url(path):
        raise ValueError(f"binlog: {path!r} is in a remote file system; a {what} can only be read from a local path")
    if is_glob(path) and not os.path.isdir(local_path(path)):
        raise ValueError(f"binlog: {path!r} names several directories; a {what} is read from one {place}")
    return local_path(path)


def is_glob(path: str) -> bool:
    """Return whether a path is a glob of local directories.  In a URL, these characters have another meaning."""
    return any(character in path for character in "*?[") and not is_url(path)


def is_url(path: str) -> bool:
    """Return whether a path is a directory in a remote file system."""
    return _URL.match(path) is not None


# A new option needs a field of ReadOptions, a row here, a row in docs/spark.md, and a case in
# tests/unit/spark/log/test_options.py.  One of these uses it:
# - `plan` in partitions.py: which records a batch read has, and in which tasks.  What limits the records comes before
#   `narrowed`; otherwise the rows would depend on what an index can exclude.  A path may be a URL (`is_url`), and
#   `binlog.limit_range` and the functions beside it (binlog/log/read/ranges.py) work on local paths only.
# - reading.py: what becomes a row, in a batch read and in a stream.
# - following.py: how far one batch of a stream goes.
# The tests of each are in the module of the same name in tests/unit/spark/log.  If an option does not fit a stream or a
# URL, refuse it in `reader` or `stream_reader` in engine.py, and test that with BinlogDataSource, as
# `test_a_stream_is_refused` in tests/unit/spark/remote/test_remote.py does.  (A stream ignores endingPosition, and a
# batch read ignores the limits of a trigger.)  ../commitlog/options.py and ../journal/options.py have the options of
# the other engines.
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
    "messages": ("messages", boolean),
}


def local_path(path: str) -> str:
    """Return the absolute path of a plain path or a file: URI.  Raises: ValueError."""
    try:
        parts = urlsplit(path)
    except ValueError as error:
        if not is_glob(path):  # urlsplit takes brackets for part of an address
            raise ValueError(f"binlog: {path!r} is neither a path nor a file: URI ({error})") from error
        return os.path.abspath(path)
    if parts.scheme == "file" and parts.path.startswith("/"):
        if parts.netloc not in ("", "localhost"):
            raise ValueError(f"binlog: {path!r} is on another machine")
        if parts.query or parts.fragment:
            raise ValueError(f"binlog: {path!r} has a '?' or a '#', which must be %3F or %23 in a file: URI")
        return os.path.abspath(unquote(parts.path))
    if "://" in path:
        raise ValueError(f"binlog: {path!r} is not a local path")
    return os.path.abspath(path)
