"""The output of an extract, which appears all at once.

On a local file system Spark writes to a hidden folder next to the output, which is then renamed to the output.  If a
job dies at any moment, the output is unchanged and the hidden folder remains.  Elsewhere Spark's own committer writes,
and its file `_SUCCESS` appears last.

Invariants
- The output holds a whole extract or none, except with SaveMode.APPEND: then each file is whole, and `_SUCCESS` is
  absent from before the first file is added until after the last.
"""

from __future__ import annotations

import contextlib
import enum
import os
import secrets
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeVar

import binlog
from binlog.errors import NotFoundError, StateError
from binlog.spark.log.options import local_path

_E = TypeVar("_E", bound=enum.Enum)

STREAM_METADATA = "_spark_metadata"
"""The folder in which a stream lists the files that it has written; Spark reads no other file of that output."""

_SUCCESS = "_SUCCESS"
_TIMES = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"
_TEXT_OPTIONS = MappingProxyType({"timeZone": "UTC", "timestampFormat": _TIMES})
_CSV_OPTIONS = MappingProxyType({**_TEXT_OPTIONS, "header": "true"})
_NONE: Mapping[str, str] = MappingProxyType({})


class Format(enum.Enum):
    """The format of the output."""

    PARQUET = "parquet"
    ORC = "orc"
    JSON = "json"
    CSV = "csv"
    BINLOG = "binlog"  # another log, with only the data

    @property
    def text(self) -> bool:
        """Whether the format has no binary values."""
        return self in (Format.JSON, Format.CSV)

    @property
    def options(self) -> Mapping[str, str]:
        """The options of Spark's writer."""
        return {Format.JSON: _TEXT_OPTIONS, Format.CSV: _CSV_OPTIONS}.get(self, _NONE)


class SaveMode(enum.Enum):
    """What to do if the output exists, in Spark's terms."""

    ERROR = "error"
    APPEND = "append"
    OVERWRITE = "overwrite"


@dataclass(frozen=True, kw_only=True)
class Output:
    """The description of an output.

    path: a folder, or a URI that Spark supports.  compression: a codec of the format, by Spark's name; by default
    Zstandard for Parquet and ORC, and none for text.
    """

    path: str
    format: Format = Format.PARQUET
    mode: SaveMode = SaveMode.ERROR
    compression: str | None = None

    def __post_init__(self) -> None:
        """Convert names of formats and modes.  Raises: TypeError, ValueError."""
        object.__setattr__(self, "format", _member(Format, self.format, "format"))
        object.__setattr__(self, "mode", _member(SaveMode, self.mode, "mode"))

    def local(self) -> Path | None:
        """Return the local folder, or None for a remote URI.  Raises: ValueError."""
        return None if "://" in self.path and not self.path.startswith("file:") else Path(local_path(self.path))

    def prepared(self, writer: Any) -> Any:
        """Apply this output to a writer of a frame or a stream."""
        codec = self.compression or ("zstd" if self.format in (Format.PARQUET, Format.ORC) else None)
        options = {**self.format.options, **({"compression": codec} if codec else {})}
        return writer.format(self.format.value).options(**(options if self.format is not Format.BINLOG else {}))

    def check(self) -> None:
        """Raise StateError if the output exists and must not, ValueError if it can never be written."""
        path = self.local()
        if self.format is Format.BINLOG and (self.mode is SaveMode.OVERWRITE or path is None):
            raise ValueError("an output in binlog format must be local, and can only be appended to")
        if path is not None and path.exists():
            if self.mode is SaveMode.ERROR and not _is_empty(path):
                raise StateError(f"{path} already exists")
            if self.mode is SaveMode.OVERWRITE and path.is_dir() and _holds_log(path):
                raise StateError(f"{path} is a log, which is never overwritten")
            if (path / STREAM_METADATA).exists():
                raise StateError(f"{path} is written by a stream; Spark would not read what a batch job adds to it")


def _member(kind: type[_E], value: object, name: str) -> _E:
    words = {each.value: each for each in kind}
    found = value if isinstance(value, kind) else words.get(value.lower()) if isinstance(value, str) else None
    if found is None:
        error = ValueError if isinstance(value, str) else TypeError
        raise error(f"{name} must be a {kind.__name__}, or one of {', '.join(map(repr, words))}, not {value!r}")
    return found


