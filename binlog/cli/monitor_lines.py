"""A snapshot of a log as one line: for files, pipes and programs."""

from __future__ import annotations

from binlog.cli.amounts import count_text, size_text, things_text, time_text
from binlog.cli.followers import behind_text, lag_object
from binlog.cli.log_watch import Snapshot
from binlog.cli.output import printable
from binlog.cli.rates import Amount
from binlog.cli.records import object_line


def text_line(snapshot: Snapshot, rate: Amount | None) -> str:
    """The line for a person.  rate: per second since the line before, None for a first one."""
    log = snapshot.log
    records = things_text(log.record_count, "record")
    if rate is not None:
        records += f" ({count_text(rate.records)}/s, {size_text(rate.bytes)}/s)"
    parts = [
        f"tail {log.tail or '-'}",
        records,
        things_text(len(log.files), "file"),
        f"{size_text(log.disk_bytes)} on disk",
    ]
    parts += [f"{lag.name} {behind_text(lag)}" for lag in snapshot.lags]
    if snapshot.problem is not None:
        parts.append(f"problem: {snapshot.problem}")
    return printable(f"{time_text(snapshot.time_ns)} {', '.join(parts)}")


def json_line(snapshot: Snapshot, rate: Amount | None) -> str:
    """The line for a program, as `text_line`."""
    log = snapshot.log
    return object_line(
        {
            "time": time_text(snapshot.time_ns),
            "path": log.path,
            "tail": None if log.tail is None else str(log.tail),
            "file_count": len(log.files),
            "record_count": log.record_count,
            "disk_bytes": log.disk_bytes,
            "records_per_second": None if rate is None else round(rate.records, 3),
            "bytes_per_second": None if rate is None else round(rate.bytes, 3),
            "followers": [lag_object(lag) for lag in snapshot.lags],
            "problem": snapshot.problem,
        }
    )
