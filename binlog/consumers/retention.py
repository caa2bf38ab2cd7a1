"""The messages that the consumer groups of a log still need, so that retention keeps them."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from binlog.consumers.state.clock import GroupClock
from binlog.consumers.state.group_state import GroupState
from binlog.consumers.state.state_reader import StateReader, log_headers
from binlog.consumers.waking.seats import FifoSeats
from binlog.errors import CorruptError, GoneError, NotFoundError
from binlog.format.record import Ref
from binlog.log.maintain.stat import stat
from binlog.log.read.start import Sequence
from binlog.log.reader import Reader
from binlog.storage.directory import Directory
from binlog.storage.files import list_folder

GROUPS = "groups"
_MEMBERS = "members"
_SEAT = re.compile("[0-9a-f]{2}")


class GroupFloor(NamedTuple):
    """The first message that a group is not done with."""

    name: str
    sequence: int


def group_names(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of the groups of a log, in order, also of those that were deleted or created just now."""
    # Names with a dot in front are of the lock, and of directories that are being removed.
    return [name for name in list_folder(os.path.join(path, GROUPS)) if not name.startswith(".")]


def group_floors(path: str | os.PathLike[str]) -> list[GroupFloor]:
    """Return the floor of each group that holds messages, by the durable operations of its log.

    An acknowledgement that is not durable does not count, because a power cut may take it back.
    A group holds nothing if it has had no member and no operation for longer than its setting `holds` says, or if it
    lags by more bytes.
    Raises: as a Reader, for the logs of the groups.
    """
    floors = []
    for name in group_names(path):
        folder = os.path.join(path, GROUPS, name)
        state = _durable_state(folder)
        if state is not None and state.is_created and not state.is_deleted and holds_messages(path, folder, state):
            floors.append(GroupFloor(name, state.floor))
    return floors


def _durable_state(folder: str) -> GroupState | None:
    """Return a group's state; None if its log has no file yet, or it was removed."""
    try:
        reader = StateReader.open(folder, durable_only=True)
    except NotFoundError:
        return None
    except GoneError:
        if os.path.isdir(folder):
            raise
        return None  # a group that was deleted
    reader.close()
    return reader.state


def holds_messages(path: str | os.PathLike[str], folder: str, state: GroupState) -> bool:
    """Return whether retention keeps messages for a group, by its settings.  folder: the group's directory."""
    settings = state.settings
    if settings.holds_ns and _idle_ns(folder, state) > settings.holds_ns and not _has_member(folder):
        return False
    return not settings.holds_bytes or _lag_bytes(path, state.floor) <= settings.holds_bytes


def _idle_ns(folder: str, state: GroupState) -> int:
    """Return how long ago the last operation of a group was, in group time."""
    clock = GroupClock()
    if not state.clock_ns:  # the group never had a member, so its clock was not set
        return max(clock.wall_ns() - (stat(folder).files[0].created_ns or 0), 0)
    if clock.is_set(state):
        return clock.now_ns(state) - state.clock_ns
    # No operation was in this boot.  Its first one sets group time to the wall clock, if that is later.
    return max(clock.wall_ns() - state.clock_ns, 0)


def _has_member(folder: str) -> bool:
    """Return whether a process has a seat, also one whose operations are not durable yet."""
    with Directory(folder) as group:
        if not group.has(_MEMBERS):
            return False
        seats = FifoSeats(group)
        try:
            return any(not seats.is_free(int(name, 16)) for name in group.names(_MEMBERS) if _SEAT.fullmatch(name))
        finally:
            seats.close()


def _lag_bytes(path: str | os.PathLike[str], floor: int) -> int:
    """Return the bytes of the log from a message on: all of them if retention removed it, 0 if it cannot be read."""
    try:
        with Reader(path, Sequence(floor)) as reader:
            batch = reader.read_batch(records_max=1)
    except GoneError:
        return sum(file.tail - file.first_offset for file in stat(path).files)
    except (ValueError, CorruptError):
        return 0
    return (stat(path).bytes_after(Ref(batch.number, batch.offset)) or 0) if len(batch) else 0


def file_of(path: str | os.PathLike[str], sequence: int) -> Ref | None:
    """Return a ref in the file that has a message, or has the next one; None if no file has sequence numbers."""
    headers = log_headers(path)
    holding = [header.number for header in headers if header.is_native and header.first_sequence <= sequence]
    return Ref(holding[-1], 0) if holding else Ref(headers[0].number, 0)
