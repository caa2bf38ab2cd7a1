"""The file system model: the states that a power cut may leave on the disk after a recorded run.

- A 512-byte sector is written as a whole or not at all.  It holds the data that the last sync of its file covered, with
  any number of the later writes to it, in the order of their calls.  Sectors are independent of each other.
- A store to a mapped file is a write that the kernel may put on the disk at any moment after its beginning, each sector
  on its own.  It may do so in the middle of the store: a sector may hold one half of the stored bytes without the
  other.
- A file's size is a unit of its own: the size that the last sync covered, or any later one.  Bytes that were never
  written are zeros.
- Each change of a directory (create, link, rename, unlink) is a unit of its own, kept or lost, unless a later fsync of
  the directory covers it.  A sync of the file does not keep its name.
- A sync covers the calls that had ended when it began, and nothing until it has ended.

POSIX allows all of this.  No single file system does all of it: ext4 and xfs keep a new file's name with its data. A
sync is never ignored: data that it covered is on the disk.
"""

from __future__ import annotations

import hashlib
import itertools
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from stress.crash.preloaded.trace import Event, Kind, TraceError

SECTOR_BYTES = 512
_WORD_BYTES = 4

Tree = dict[str, bytes | None]
"""The content of a directory, by path: the bytes of a file, or None for a directory."""


class Node(NamedTuple):
    """A file or directory as it was, durably, when the recording began."""

    inode: int
    data: bytes | None


_NEVER = 1 << 62


class _Effect:
    """The effect of one call on one file or directory.  durable: the tick after which it cannot be lost.

    torn: a store that the kernel writes to the disk before it is complete; the complete store is the next effect.
    """

    __slots__ = ("durable", "event", "start", "torn")

    def __init__(self, event: Event, *, torn: bool = False) -> None:
        self.event = event
        self.torn = torn
        self.start = event.start
        self.durable = _NEVER


class Unit(NamedTuple):
    """One independent part of the disk: condition 0 after a power cut is the oldest, the last is the newest.

    inode: of the file or directory.  part: the index of the sector; -1 for the size; for a directory, the index of the
        effect.
    """

    inode: int
    part: int
    condition_count: int


_SIZE = -1


