"""Count records and bytes, and their rates, by file and by hour."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple

import binlog
from binlog.spark.jobs.parsing import plain_frame
from binlog.spark.jobs.progress import Report, run_with_progress
from binlog.spark.jobs.selection import Chosen

_HOUR_MICROSECONDS = 3_600_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Amount:
    """A count of records, and the bytes that they take in the log: their own and 4 for each."""

    records: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class FileAmount(Amount):
    """The amount in one file.  first, last: the times of the first and last records with a time, or None."""

    directory: str
    number: int
    first: datetime | None
    last: datetime | None

    @property
    def records_per_second(self) -> float | None:
        """The rate between the first and the last time; None if they are equal or unknown."""
        return _per_second(self.records, self.first, self.last)

    @property
    def bytes_per_second(self) -> float | None:
        """The rate of bytes between the first and the last time."""
        return _per_second(self.bytes, self.first, self.last)


@dataclass(frozen=True, kw_only=True)
class HourAmount(Amount):
    """The amount in one hour of all logs.  hour: its start, in UTC; None for records whose time is unknown."""

    hour: datetime | None

    @property
    def records_per_second(self) -> float | None:
        """The rate over the whole hour."""
        return None if self.hour is None else self.records / 3600

    @property
    def bytes_per_second(self) -> float | None:
        """The rate of bytes over the whole hour."""
        return None if self.hour is None else self.bytes / 3600


@dataclass(frozen=True, kw_only=True)
class Stats:
    """The amounts by file and by hour, both in order; an unknown hour is last."""

    files: tuple[FileAmount, ...]
    hours: tuple[HourAmount, ...]
    seconds: float

    @property
    def total(self) -> Amount:
        """Of all."""
        return Amount(records=sum(file.records for file in self.files), bytes=sum(file.bytes for file in self.files))


class _Group(NamedTuple):
    """The records of one hour in one file, which are contiguous because times never decrease."""

    directory: str
    number: int
    hour: int | None
    start: int
    records: int
    first: int | None
    last: int | None


def stats(spark: Any, chosen: Chosen, *, report: Report | None = None) -> Stats:
    """Count the chosen records.

    Reads all of them and verifies them against the index, but moves no record data.
    Raises: Spark's own errors, with ours in their text: CorruptError for damage.
    """
    begun = time.monotonic()
    groups = run_with_progress(spark, lambda: _groups(spark, chosen), report)
    return _summed(groups, _ends(chosen), begun)


def _groups(spark: Any, chosen: Chosen) -> list[_Group]:
    from pyspark.sql.functions import count, lit
    from pyspark.sql.functions import max as highest
    from pyspark.sql.functions import min as lowest

    frame = plain_frame(spark.read.format("binlog"), chosen, ["source", "number", "offset", "time"])
    # In integer microseconds, so that the time zone does not matter.
    frame = frame.selectExpr("source", "number", "offset", "unix_micros(time) AS micros")
    frame = frame.selectExpr("*", f"micros DIV {_HOUR_MICROSECONDS} AS hour")
    rows = frame.groupBy("source", "number", "hour").agg(
        lowest("offset"), count(lit(1)), lowest("micros"), highest("micros")
    )
    return sorted((_Group(*row) for row in rows.collect()), key=lambda group: (group.directory, group[1], group.start))


def _ends(chosen: Chosen) -> dict[tuple[str, int], int]:
    """Return the offset up to which each file was read."""
    found: dict[tuple[str, int], int] = {}
    for each in chosen.ranges:
        if each.end is not None:
            for file in binlog.stat(each.path).files:
                found[each.path, file.number] = each.end.offset if file.number == each.end.number else file.tail
    return found


def _summed(groups: Sequence[_Group], ends: dict[tuple[str, int], int], begun: float) -> Stats:
    files: list[FileAmount] = []
    hours: dict[int | None, list[Amount]] = {}
    for (directory, number), of_file in groupby(groups, key=lambda group: group[:2]):
        found = list(of_file)
        end = ends.get((directory, number), found[-1].start)
        amounts = [
            Amount(records=group.records, bytes=after - group.start)
            for group, after in zip(found, [*(group.start for group in found[1:]), end], strict=True)
        ]
        for group, amount in zip(found, amounts, strict=True):
            hours.setdefault(group.hour, []).append(amount)
        total = _sum(amounts)
        files.append(
            FileAmount(
                directory=directory,
                number=number,
                records=total.records,
                bytes=total.bytes,
                first=_moment(min((group.first for group in found if group.first is not None), default=None)),
                last=_moment(max((group.last for group in found if group.last is not None), default=None)),
            )
        )
    in_order = sorted(hours, key=lambda hour: (hour is None, hour or 0))
    return Stats(
        files=tuple(files),
        hours=tuple(_hour(hour, _sum(hours[hour])) for hour in in_order),
        seconds=time.monotonic() - begun,
    )


def _hour(hour: int | None, amount: Amount) -> HourAmount:
    start = None if hour is None else _EPOCH + timedelta(hours=hour)
    return HourAmount(hour=start, records=amount.records, bytes=amount.bytes)


def _sum(amounts: Iterable[Amount]) -> Amount:
    found = list(amounts)
    return Amount(records=sum(each.records for each in found), bytes=sum(each.bytes for each in found))


def _moment(microseconds: int | None) -> datetime | None:
    return None if microseconds is None else _EPOCH + timedelta(microseconds=microseconds)


def _per_second(amount: int, first: datetime | None, last: datetime | None) -> float | None:
    seconds = 0.0 if first is None or last is None else (last - first).total_seconds()
    return amount / seconds if seconds > 0 else None
