"""A snapshot of a log as one line: for files, pipes and programs."""

from __future__ import annotations

from pathlib import PurePath

from binlog.cli.amounts import count_text, size_text, things_text, time_text
from binlog.cli.followers import Lag
from binlog.cli.log_watch import Snapshot
from binlog.cli.output import printable
from binlog.cli.rates import Amount
from binlog.cli.records import object_line
from binlog.cli.stat import disk_bytes, record_count


def text_line(snapshot: Snapshot, rate: Amount | None) -> str:
    """The line for a person.  rate: per second since the line before, None for a first one."""
    log = snapshot.log
    records = things_text(record_count(log), "record")
    if rate is not None:
        records += f" ({count_text(rate.records)}/s, {size_text(rate.bytes)}/s)"
    parts = [
        f"tail {log.tail or '-'}",
        records,
        things_text(len(log.files), "file"),
        f"{size_text(disk_bytes(log))} on disk",
    ]
    parts += [f"{lag.name} {behind_text(lag)}" for lag in snapshot.lags]
    if snapshot.problem is not None:
        parts.append(f"problem: {snapshot.problem}")
    return printable(f"{time_text(snapshot.time_ns)} {', '.join(parts)}")


def behind_text(lag: Lag) -> str:
    """How far behind a follower is, in words."""
    if lag.problem is not None:
        return lag.problem
    records = "" if lag.records is None else f"{things_text(lag.records, 'record')}, "
    return f"{records}{size_text(lag.bytes or 0)} behind"


def json_line(snapshot: Snapshot, rate: Amount | None) -> str:
    """The line for a program, as `text_line`."""
    log = snapshot.log
    return object_line(
        {
            "time": time_text(snapshot.time_ns),
            "path": log.path,
            "tail": None if log.tail is None else str(log.tail),
            "file_count": len(log.files),
            "record_count": record_count(log),
            "disk_bytes": disk_bytes(log),
            "records_per_second": None if rate is None else round(rate.records, 3),
            "bytes_per_second": None if rate is None else round(rate.bytes, 3),
            "followers": [_lag_object(lag) for lag in snapshot.lags],
            "problem": snapshot.problem,
        }
    )


def _lag_object(lag: Lag) -> dict[str, object]:
    return {
        "name": PurePath(lag.name).name,
        "position": lag.name,
        "ref": None if lag.ref is None else str(lag.ref),
        "records_behind": lag.records,
        "bytes_behind": lag.bytes,
        "problem": lag.problem,
    }