class _File:
    """The content of a file after each of its effects."""

    def __init__(self, data: bytes) -> None:
        self.effects: list[_Effect] = []
        self._contents = [data]
        self._spans: dict[tuple[int, int], tuple[list[Unit], list[list[bytes]], list[int]]] = {}
        self._chosen: dict[tuple[int, int, tuple[int, ...]], bytes] = {}
        self._span: tuple[int, tuple[int, int]] = (-1, (0, 0))

    def finish(self) -> None:
        """Compute the contents, after all effects are known."""
        for effect in self.effects:
            self._contents.append(_changed(self._contents[-1], effect))

    def span(self, tick: int) -> tuple[int, int]:
        """Return how many effects are durable, and how many have begun."""
        if self._span[0] != tick:
            begun = bisect_right(self.effects, tick, key=lambda effect: effect.start)
            durable = max((index + 1 for index in range(begun) if self.effects[index].durable <= tick), default=0)
            self._span = tick, (durable, begun)
        return self._span[1]

    def units(self, inode: int, span: tuple[int, int]) -> list[Unit]:
        """Return the units that are undecided while that many effects are durable and have begun."""
        return self._parts(inode, span)[0]

    def choose(self, inode: int, span: tuple[int, int], choice: tuple[int, ...]) -> bytes:
        """Return the content for one choice of conditions."""
        key = (*span, choice)
        if key not in self._chosen:
            units, sectors, sizes = self._parts(inode, span)
            data = bytearray(self._contents[span[0]])
            size = len(data)
            for unit, values, index in zip(units, sectors, choice, strict=True):
                if unit.part == _SIZE:
                    size = sizes[index]
                else:
                    at = unit.part * SECTOR_BYTES
                    data.extend(bytes(max(0, at + SECTOR_BYTES - len(data))))
                    data[at : at + SECTOR_BYTES] = values[index]
            self._chosen[key] = bytes(data[:size]).ljust(size, b"\0")
        return self._chosen[key]

    def _parts(self, inode: int, span: tuple[int, int]) -> tuple[list[Unit], list[list[bytes]], list[int]]:
        if span not in self._spans:
            contents = self._contents[span[0] : span[1] + 1]
            sizes = list(dict.fromkeys(map(len, contents)))
            units, sectors = [], []
            for index in range(-(-max(sizes) // SECTOR_BYTES)):
                at = index * SECTOR_BYTES
                values = list(
                    dict.fromkeys(data[at : at + SECTOR_BYTES].ljust(SECTOR_BYTES, b"\0") for data in contents)
                )
                if len(values) > 1:
                    units.append(Unit(inode, index, len(values)))
                    sectors.append(values)
            if len(sizes) > 1:
                units.append(Unit(inode, _SIZE, len(sizes)))
                sectors.append([])
            self._spans[span] = units, sectors, sizes
        return self._spans[span]


def _changed(data: bytes, effect: _Effect) -> bytes:
    event = effect.event
    if event.kind in (Kind.WRITE, Kind.STORE):
        changed = data[: event.offset].ljust(event.offset, b"\0") + event.data + data[event.offset + len(event.data) :]
        return _torn(data, changed, event) if effect.torn else changed
    if event.kind is Kind.TRUNCATE:
        return data[: event.offset].ljust(event.offset, b"\0")
    return data.ljust(event.offset, b"\0")  # an allocation


def _torn(data: bytes, changed: bytes, event: Event) -> bytes:
    """Return the data with half of the store in each sector: the first or the last half, by its tick; words stay
    whole."""
    result = bytearray(data.ljust(len(changed), b"\0"))
    stop = event.offset + len(event.data)
    start = event.offset
    while start < stop:
        end = min(start - start % SECTOR_BYTES + SECTOR_BYTES, stop)
        middle = max((start + end) // 2 // _WORD_BYTES * _WORD_BYTES, start)
        half = slice(start, middle) if event.start % 2 else slice(middle, end)
        result[half] = changed[half]
        start = end
    return bytes(result)


class _Directory:
    """The names in a directory, and the changes to them."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.effects: list[_Effect] = []
        self._chosen: dict[tuple[int, frozenset[int]], dict[str, int]] = {}

    def pending(self, tick: int) -> tuple[int, ...]:
        """Return the effects that have begun and are not durable."""
        return tuple(index for index, effect in enumerate(self.effects) if effect.start <= tick < effect.durable)

    def choose(self, tick: int, lost: frozenset[int]) -> dict[str, int]:
        """Return the names after the effects that have begun, without the lost ones."""
        key = (bisect_right(self.effects, tick, key=lambda effect: effect.start), lost)
        if key not in self._chosen:
            names = dict(self.names)
            for index in range(key[0]):
                if index not in lost:
                    _rename(names, self.effects[index].event)
            self._chosen[key] = names
        return self._chosen[key]


def _rename(names: dict[str, int], event: Event) -> None:
    if event.kind is Kind.RENAME:
        names.pop(event.other_name, None)
    if event.kind is Kind.UNLINK:
        names.pop(event.name, None)
    else:
        names[event.name] = event.inode


@dataclass(frozen=True, slots=True)
class Span:
    """A range of ticks, first to last, in which a power cut leaves the same choice of states."""

    first: int
    last: int
    units: tuple[Unit, ...]


@dataclass(slots=True)
class State:
    """The disk after one choice.  key: equal for the same bytes under the same names."""

    key: bytes
    tree: Tree = field(repr=False)


def _with_unique_inodes(initial: dict[str, Node], events: Sequence[Event]) -> list[Event]:
    """Give each file a unique inode: most file systems reuse the inode of a removed file."""
    known = {node.inode for node in initial.values()}
    numbers: dict[int, int] = {}  # of inodes that were reused
    fresh = itertools.count(1 << 64)  # above all inodes
    unique = []
    for event in events:
        if event.kind in (Kind.CREATE, Kind.MAKE_DIRECTORY):
            if event.inode in known:
                numbers[event.inode] = next(fresh)
            known.add(event.inode)
        inode, directory, other = (
            numbers.get(each, each) for each in (event.inode, event.directory, event.other_directory)
        )
        unique.append(replace(event, inode=inode, directory=directory, other_directory=other))
    return unique


class Disk:
    """The disk of one recorded run.  See the module.

    initial: the files at the start, by path relative to the root; the root itself is "".
    """

    def __init__(self, initial: dict[str, Node], events: Sequence[Event]) -> None:
        self._root = initial[""].inode
        self._files: dict[int, _File] = {}
        self._directories: dict[int, _Directory] = {}
        self._elsewhere: set[int] = set()  # inodes of shared memory, and of files in other directories
        self._digests: dict[bytes, bytes] = {}
        for path, node in initial.items():
            self._add(node.inode, node.data)
            if path:
                above, _, name = path.rpartition("/")
                self._directories[initial[above].inode].names[name] = node.inode
        events = _with_unique_inodes(initial, events)
        for event in events:
            self._apply(event)
        self._find_durable(events)
        for file in self._files.values():
            file.finish()
        self._last_tick = max((event.end for event in events), default=0)

    def spans(self) -> list[Span]:
        """Return every prefix of the run; prefixes between which nothing begins or becomes durable are one span."""
        held: list[_File | _Directory] = [*self._files.values(), *self._directories.values()]
        starts = {tick for one in held for effect in one.effects for tick in (effect.start, effect.durable)}
        ticks = sorted({0, *starts} - {_NEVER})
        return [
            Span(first, following - 1, self._units(first))
            for first, following in itertools.pairwise([*ticks, max(self._last_tick, ticks[-1]) + 1])
        ]

    def has_names(self, inode: int) -> bool:
        """Whether the inode is a directory."""
        return inode in self._directories

    def state(self, span: Span, choice: Sequence[int]) -> State:
        """Return the disk if each unit of the span is in the condition chosen for it."""
        chosen: dict[int, list[int]] = {}
        lost: dict[int, set[int]] = {}
        for unit, index in zip(span.units, choice, strict=True):
            if unit.inode in self._files:
                chosen.setdefault(unit.inode, []).append(index)
            elif index == 0:
                lost.setdefault(unit.inode, set()).add(unit.part)
        tree: Tree = {}
        self._collect(span.first, "", self._root, chosen, lost, tree)
        key = hashlib.blake2b(digest_size=16)
        for path in sorted(tree):
            key.update(path.encode() + b"\0" + self._digest(tree[path]))
        return State(key.digest(), tree)

    def _collect(
        self, tick: int, above: str, inode: int, chosen: dict[int, list[int]], lost: dict[int, set[int]], tree: Tree
    ) -> None:
        for name, found in self._directories[inode].choose(tick, frozenset(lost.get(inode, ()))).items():
            path = f"{above}{name}"
            if found in self._directories:
                tree[path] = None
                self._collect(tick, path + "/", found, chosen, lost, tree)
            else:
                file = self._files[found]
                tree[path] = file.choose(found, file.span(tick), tuple(chosen.get(found, ())))

    def _digest(self, data: bytes | None) -> bytes:
        if data is None:
            return b"directory"
        if data not in self._digests:
            self._digests[data] = hashlib.blake2b(data, digest_size=16).digest()
        return self._digests[data]

    def _units(self, tick: int) -> tuple[Unit, ...]:
        units = [unit for inode, file in self._files.items() for unit in file.units(inode, file.span(tick))]
        for inode, directory in self._directories.items():
            units += [Unit(inode, index, 2) for index in directory.pending(tick)]
        return tuple(units)

    def _add(self, inode: int, data: bytes | None) -> None:
        if data is None:
            self._directories[inode] = _Directory()
        else:
            self._files[inode] = _File(data)

    def _apply(self, event: Event) -> None:
        effect = _Effect(event)
        if event.kind in (Kind.WRITE, Kind.STORE, Kind.TRUNCATE, Kind.ALLOCATE):
            if event.inode in self._files:
                torn = [_Effect(event, torn=True)] if event.kind is Kind.STORE else []
                self._files[event.inode].effects += [*torn, effect]
            elif event.inode not in self._elsewhere:
                raise TraceError(f"a write to an unknown file, inode {event.inode}")
        elif event.kind is Kind.MEMORY:
            self._elsewhere.add(event.inode)
        elif event.kind in (Kind.CREATE, Kind.LINK, Kind.UNLINK, Kind.RENAME, Kind.MAKE_DIRECTORY):
            if event.directory not in self._directories:
                self._elsewhere.add(event.inode)
                return
            if event.kind is Kind.RENAME and event.other_directory != event.directory:
                # Two changes, of which a power cut may keep either: file systems with a journal keep both or none.
                gone = replace(event, kind=Kind.UNLINK, directory=event.other_directory, name=event.other_name)
                self._directories[event.other_directory].effects.append(_Effect(gone))
                effect = _Effect(replace(event, kind=Kind.LINK))
            self._directories[event.directory].effects.append(effect)
            if event.kind is Kind.CREATE:
                self._add(event.inode, b"")
            elif event.kind is Kind.MAKE_DIRECTORY:
                self._add(event.inode, None)

    def _find_durable(self, events: Sequence[Event]) -> None:
        for sync in events:
            if sync.kind is not Kind.SYNC:
                continue
            held = self._files.get(sync.inode) or self._directories.get(sync.inode)
            for effect in held.effects if held is not None else ():
                if effect.event.end < sync.start:
                    effect.durable = min(effect.durable, sync.end)