def _holds_log(path: Path) -> bool:
    try:
        return bool(binlog.file_sizes(path))
    except NotFoundError:
        return False


@dataclass(frozen=True)
class Written:
    """The files of a finished output.  Both are None if it is not local."""

    files: int | None
    file_bytes: int | None


def write(frame: Any, output: Output) -> UnpublishedOutput:
    """Write a frame, so that `publish` only has to rename it.  Blocks until the Spark job ends."""
    path = output.local()
    writer = output.prepared(frame.write)
    if path is None or output.format is Format.BINLOG:
        # Our writer also appends a frame atomically.
        mode = SaveMode.APPEND if output.format is Format.BINLOG else output.mode
        writer.mode(mode.value).save(output.path if path is None else str(path))
        return UnpublishedOutput(None, output)
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}.unfinished")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        writer.mode(SaveMode.ERROR.value).save(hadoop_path(unfinished))
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return UnpublishedOutput(unfinished, output)


class UnpublishedOutput:
    """An output that is written but not visible.  Leaving its `with` block removes it unless it was published."""

    def __init__(self, unfinished: Path | None, output: Output) -> None:
        self._unpublished = unfinished
        self._output = output

    def publish(self) -> Written:
        """Rename it to its final path.  Raises: StateError if the output was created meanwhile; OSError."""
        path = self._output.local()
        if self._unpublished is None or path is None:
            return Written(None, None)
        written = _measured(self._unpublished)
        if path.exists() and self._output.mode is SaveMode.APPEND:
            _add(self._unpublished, path)
        else:
            _replace(self._unpublished, path, overwrite=self._output.mode is SaveMode.OVERWRITE)
        self._unpublished = None
        return written

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._unpublished is not None:
            shutil.rmtree(self._unpublished, ignore_errors=True)


def hadoop_path(path: Path) -> str:
    """Return the text that Hadoop's Path turns into this path, whatever the default file system is.

    Hadoop decodes nothing: in `file:///day%3D1`, which is the path's URI, it sees a folder with a percent sign.
    """
    return f"file://{path}"


def check_places(logs: Sequence[str], outputs: Iterable[Output]) -> None:
    """Raise ValueError if an output contains a log that is read, or if two outputs are the same."""
    paths = [path.resolve() for output in outputs if (path := output.local()) is not None]
    for path in paths:
        if paths.count(path) > 1:
            raise ValueError(f"{path} is given for two outputs")
        for log in logs:
            if Path(log).resolve().is_relative_to(path):
                raise ValueError(f"{path} cannot be an output: it contains the log {log}")


def has_files(path: Path) -> bool:
    """Return whether a folder has files that a Spark reader would read."""
    return path.is_dir() and any(not each.name.startswith((".", "_")) for each in path.iterdir())


def remove(output: Output) -> None:
    """Remove an output that is to be overwritten."""
    path = output.local()
    if path is not None and output.mode is SaveMode.OVERWRITE and path.exists():
        _discard(path)


def _replace(unfinished: Path, path: Path, *, overwrite: bool) -> None:
    if path.exists() and not _is_empty(path):
        if not overwrite:
            raise StateError(f"{path} was created by another process meanwhile")
        _discard(path)
    os.rename(unfinished, path)


def _discard(path: Path) -> None:
    # Renamed first, so that a half-removed output is never visible under its name.
    old = path.with_name(f".{path.name}.{secrets.token_hex(8)}.old")
    os.rename(path, old)
    shutil.rmtree(old) if old.is_dir() else old.unlink()


def _add(unfinished: Path, path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        (path / _SUCCESS).unlink()
    # Names that start with a dot are checksums and go before their files; _SUCCESS goes last.
    for file in sorted(unfinished.iterdir(), key=lambda each: (each.name == _SUCCESS, each.name)):
        os.rename(file, path / file.name)
    unfinished.rmdir()


def _measured(folder: Path) -> Written:
    files = [file for file in folder.iterdir() if not file.name.startswith((".", "_"))]
    return Written(len(files), sum(file.stat().st_size for file in files))


def _is_empty(path: Path) -> bool:
    return path.is_dir() and next(path.iterdir(), None) is None
