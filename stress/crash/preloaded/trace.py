"""Parsing of the trace that the preloaded recorder writes; its layout is in recorder_library/recorder.h."""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

_MAGIC = int.from_bytes(b"BLTRACE1", "little")
_HEADER = struct.Struct("=QQQQQ")
MARK_NUMBERS = 8
_RECORD = struct.Struct(f"=IIIIQQQQQqIIII{MARK_NUMBERS}q")

HEADER_BYTES = _HEADER.size
ROOM_BYTES = 32 << 20  # of a trace file, which is sparse


class Kind(enum.IntEnum):
    """The kind of a recorded call."""

    WRITE = 1
    TRUNCATE = 2
    ALLOCATE = 3
    SYNC = 4
    CREATE = 5
    LINK = 6
    UNLINK = 7
    RENAME = 8
    MAKE_DIRECTORY = 9
    MARK = 10
    MEMORY = 11
    SYNC_FAILED = 12  # the kernel may have dropped the data that it was to write (fsync(2))
    STORE = 13  # a write through a mapping, which the kernel may write to the disk before it is complete


@dataclass(frozen=True, slots=True)
class Event:
    """One call that succeeded, one failed sync, or one mark.

    start, end: ticks of one clock for all processes; `end` is after every other tick if the process died in the call.
    died: whether it did; the call may then have taken effect, in part, or not at all.
    inode: of the file, or of the directory that was synced or made.
    directory, name: of the name that was added or removed; other_*: the old ones of a renamed file.
    offset: of a write or store; the new size of a truncation; the least size of an allocation.
    """

    kind: Kind
    process: int
    start: int
    end: int
    inode: int
    directory: int
    name: str
    other_directory: int
    other_name: str
    offset: int
    data: bytes
    mark: tuple[int, ...]
    died: bool = False


class TraceError(Exception):
    """The trace is incomplete, so it proves nothing."""


def used_bytes(head: bytes) -> int:
    """Return the number of bytes written to a trace, from its first HEADER_BYTES."""
    return int(_HEADER.unpack(head)[3])


def parse_trace(trace: bytes) -> list[Event]:
    """Return successful calls, failed syncs and marks, in the order in which they began.  Raises: TraceError."""
    magic, room, first, used, ticks = _HEADER.unpack_from(trace)
    if magic != _MAGIC:
        raise TraceError("this is not a trace")
    if used > room:
        raise TraceError(f"the trace has room for {room} bytes, but {used} were needed")
    events = []
    at = first
    while at < used:
        bytes_, event = _parse_record(trace, at, ticks + 1)
        if event is not None:
            events.append(event)
        at += bytes_
    return sorted(events, key=lambda event: event.start)


def _parse_record(trace: bytes, at: int, never: int) -> tuple[int, Event | None]:
    (
        bytes_, kind, process, failed, start, end, inode, directory, other_directory, offset,
        name_bytes, other_bytes, data_bytes, written_bytes, *mark,
    ) = _RECORD.unpack_from(trace, at)  # fmt: skip
    if bytes_ < _RECORD.size:
        raise TraceError(f"a process died while it wrote the record at {at} of the trace")
    if failed and kind != Kind.SYNC:
        return bytes_, None
    name_at = at + _RECORD.size
    other_at = name_at + name_bytes
    data_at = other_at + other_bytes
    event = Event(
        kind=Kind.SYNC_FAILED if failed else Kind(kind), process=process, start=start, end=end or never,
        inode=inode, directory=directory,
        name=trace[name_at:other_at].decode(), other_directory=other_directory,
        other_name=trace[other_at:data_at].decode(), offset=offset,
        data=trace[data_at : data_at + min(data_bytes, written_bytes)], mark=tuple(mark),
        died=end == 0,
    )  # fmt: skip
    return bytes_, event
