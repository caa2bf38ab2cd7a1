"""Check the files of many logs in parallel."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import binlog
from binlog.errors import BinlogError
from binlog.spark.jobs.progress import Report, run_with_progress
from binlog.spark.jobs.selection import Selection
from binlog.spark.log.partitions import directories

_SCHEMA = "directory string, file bigint, `from` bigint, `to` bigint, kind string, text string"

# Each task costs about 30 ms, so small files are checked together.
_TASK_BYTES = 128 << 20

# The kind of the row that every checked file has, which is not a problem.
_CHECKED = ""


@dataclass(frozen=True, kw_only=True)
class FileProblem:
    """A problem in a file.

    directory, file: of the log, and the file's number.  start, end: a range of bytes; end is None if unknown.
    kind: the name of the broken rule.  text: a sentence.
    """

    directory: str
    file: int
    start: int
    end: int | None
    kind: str
    text: str


@dataclass(frozen=True, kw_only=True)
class VerifyResult:
    """The result of a check.

    files, file_bytes: checked.  records: counted in the headers; None if one of them has no count.
    """

    problems: tuple[FileProblem, ...]
    files: int
    file_bytes: int
    records: int | None
    seconds: float


def verify(spark: Any, paths: Sequence[str], *, report: Report | None = None) -> VerifyResult:
    """Check logs as `binlog.check` does, with their files in parallel.  Other processes may append meanwhile.

    paths: directories, or globs of them, that the tasks can read too.
    Blocks while all of it is read.
    Raises: ValueError, AccessError; Spark's own errors.
    """
    begun = time.monotonic()
    sizes = {path: binlog.file_sizes(path) for path in directories(Selection(paths=tuple(paths)).options())}
    rows = run_with_progress(spark, lambda: _rows(spark, sizes), report)
    return VerifyResult(
        problems=tuple(
            FileProblem(
                directory=row.directory, file=row.file, start=row["from"], end=row.to, kind=row.kind, text=row.text
            )
            for row in sorted(rows, key=lambda row: (row.directory, row.file, row["from"]))
            if row.kind != _CHECKED
        ),
        files=sum(row.kind == _CHECKED for row in rows),
        file_bytes=sum(sum(each.values()) for each in sizes.values()),
        records=_record_count(sizes),
        seconds=time.monotonic() - begun,
    )


def _rows(spark: Any, sizes: Mapping[str, Mapping[int, int]]) -> list[Any]:
    spark.dataSource.register(VerifySource)
    reader = spark.read.format(VerifySource.name()).option("tasks", json.dumps(tasks(sizes)))
    return list(reader.load().collect())


def tasks(sizes: Mapping[str, Mapping[int, int]]) -> list[list[tuple[str, int]]]:
    """Return, for each task, the directories and numbers of its files, grouped up to a size."""
    found: list[list[tuple[str, int]]] = []
    room = 0
    for path, files in sizes.items():
        for number, size in files.items():
            if not found or size > room:
                found.append([])
                room = _TASK_BYTES
            found[-1].append((path, number))
            room -= size
    return found


class VerifySource(DataSource):
    """A data source for the problems of files.  It is internal; users call `verify`."""

    @classmethod
    def name(cls) -> str:
        return "binlog-verify"

    def schema(self) -> str:
        return _SCHEMA

    def reader(self, schema: Any) -> VerifyReader:
        return VerifyReader(json.loads(self.options["tasks"]))


@dataclass(frozen=True)
class _Task(InputPartition):
    files: tuple[tuple[str, int], ...]


class VerifyReader(DataSourceReader):
    """A reader whose tasks check some files each."""

    def __init__(self, tasks: Sequence[Sequence[tuple[str, int]]]) -> None:
        self._tasks = [_Task(tuple((path, number) for path, number in task)) for task in tasks]

    def partitions(self) -> list[InputPartition]:
        return list(self._tasks)

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Yield a row for each problem, and one for each checked file."""
        # If there is nothing to check, Spark makes up a partition of its own.
        for path, number in partition.files if isinstance(partition, _Task) else ():
            for problem in binlog.check(path, number=number):
                file = int(os.path.basename(problem.path).split(".")[0])
                yield (path, file, problem.offset, problem.end, problem.rule, problem.text)
            yield (path, number, 0, None, _CHECKED, "")


def _record_count(paths: Iterable[str]) -> int | None:
    try:
        counts = [file.record_count for path in paths for file in binlog.stat(path).files]
    except BinlogError:
        return None  # reported among the problems
    return None if None in counts else sum(count for count in counts if count is not None)
