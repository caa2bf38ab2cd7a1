"""Retention: removes the oldest closed files of a log, but none that a consumer group needs or a seal protects."""

from __future__ import annotations

import os
from datetime import timedelta

from binlog.errors import NotFoundError
from binlog.format.record import Ref
from binlog.log.maintain import prune as log_prune
from binlog.log.maintain.prune import Pruned
from binlog.storage.directory import Directory


def prune(
    path: str | os.PathLike[str],
    *,
    keep_bytes: int | str | None = None,
    keep_seconds: float | timedelta | str | None = None,
    before: Ref | str | None = None,
    consumed: bool = False,
    ignore_groups: bool = False,
    ignore_seal: bool = False,
    damaged: bool = False,
    dry_run: bool = False,
) -> list[Pruned]:
    """Remove closed files, oldest first, with their indexes and archives; return a report for each.

    keep_bytes: keep at least n of the newest bytes, or "10G": a file is removed if the files after it have as many.
    keep_seconds: keep files that were closed less than this ago: seconds, a timedelta, or "30d".
    before: keep the file of this ref, or its text, and all later files.
    consumed: remove files whose messages all consumer groups are done with; needs a group.
    ignore_groups: remove files although a group is not done with their messages.
    ignore_seal: remove files although the seal protects them; `binlog.seal.verify` then finds that they are missing.
    damaged: also remove quarantined bytes of those files.
    dry_run: remove nothing.
    At least one of the first four is required; a file is removed if all that are given allow it, and no group needs it.
    A group needs nothing if it is idle for longer, or lags by more, than its setting `holds` allows.
    In a sealed log, only files that a statement of the seal allows to remove are removed; see `binlog.seal.prune`.
    May run beside writers, readers and other prunes.  Stops at a file that another process has locked, and in a log
    with foreign writers at one that any process has open for writing.  Durable on return.
    Raises: NotFoundError if there is no log; AccessError, CorruptError, VersionError, PoisonedError; ValueError, also
    for a ref past the log's end.
    """
    limits = [] if before is None else [Ref.parse(before) if isinstance(before, str) else before]
    if not ignore_groups and (needed := _first_needed(path)) is not None:
        limits.append(needed)
    elif consumed:
        raise ValueError("the log has no consumer group whose progress counts")
    if consumed or before is not None or keep_bytes is not None or keep_seconds is not None:
        limits += [] if ignore_seal or (sealed := _first_protected(path)) is None else [sealed]
        before = min(limits, default=None)
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


def _first_protected(path: str | os.PathLike[str]) -> Ref | None:
    """Return the first file that the seal of the log protects; None if the log has no seal.

    The statements are not verified here, because that needs the key; `binlog.seal.verify` does it.
    """
    folder = os.path.join(path, "seal")
    if not os.path.exists(os.path.join(folder, "beginning")):
        return None  # also after a crash of the command that begins a seal
    # Imported here, because most logs have no seal.
    from binlog.format.seal.state import STATEMENTS_FILE
    from binlog.format.seal.statement import holds_of, parse_statements, prune_limit

    with Directory(folder) as directory:
        try:
            data = directory.read(STATEMENTS_FILE)
        except NotFoundError:
            data = b""
    statements = parse_statements(data)
    allowed = prune_limit(statements)
    holds = [hold.ref() for hold in holds_of(statements).values()]
    return min([Ref(1, 0) if allowed is None else allowed.ref(), *holds])
