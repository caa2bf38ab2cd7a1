"""How a read is divided into tasks."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from binlog.spark.snapshot import take_snapshot


@dataclass(frozen=True)
class FileRange(InputPartition):
    """What one task reads: the records of one file from offset `start` up to offset `end`, both at record bounds."""

    path: str
    number: int
    start: int
    end: int
    uuid: str | None  # of the log, where the file has one


def plan_files(path: str) -> list[FileRange]:
    """One range for each file that has records, up to the tails seen now.

    Raises: AccessError, CorruptError, VersionError.
    """
    return [
        FileRange(path, file.number, file.first_offset, file.tail, file.uuid)
        for file in take_snapshot(path)
        if file.tail > file.first_offset
    ]
