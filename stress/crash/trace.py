"""Reading the trace that the preloaded recorder writes; its layout is in recorder/recorder.h."""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

_MAGIC = int.from_bytes(b"BLTRACE1", "little")
_HEADER = struct.Struct("=QQQQQ")
MARK_NUMBERS = 8
_RECORD = struct.Struct(f"=IIIIQQQQQqIIII{MARK_NUMBERS}q")

HEADER_BYTES = _HEADER.size
ROOM_BYTES = 32 << 20  # of a trace file; it is sparse


class Kind(enum.IntEnum):
    """What a call did."""

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
    SYNC_FAILED = 12  # a sync that failed: the kernel may have dropped what it was to cover (fsync(2))
    STORE = 13  # a write through a mapping: the kernel may put it on the disk in the middle of it


@dataclass(frozen=True, slots=True)
class Event:
    """One call that succeeded, one sync that failed, or one mark.

    start, end: ticks of one clock for all processes; `end` is past every tick where the process died in the call.
    died: that it did; what the call was to do may be done, in part, or not at all.
    inode: of the file, or of the directory that was synced or made.
    directory, name: where a name was added or taken away; other_*: where a renamed file was before.
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
    """The trace is not whole, so nothing can be concluded from it."""


def used_bytes(head: bytes) -> int:
    """How much of a trace was written, by its first HEADER_BYTES."""
    return int(_HEADER.unpack(head)[3])


def parse_trace(trace: bytes) -> list[Event]:
    """The calls that succeeded, failed syncs, and the marks, in the order in which they began.  Raises: TraceError."""
    magic, room, first, used, ticks = _HEADER.unpack_from(trace)
    if magic != _MAGIC:
        raise TraceError("this is no trace")
    if used > room:
        raise TraceError(f"the trace has room for {room} bytes, and {used} were written")
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
