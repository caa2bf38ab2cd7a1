"""Retention of a log: removes the oldest closed files, but none that a consumer group still needs."""

from __future__ import annotations

import os
from datetime import timedelta

from binlog.format.record import Ref
from binlog.log.maintain import prune as log_prune
from binlog.log.maintain.prune import Pruned


def prune(
    path: str | os.PathLike[str],
    *,
    keep_bytes: int | str | None = None,
    keep_seconds: float | timedelta | str | None = None,
    before: Ref | str | None = None,
    consumed: bool = False,
    ignore_groups: bool = False,
    damaged: bool = False,
    dry_run: bool = False,
) -> list[Pruned]:
    """Remove closed files, oldest first, with their indexes and archives; return a report for each.

    keep_bytes: keep at least n of the newest bytes, or "10G": a file is removed if the files after it have as many.
    keep_seconds: keep files that were closed less than this ago: seconds, a timedelta, or "30d".
    before: keep the file of this ref, or its text, and all later files.
    consumed: remove files whose messages all consumer groups are done with; needs a group.
    ignore_groups: remove files although a group is not done with their messages.
    damaged: also remove quarantined bytes of those files.
    dry_run: remove nothing.
    At least one of the first four is required; a file is removed if all that are given allow it, and no group needs it.
    A group needs nothing if it is idle for longer, or lags by more, than its setting `holds` allows.
    May run beside writers, readers and other prunes.  Stops at a file that another process has locked, and in a log
    with foreign writers at one that any process has open for writing.  Durable on return.
    Raises: NotFoundError if there is no log; AccessError, CorruptError, VersionError, PoisonedError; ValueError, also
    for a ref past the log's end.
    """
    floor = None if ignore_groups else _first_needed(path)
    if consumed and floor is None:
        raise ValueError("the log has no consumer group whose progress counts")
    if floor is not None:
        limit = Ref.parse(before) if isinstance(before, str) else before
        if consumed or limit is not None or keep_bytes is not None or keep_seconds is not None:
            before = floor if limit is None else min(floor, limit)
    return log_prune.prune(
        path, keep_bytes=keep_bytes, keep_seconds=keep_seconds, before=before, damaged=damaged, dry_run=dry_run
    )


def _first_needed(path: str | os.PathLike[str]) -> Ref | None:
    """Return the file that the slowest group needs first; None if the log has no group that needs any."""
    if not os.path.isdir(os.path.join(path, "groups")):
        return None
    # Imported here, because most logs have no group.
    from binlog.consumers.retention import file_of, group_floors

    floors = group_floors(path)
    return file_of(path, min(floor.sequence for floor in floors)) if floors else None
