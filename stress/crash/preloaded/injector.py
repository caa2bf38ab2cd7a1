"""The preloaded injector of this process: its injection, and its counters (injector_library/injector.h)."""

from __future__ import annotations

import ctypes
import enum
import functools
import mmap
from dataclasses import dataclass

_EVERY = -1


class Kind(enum.IntEnum):
    """The kind of a system call."""

    READ = 0
    WRITE = 1
    DATA_SYNC = 2
    SYNC = 3
    ALLOCATE = 4
    TRUNCATE = 5
    OPEN = 6
    MEMORY = 7
    LINK = 8
    UNLINK = 9
    MAKE_DIRECTORY = 10
    MAP = 11
    LOCK = 12
    UNLOCK = 13
    CLOSE = 14
    FUTEX = 15
    STORE = 16
    POPULATE = 17
    OTHER = 18


class Action(enum.IntEnum):
    """The action on a call."""

    NOTHING = 0
    KILL_BEFORE = 1
    KILL_AFTER = 2
    FAIL = 3
    SHORT = 4
    KILL_WITHIN = 5
    STOP = 6
    HANG = 7


# The rest changes no byte and no name.
_CHANGING_OR_READING = tuple(kind for kind in Kind if kind is not Kind.OTHER)


@dataclass(frozen=True)
class Injection:
    """A fault that a process injects into its own system calls.

    kinds: the calls that count.  first: the first that is affected, 0 for the first.  count: how many, -1 for all.
    error: the errno of Action.FAIL.  names_end: only files whose names end with this count.
    """

    action: Action
    first: int = 0
    kinds: tuple[Kind, ...] = _CHANGING_OR_READING
    count: int = 1
    error: int = 0
    names_end: str = ""


NOTHING = Injection(Action.NOTHING, count=_EVERY)


class _Order(ctypes.Structure):
    _fields_ = (
        ("kinds", ctypes.c_uint64),
        ("first", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("action", ctypes.c_int32),
        ("error", ctypes.c_int32),
    )


class _Slot(ctypes.Structure):
    _fields_ = (
        ("calls", ctypes.c_uint64),
        ("hits", ctypes.c_uint64),
        ("locked", ctypes.c_uint32),
        ("blocked", ctypes.c_uint32),
    )


class Slots:
    """The counters of armed processes, in memory that they share: create it before forking them."""

    def __init__(self, count: int) -> None:
        self._memory = mmap.mmap(-1, count * ctypes.sizeof(_Slot))
        self._slots = (_Slot * count).from_buffer(self._memory)

    def __getitem__(self, index: int) -> _Slot:
        return self._slots[index]

    def locked(self) -> list[int]:
        """Return the indexes of the processes that hold a file's lock."""
        return [index for index, slot in enumerate(self._slots) if slot.locked]


def arm(injection: Injection, under: str, slot: _Slot | None = None) -> None:
    """Arm this process.  under: the prefix of the paths that count.  slot: for its counters."""
    kinds = sum(1 << kind for kind in set(injection.kinds))
    order = _Order(kinds, injection.first, injection.count, injection.action, injection.error)
    shown = None if slot is None else ctypes.byref(slot)
    _library().binlog_injector_arm(ctypes.byref(order), under.encode(), injection.names_end.encode(), shown)


def note_kinds(kinds: ctypes.Array[ctypes.c_uint8]) -> None:
    """Write the kind of each counted call into an array, by its number."""
    _library().binlog_injector_note(kinds, len(kinds))


def disarm() -> None:
    """Stop injecting."""
    _library().binlog_injector_disarm()


def other_boot(path: str) -> None:
    """Make this process read its boot id from a file."""
    _library().binlog_injector_boot(path.encode())


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None)
