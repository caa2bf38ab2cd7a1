"""What the consumer groups of a log still need, so that retention removes nothing else."""

from __future__ import annotations

import os
from typing import NamedTuple

from binlog.consumers.state_reader import StateReader
from binlog.errors import NotFoundError
from binlog.format.record import Ref
from binlog.log.directory import LogDirectory

GROUPS = "groups"


class GroupFloor(NamedTuple):
    """The first message that a group is not done with."""

    name: str
    sequence: int


def group_names(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of the groups of a log, in order."""
    try:
        return sorted(os.listdir(os.path.join(path, GROUPS)))
    except (FileNotFoundError, NotADirectoryError):
        return []


def group_floors(path: str | os.PathLike[str]) -> list[GroupFloor]:
    """Return the floor of each group, by the durable operations of its log.

    An acknowledgement that is not durable does not count, because a power cut may take it back.
    Raises: as a Reader, for the logs of the groups.
    """
    floors = []
    for name in group_names(path):
        try:
            reader = StateReader.open(os.path.join(path, GROUPS, name), durable_only=True)
        except NotFoundError:
            continue  # its log has no file yet, or it was removed
        reader.close()
        state = reader.state
        if state.is_created and not state.is_deleted:
            floors.append(GroupFloor(name, state.floor))
    return floors


def file_of(path: str | os.PathLike[str], sequence: int) -> Ref | None:
    """Return a ref in the file that has a message, or has the next one; None if no file has sequence numbers."""
    with LogDirectory(path) as directory:
        headers = [directory.read_header(number) for number in directory.log_numbers()]
    holding = [header.number for header in headers if header.is_native and header.first_sequence <= sequence]
    return Ref(holding[-1], 0) if holding else Ref(headers[0].number, 0)
