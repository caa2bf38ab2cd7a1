"""All rows, in the order of the table."""

from __future__ import annotations

from collections.abc import Sequence

from stress.bench.contestant import Row
from stress.bench.rows import (
    commit_log,
    durable,
    group_rates,
    groups,
    journal,
    log_handlers,
    pagestore,
    paging,
    reading,
    seal,
    spark,
    unsynced,
    waking,
)


def all_rows() -> list[Row]:
    """Return all rows."""
    logs = [*durable.rows(), *unsynced.rows(), *reading.rows(), *waking.rows(), *log_handlers.rows(), *seal.rows()]
    consumers = [*group_rates.rows(), *groups.rows()]
    return [*logs, *consumers, *commit_log.rows(), *journal.rows(), *paging.rows(), *pagestore.rows(), *spark.rows()]


def chosen(names: Sequence[str]) -> list[Row]:
    """Return the named rows, or all: `durable-8`, or `durable` for all whose names begin with it.

    Raises: ValueError, for an unknown name.
    """
    rows = all_rows()
    for name in names:
        if not any(_fits(row, name) for row in rows):
            raise ValueError(f"there is no row {name}; known are {', '.join(row.name for row in rows)}")
    return [row for row in rows if not names or any(_fits(row, name) for name in names)]


def _fits(row: Row, name: str) -> bool:
    return row.name == name or row.name.startswith(f"{name}-")
