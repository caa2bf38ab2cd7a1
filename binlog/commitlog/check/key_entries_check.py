"""The check of a key index alone: headers, chains of entries, and the slots that lead to them.

It yields the entries in their order, for the comparison with the commit log.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from binlog.commitlog.check.log_check import VerifiedExtent
from binlog.commitlog.indexes.key_lookup import KeyIndexFileReader, KeyIndexReader
from binlog.errors import CorruptError
from binlog.format.commitlog.indexes import KEY_INDEX_ENTRY, KEY_INDEX_HEADER, KEY_INDEX_SLOT, parse_slots
from binlog.format.commitlog.names import is_index_name
from binlog.format.problem import Problem, problem_of
from binlog.storage.files import list_folder

_ENTRIES_AT_ONCE = 4096


class IndexedKey(NamedTuple):
    """An entry of a key index, and its place.

    begins_ms: the times from which its seconds may count: the first message of its file, or for the first entry also
        the last message of the file before.
    bounds: the fields of the file header that hold the store time of the message, and their values.
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
        """Return the places of these fields in the file."""
        return {name: KEY_INDEX_HEADER.offset(name) for name, _ in self.bounds}


class _Entry(NamedTuple):
    key_hash: int
    offset: int
    seconds: int
    previous: int


class KeyIndexEntries:
    """The entries of the key index in `folder`, read by `reader`; no entries if that is None.

    log_start: entries of older messages are not compared.  problems: receives the problems found.
    """

    def __init__(
        self,
        folder: str,
        reader: KeyIndexReader | None,
        verified: VerifiedExtent,
        log_start: int,
        problems: list[Problem],
    ) -> None:
        self.folder = folder
        self._reader = reader
        self._verified = verified
        self._log_start = log_start
        self._problems = problems
        self._before_ms = 0  # store time of the last message of the previous file

    def entries(self) -> Iterator[IndexedKey]:
        """Yield the entries of messages that still exist, in the order in which they were put."""
        for name in list_folder(self.folder):
            if not is_index_name(name):
                text = "not the name of a key index file; RocketMQ cannot open the store with it"
                self._problems.append(Problem(os.path.join(self.folder, name), 0, "name", text))
        names = [] if self._reader is None else self._reader.names()
        for name in names:
            assert self._reader is not None
            try:
                file = self._reader.file(name)
                if file is None:
                    self._report_empty(name)
                    continue
                header = KEY_INDEX_HEADER.unpack(file.read(KEY_INDEX_HEADER.size, 0))
                if self._verified.until_ms is not None and header["end_ms"] > self._verified.until_ms:
                    return  # recovery rebuilds this file and all later ones
                yield from self._check_file_entries(file, header, writing=not self._verified.all and name == names[-1])
            except CorruptError as error:
                self._problems.append(problem_of(error, os.path.join(self.folder, name)))

    def _report_empty(self, name: str) -> None:
        if self._verified.all:
            self._problems.append(Problem(os.path.join(self.folder, name), 0, "file_bytes", "the file is empty"))

    def _check_file_entries(
        self, file: KeyIndexFileReader, header: dict[str, int], *, writing: bool
    ) -> Iterator[IndexedKey]:
        """Yield the entries of one file.  writing: its owner may put keys meanwhile; it writes the count last."""
        count = header["entry_count"]
        if not 0 <= count <= file.size.entries or (count == 0 and any(header.values())):
            text = f"{count} entries are in use, but the file has room for {file.size.entries}"
            self._problems.append(Problem(file.path, KEY_INDEX_HEADER.offset("entry_count"), "index_header", text))
            return
        newest = array("i", bytes(KEY_INDEX_SLOT.size)) * file.size.slots
        expired = True
        for number, entry in self._read_entries(file, count):
            slot = entry.key_hash % file.size.slots
            if entry.previous != newest[slot]:
                at = file.size.entry_at(number) + KEY_INDEX_ENTRY.offset("previous")
                text = f"entry {number}: its chain continues at {entry.previous} instead of {newest[slot]}"
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
                # At first RocketMQ gives a new file the end time of the previous one, and corrects it later.
                begins_ms = (header["begin_ms"], self._before_ms) if number == 1 else (header["begin_ms"],)
                what = (entry.key_hash, entry.offset, entry.seconds, begins_ms)
                yield IndexedKey(file.path, at, number, *what, tuple(bounds))
        self._before_ms = header["end_ms"]
        if count > 1:
            self._check_slots(file, newest, count, writing=writing)
            used = file.size.slots - newest.count(0)
            # Before version 4.7, RocketMQ counted a slot once for each of its entries.
            if not used <= header["slot_count"] < count and not writing:
                text = f"the header counts {header['slot_count']} slots in use, but there are {used}"
                self._problems.append(Problem(file.path, KEY_INDEX_HEADER.offset("slot_count"), "index_header", text))

    def _check_bound(self, file: KeyIndexFileReader, header: dict[str, int], name: str, offset: int) -> None:
        if header[name] != offset:
            text = f"{name} is {header[name]}, but the entry has {offset}"
            self._problems.append(Problem(file.path, KEY_INDEX_HEADER.offset(name), "index_header", text))

    @staticmethod
    def _read_entries(file: KeyIndexFileReader, count: int) -> Iterator[tuple[int, _Entry]]:
        number = 1
        while number < count:
            size = min(count - number, _ENTRIES_AT_ONCE) * KEY_INDEX_ENTRY.size
            data = file.read(size, file.size.entry_at(number))
            for entry in struct.iter_unpack(KEY_INDEX_ENTRY.format, data):
                yield number, _Entry._make(entry)
                number += 1

    def _check_slots(self, file: KeyIndexFileReader, newest: array[int], count: int, *, writing: bool) -> None:
        """Check that each slot leads to the newest entry of its chain; an owner may have put newer ones meanwhile."""
        there = parse_slots(file.read(file.size.slots * KEY_INDEX_SLOT.size, KEY_INDEX_HEADER.size))
        if there == newest:
            return
        for slot, (found, wanted) in enumerate(zip(there, newest, strict=True)):
            if found != wanted and not (writing and found >= count):
                text = f"the slot leads to entry {found}, but the newest entry of its chain is {wanted}"
                self._problems.append(Problem(file.path, file.size.slot_at(slot), "slot", text))
