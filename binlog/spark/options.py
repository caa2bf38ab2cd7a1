"""The options of the data source."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True)
class Options:
    """path: the log's directory, absolute, so that it is the same for the driver and the tasks."""

    path: str


def parse_options(options: Mapping[str, str]) -> Options:
    """The options of a read, as Spark hands them over.  Raises: ValueError for one that is missing or not known."""
    given = {name.lower(): value for name, value in options.items()}
    path = given.pop("path", None)
    if "paths" in given:
        raise ValueError("binlog: load() takes one directory, which holds one log; read several and join them by union")
    if given:
        raise ValueError(f"binlog: there is no option {', '.join(map(repr, sorted(given)))}; there is 'path'")
    if not path:
        raise ValueError("binlog: load() needs the path of a log's directory")
    return Options(path=_local_path(path))


def _local_path(path: str) -> str:
    """The absolute path that a plain path or a file: URI stands for."""
    try:
        parts = urlsplit(path)
    except ValueError as error:
        raise ValueError(f"binlog: {path!r} is neither a path nor a file: URI ({error})") from error
    if parts.scheme == "file" and parts.path.startswith("/"):
        if parts.netloc not in ("", "localhost"):
            raise ValueError(f"binlog: {path!r} is on another machine")
        if parts.query or parts.fragment:
            raise ValueError(f"binlog: {path!r} has a '?' or a '#', which a file: URI writes as %3F and %23")
        return os.path.abspath(unquote(parts.path))
    if "://" in path:
        raise ValueError(f"binlog: {path!r} is not a path in a file system of this machine")
    return os.path.abspath(path)
