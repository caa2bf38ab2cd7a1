"""LogView: a log at one moment, with its followers, its consumer groups and its seal."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from binlog.errors import BinlogError, NotFoundError
from binlog.format.record import Ref
from binlog.log.maintain.stat import LogStat, stat
from binlog.watching.followers import FollowerStat, distance, stat_followers

if TYPE_CHECKING:
    from binlog.consumers import GroupStat
    from binlog.seal import SealStat


class GroupView(NamedTuple):
    """A consumer group: its stat, or the problem with reading it."""

    name: str
    stat: GroupStat | None
    problem: str | None = None


class SealView(NamedTuple):
    """The seal of a log: its stat, or the problem with reading it.

    unsealed_records: those that no checkpoint covers yet; None if another program appends to the log.
    is_cut: the log ends before the last record that was sealed.  Other changes only `binlog.seal.verify` finds.
    """

    stat: SealStat | None
    unsealed_records: int | None = None
    is_cut: bool = False
    problem: str | None = None


class LogView(NamedTuple):
    """A log at one moment.

    time_ns: nanoseconds since 1970 UTC.  seal: None if the log has none.
    """

    time_ns: int
    log: LogStat
    followers: tuple[FollowerStat, ...]
    groups: tuple[GroupView, ...]
    seal: SealView | None


def view_log(path: str | os.PathLike[str], positions: Iterable[str] = ()) -> LogView:
    """Return the state of the log in a directory.  Takes no lock, and changes nothing.

    positions: paths of position files that are outside of the directory.
    Raises: NotFoundError if the directory does not exist; AccessError, CorruptError, VersionError for the log's files.
    If a follower, a group or the seal cannot be read, that is a problem of that part.
    """
    time_ns = time.time_ns()
    log = stat(path)
    return LogView(
        time_ns=time_ns,
        log=log,
        followers=stat_followers(log, positions),
        groups=view_groups(log),
        seal=view_seal(log),
    )


def view_groups(log: LogStat) -> tuple[GroupView, ...]:
    """Return the groups of a log, in the order of their names; those that are being made or removed are left out."""
    if not os.path.isdir(os.path.join(log.path, "groups")):
        return ()
    # Imported here, because most logs have no group.
    from binlog.consumers import group_names, stat_group

    found = []
    for name in group_names(log.path):
        try:
            found.append(GroupView(name, stat_group(log.path, name, log=log)))
        except NotFoundError:
            continue
        except BinlogError as error:
            found.append(GroupView(name, None, str(error)))
    return tuple(found)


def view_seal(log: LogStat) -> SealView | None:
    """Return the seal of a log, or None if it has none."""
    if not os.path.isdir(os.path.join(log.path, "seal")):
        return None
    # Imported here, because most logs have no seal.
    from binlog.seal import stat_seal

    try:
        found = stat_seal(log.path, log=log)
    except NotFoundError:
        return None  # it is being made
    except BinlogError as error:
        return SealView(None, problem=str(error))
    is_cut = _ends_before(log, found.next_ref) and _ends_before(stat(log.path), found.next_ref)
    return SealView(found, None if is_cut else distance(log, found.next_ref)[0], is_cut)


def _ends_before(log: LogStat, ref: Ref) -> bool:
    """Return whether a log ends before a ref; one that was read earlier than the ref may do so."""
    return log.tail is None or log.tail < ref
