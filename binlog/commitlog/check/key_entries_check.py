"""Going through the files of a key index from their first entry on, and looking at what needs no commit log.

That is: the header, the chains, and the slots, by which every entry must be found.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from binlog.commitlog.check.log_check import Settled
from binlog.commitlog.indexes.key_lookup import KeyIndexFileReader, KeyIndexReader
from binlog.errors import CorruptError
from binlog.format.commitlog.indexes import KEY_INDEX_ENTRY, KEY_INDEX_HEADER, KEY_INDEX_SLOT, parse_slots
from binlog.format.commitlog.names import is_index_name
from binlog.format.problem import Problem, problem_of
from binlog.storage.files import list_folder

_ENTRIES_AT_ONCE = 4096


class IndexedKey(NamedTuple):
    """An entry, and where it lies.

    begins_ms: from when its seconds count: its file's first message, for that one maybe the last of the file before.
    bounds: fields of the file's header that tell when the entry's message was stored, and what they say.
    """

    path: str
    at: int
    number: int
    hash: int
    offset: int
    seconds: int
    begins_ms: tuple[int, ...]
    bounds: tuple[tuple[str, int], ...]

    @property
    def bounds_at(self) -> dict[str, int]:
        """Where in the file the bounds lie."""
        return {name: KEY_INDEX_HEADER.offset(name) for name, _ in self.bounds}


class _Entry(NamedTuple):
    key_hash: int
    offset: int
    seconds: int
    previous: int


class KeyIndexEntries:
    """The entries in `folder`, of which `reader` is a reader; none without one.

    log_start: of older messages nothing is told any more.  problems: what is wrong is added to it.
    """

    def __init__(
        self, folder: str, reader: KeyIndexReader | None, settled: Settled, log_start: int, problems: list[Problem]
    ) -> None:
        self.folder = folder
        self._reader = reader
        self._settled = settled
        self._log_start = log_start
        self._problems = problems
        self._before_ms = 0  # when the last message of the file before was stored

    def entries(self) -> Iterator[IndexedKey]:
        """Those of messages that are there, in the order in which they were put."""
        for name in list_folder(self.folder):
            if not is_index_name(name):
                text = "no key index has such a name, and RocketMQ does not open one with it"
                self._problems.append(Problem(os.path.join(self.folder, name), 0, "name", text))
        names = [] if self._reader is None else self._reader.names()
        for name in names:
            assert self._reader is not None
            try:
                file = self._reader.file(name)
                if file is None:
                    self._tell_empty(name)
                    continue
                header = KEY_INDEX_HEADER.unpack(file.read(KEY_INDEX_HEADER.size, 0))
                if self._settled.until_ms is not None and header["end_ms"] > self._settled.until_ms:
                    return  # recovery makes it anew, with all that come after it
                yield from self._of_file(file, header, writing=not self._settled.all and name == names[-1])
            except CorruptError as error:
                self._problems.append(problem_of(error, os.path.join(self.folder, name)))

    def _tell_empty(self, name: str) -> None:
        if self._settled.all:
            self._problems.append(Problem(os.path.join(self.folder, name), 0, "file_bytes", "the file is empty"))

    def _of_file(self, file: KeyIndexFileReader, header: dict[str, int], *, writing: bool) -> Iterator[IndexedKey]:
        """Of one file.  writing: its owner may put keys meanwhile, and its count is the last of what is written."""
        count = header["entry_count"]
        if not 0 <= count <= file.size.entries or (count == 0 and any(header.values())):
            text = f"{count} entries in use, and the file has {file.size.entries}"
            self._problems.append(Problem(file.path, KEY_INDEX_HEADER.offset("entry_count"), "index_header", text))
            return
        newest = array("i", bytes(KEY_INDEX_SLOT.size)) * file.size.slots
        expired = True
        for number, entry in self._raw(file, count):
            slot = entry.key_hash % file.size.slots
            if entry.previous != newest[slot]:
                at = file.size.entry_at(number) + KEY_INDEX_ENTRY.offset("previous")
                text = f"entry {number}: the one before it in its chain is {newest[slot]}, not {entry.previous}"
                self._problems.append(Problem(file.path, at, "chain", text))
            newest[slot] = number
            bounds = []
            for at_number, place in ((1, "begin"), (count - 1, "end")):
                if number == at_number and not (writing and place == "end"):
                    self._check_bound(file, header, f"{place}_offset", entry.offset)
                    bounds.append((f"{place}_ms", header[f"{place}_ms"]))
            expired = expired and 0 <= entry.offset < self._log_start
            if not expired:
                at = file.size.entry_at(number)
                # RocketMQ begins a file with the time at which the one before it ends, until it knows better.
                begins_ms = (header["begin_ms"], self._before_ms) if number == 1 else (header["begin_ms"],)
                what = (entry.key_hash, entry.offset, entry.seconds, begins_ms)
                yield IndexedKey(file.path, at, number, *what, tuple(bounds))
        self._before_ms = header["end_ms"]
        if count > 1:
            self._check_slots(file, newest, count, writing=writing)
            used = file.size.slots - newest.count(0)
            # RocketMQ counts a slot with each of its entries, before version 4.7.
            if not used <= header["slot_count"] < count and not writing:
                text = f"{header['slot_count']} slots in use, and they are {used}"
                self._problems.append(Problem(file.path, KEY_INDEX_HEADER.offset("slot_count"), "index_header", text))

    def _check_bound(self, file: KeyIndexFileReader, header: dict[str, int], name: str, offset: int) -> None:
        if header[name] != offset:
            text = f"{name} is {header[name]}, and the entry says {offset}"
            self._problems.append(Problem(file.path, KEY_INDEX_HEADER.offset(name), "index_header", text))

    @staticmethod
    def _raw(file: KeyIndexFileReader, count: int) -> Iterator[tuple[int, _Entry]]:
        number = 1
        while number < count:
            size = min(count - number, _ENTRIES_AT_ONCE) * KEY_INDEX_ENTRY.size
            data = file.read(size, file.size.entry_at(number))
            for entry in struct.iter_unpack(KEY_INDEX_ENTRY.format, data):
                yield number, _Entry._make(entry)
                number += 1

    def _check_slots(self, file: KeyIndexFileReader, newest: array[int], count: int, *, writing: bool) -> None:
        """Whether each slot leads to the newest entry of its chain.  An owner may have put newer ones meanwhile."""
        there = parse_slots(file.read(file.size.slots * KEY_INDEX_SLOT.size, KEY_INDEX_HEADER.size))
        if there == newest:
            return
        for slot, (found, wanted) in enumerate(zip(there, newest, strict=True)):
            if found != wanted and not (writing and found >= count):
                text = f"the slot leads to entry {found}, and the newest of its chain is {wanted}"
                self._problems.append(Problem(file.path, file.size.slot_at(slot), "slot", text))
