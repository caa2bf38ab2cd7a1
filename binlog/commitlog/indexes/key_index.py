"""The key index: finds the messages of the commit log that have a key, newest first.

It is built from the commit log, as a sequence of files of a fixed size; each file is a hash table.
"""

from __future__ import annotations

import datetime as dt
import itertools
import os
import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable

from binlog.commitlog.indexes.key_lookup import find_offsets
from binlog.errors import CorruptError
from binlog.format.commitlog.indexes import (
    KEY_INDEX_ENTRY,
    KEY_INDEX_HEADER,
    KEY_INDEX_SLOT,
    KeyIndexSize,
    key_hash,
    parse_slots,
)
from binlog.format.commitlog.names import index_name, is_index_name
from binlog.storage.directory import Directory, OpenFile
from binlog.storage.files import allocate, sync, truncate
from binlog.storage.mapping import FileMapping
from binlog.storage.native import ffi, lib

# How many bytes get blocks at once: of the slots, which keys hit at random, and of the entries, which are sequential.
_CHUNK_BYTES = 1 << 16
_ENTRIES_AHEAD_BYTES = 1 << 16
# A crash can leave at most this many entries that the header does not count; more means damage.
_REPAIRED_MAX = 1 << 16
# Returns the store time of the message at an offset of the log, if the message has a key with this hash.
StoredMs = Callable[[int, int], int | None]


class KeyIndexFile:
    """One file of the key index.  One thread at a time may put keys; any thread may find them."""

    def __init__(self, directory: Directory, name: str, size: KeyIndexSize, *, new: bool) -> None:
        """Open or create the file.  Raises: CorruptError if it has another size; AccessError, FullError."""
        self.name = name
        self.path = directory.file_path(name)
        self.size = size
        self._directory = directory
        self._fd = directory.create(name) if new else directory.open(name, writable=True)
        self._slots_ready: set[int] = set()  # chunks of slots that have blocks
        self._entries_ready = 0  # end of the entries that have blocks
        self._prepare(new=new)
        self._mapping = FileMapping(self._fd, size.file_bytes, self.path)

    def _prepare(self, *, new: bool) -> None:
        """Give a new file its size, durably, and a block for its header; `_allocate` adds others as keys arrive."""
        found = os.fstat(self._fd).st_size
        if not new and found != self.size.file_bytes:
            raise CorruptError(self.path, 0, "file_bytes", f"the file has {found} bytes, not {self.size.file_bytes}")
        if new:
            try:
                truncate(self._fd, self.size.file_bytes, self.path)
                # The header is read through the mapping, and in memory (tmpfs) even reading takes a block.
                allocate(self._fd, 0, KEY_INDEX_HEADER.size, self.path)
            except BaseException:
                self.remove()
                raise
            sync(self._fd, self.path)
            self._directory.sync(os.path.dirname(self.name))

    @property
    def header(self) -> dict[str, int]:
        """Return the fields of the header."""
        return KEY_INDEX_HEADER.unpack(self._mapping.read(KEY_INDEX_HEADER.size, 0))

    @property
    def full(self) -> bool:
        """Return whether the file takes no more keys."""
        return self.header["entry_count"] >= self.size.entries

    def put(self, keys: memoryview) -> int:
        """Put the keys of a Walk; return how many fitted in the file.  Raises: FullError."""
        self._allocate(keys)
        view = ffi.from_buffer("int64_t[]", keys)
        map_ = self._mapping.address()
        return int(lib.binlog_key_index_put(map_, self.size.slots, self.size.entries, view, len(keys) // 3))

    def read(self, size: int, offset: int) -> bytes:
        """Read up to `size` bytes at `offset`."""
        return self._mapping.read(size, offset)

    def entry(self, number: int) -> dict[str, int]:
        """Return the fields of an entry."""
        return KEY_INDEX_ENTRY.unpack(self.read(KEY_INDEX_ENTRY.size, self.size.entry_at(number)))

    def _allocate(self, keys: memoryview) -> None:
        """Allocate the blocks for these keys: a store to a mapped page without a block raises SIGBUS."""
        hashes = keys[::3].tolist()
        if len(self._slots_ready) * _CHUNK_BYTES < self.size.entry_at(0):
            chunks = {self.size.slot_at(hash_) // _CHUNK_BYTES for hash_ in hashes} | {0}
            for chunk in chunks - self._slots_ready:
                stop = min((chunk + 1) * _CHUNK_BYTES, self.size.file_bytes)
                allocate(self._fd, chunk * _CHUNK_BYTES, stop, self.path)
                self._slots_ready.add(chunk)
        first = self.header["entry_count"]
        start, stop = (
            self.size.entry_at(min(number, self.size.entries)) for number in (first, first + 1 + len(hashes))
        )
        if stop > self._entries_ready:
            start, stop = max(start, self._entries_ready), min(stop + _ENTRIES_AHEAD_BYTES, self.size.file_bytes)
            allocate(self._fd, start, stop, self.path)
            self._entries_ready = stop

    def is_sound(self) -> bool:
        """Return whether the header agrees with the first and the last entry; otherwise the file must be rebuilt.

        A count beyond the end of the file would cost time and memory in all later steps.
        """
        header = self.header
        count = header["entry_count"]
        if not 0 <= count <= self.size.entries:
            return False
        if count <= 1:
            return not any(self.entry(1).values())
        first, last = self.entry(1), self.entry(count - 1)
        ends = (header["begin_offset"], header["end_offset"]) == (first["offset"], last["offset"])
        return ends and first["previous"] == 0 and 0 <= last["previous"] < count - 1

    def repair_slots(self) -> bool:
        """Make slots lead to counted entries, after a crash that kept the new count from the disk.

        Return whether that succeeded: it fails if a chain leads to a missing entry, or for too many entries.
        """
        count = max(self.header["entry_count"], 1)
        slots = self.read_slots()
        if max(slots) < count:
            return True
        steps = 0
        for slot in [slot for slot, newest in enumerate(slots) if newest >= count][: _REPAIRED_MAX + 1]:
            number = slots[slot]
            while number >= count:
                steps += 1
                if number >= self.size.entries or steps > _REPAIRED_MAX:
                    return False
                entry = self.entry(number)
                if not any(entry.values()) or not 0 <= entry["previous"] < number:
                    return False
                number = entry["previous"]
            self._mapping.write(KEY_INDEX_SLOT.pack({"newest": number}), self.size.slot_at(slot))
        return True

    def read_slots(self) -> array[int]:
        """Return the numbers in all slots."""
        return parse_slots(self.read(self.size.slots * KEY_INDEX_SLOT.size, KEY_INDEX_HEADER.size))

    def stored_ms(self, number: int, log_end: int, stored_ms: StoredMs) -> int | None:
        """Return the store time of the message of an entry, if it is in the log."""
        entry = self.entry(number)
        return stored_ms(entry["key_hash"], entry["offset"]) if 0 <= entry["offset"] < log_end else None

    def cut(self, log_end: int, stored_ms: StoredMs) -> bool:
        """Drop the last entries, up to one whose message is in the log; return whether any entry remains.

        RocketMQ leaves entries of messages that it cut off, and adds those of later messages after them.  Such entries
        may stay, because a lookup compares the message.
        If the process dies here, nothing has changed: the count is written last.
        """
        header = self.header
        count = kept = header["entry_count"]
        end_ms: int | None = None
        while kept > 1 and end_ms is None:
            end_ms = self.stored_ms(kept - 1, log_end, stored_ms)
            kept -= end_ms is None
        if kept == count or end_ms is None:
            return kept > 1
        for number in range(count - 1, kept - 1, -1):
            entry = self.entry(number)
            previous = entry["previous"] if 0 <= entry["previous"] < number else 0
            self._mapping.write(KEY_INDEX_SLOT.pack({"newest": previous}), self.size.slot_at(entry["key_hash"]))
            header["slot_count"] -= previous == 0
        header |= {"entry_count": kept, "end_offset": self.entry(kept - 1)["offset"], "end_ms": end_ms}
        self._mapping.write(KEY_INDEX_HEADER.pack(header), 0)
        return True

    def flush(self) -> None:
        """Sync the file.  Raises: PoisonedError."""
        sync(self._fd, self.path)

    def remove(self) -> None:
        """Remove the name and close the file; a thread that is searching it can continue."""
        self._directory.remove(self.name)
        self.close()

    def close(self) -> None:
        """Close the file; it is unmapped after the last thread that searches it is done."""
        self._directory.close_file(self._fd)


class KeyIndex:
    """The key index in a folder, its files in the order of their creation.

    One thread at a time may put keys; any thread may find keys, flush and remove files.
    Invariant: only the holder of the mutex changes the tuple of files or closes a file, so a file that is being read
    stays open.
    """

    def __init__(self, directory: Directory, folder: str, size: KeyIndexSize) -> None:
        self._directory = directory
        self._folder = folder
        self._size = size
        self._files: tuple[KeyIndexFile, ...] = ()
        self._mutex = threading.Lock()

    def load(self, *, trusted_ms: int | None, removing: Callable[[], None] = lambda: None) -> int | None:
        """Open the files; return the store time from which keys must be put again, or None.

        A file that contradicts itself is removed, with all later files.

        trusted_ms: files with later messages are removed, because they may not be on the disk; None keeps all.
        removing: called before a file with keys is removed.
        """
        missing_from_ms: int | None = None
        for name in sorted(filter(is_index_name, self._directory.names(self._folder))):
            where = os.path.join(self._folder, name)
            if OpenFile(self._directory, where, writable=False).size == 0:  # a crash interrupted its creation
                self._directory.remove(where)
                continue
            file = KeyIndexFile(self._directory, where, self._size, new=False)
            if missing_from_ms is None and not file.is_sound():
                missing_from_ms = self._files[-1].header["end_ms"] if self._files else 0
            if missing_from_ms is not None or (trusted_ms is not None and file.header["end_ms"] > trusted_ms):
                missing_from_ms = file.header["begin_ms"] if missing_from_ms is None else missing_from_ms
                removing()
                file.remove()
            else:
                self._files = (*self._files, file)
        if trusted_ms is not None and self._files and not self._files[-1].repair_slots():
            file = self._files[-1]
            self._files = self._files[:-1]
            missing_from_ms = file.header["begin_ms"]
            removing()
            file.remove()
        self._directory.sync(self._folder)
        return missing_from_ms

    @property
    def empty(self) -> bool:
        """Return whether there is no file: no message has a key, or a user removed the files."""
        return not self._files

    @property
    def end_offset(self) -> int:
        """Return the offset of the last message with keys in the index; -1 for none."""
        with self._mutex:
            headers = (file.header for file in reversed(self._files))
            return next((header["end_offset"] for header in headers if header["entry_count"] > 1), -1)

    def put(self, keys: memoryview) -> None:
        """Put the keys of a Walk, except those that the index has; start a new file if the last one is full.

        The index may have some keys of the last message only, if the process died before it had put all, or if there
        was no room for a file.  It may also have more than these keys: RocketMQ adds tags, since version 5.5.
        Raises: FullError if there is no room for a new file; earlier keys are in the index.
        """

        def offset(number: int) -> int:
            return int(keys[3 * number + 1])

        end, numbers = self.end_offset, range(len(keys) // 3)
        known, of_later = bisect_left(numbers, end, key=offset), bisect_right(numbers, end, key=offset)
        if known < of_later:
            known = min(known + self._count_last(end), of_later)
        keys = keys[3 * known :]
        while keys:
            if not self._files or self._files[-1].full:
                self._begin()
            done = self._files[-1].put(keys)
            keys = keys[3 * done :]

    def _count_last(self, offset: int) -> int:
        """Count the last entries that belong to the message at an offset."""
        count = 0
        with self._mutex:
            for file in reversed(self._files):
                for number in range(file.header["entry_count"] - 1, 0, -1):
                    if file.entry(number)["offset"] != offset:
                        return count
                    count += 1
        return count

    def _begin(self) -> None:
        self.flush()
        last = os.path.basename(self._files[-1].name) if self._files else ""
        name = index_name(dt.datetime.now(dt.UTC).astimezone(), after=last)
        file = KeyIndexFile(self._directory, os.path.join(self._folder, name), self._size, new=True)
        with self._mutex:
            self._files = (*self._files, file)

    def find(self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int = 2**62, count: int = 64) -> list[int]:
        """Return up to `count` offsets of messages that may have the key, stored within these times, newest first."""
        with self._mutex:
            files = reversed(self._files)
            return list(itertools.islice(find_offsets(files, key_hash(topic, key), begin_ms, end_ms), count))

    def flush(self) -> None:
        """Sync the last file; earlier files were synced when they became full.  Raises: PoisonedError."""
        with self._mutex:
            if self._files:
                self._files[-1].flush()

    def ends_with(self, log_end: int, stored_ms: StoredMs) -> bool:
        """Return whether the last key belongs to a message in the commit log, or there is none."""
        with self._mutex:
            for file in reversed(self._files):
                if file.header["entry_count"] > 1:
                    return file.stored_ms(file.header["entry_count"] - 1, log_end, stored_ms) is not None
        return True

    def truncate(self, log_end: int, stored_ms: StoredMs) -> None:
        """Drop the last keys whose messages are not in the commit log, which ends at `log_end`."""
        with self._mutex:
            for file in reversed(self._files):
                if file.header["entry_count"] <= 1:
                    continue
                if file.cut(log_end, stored_ms):
                    break
                file.remove()
                self._files = tuple(each for each in self._files if each is not file)
        self._directory.sync(self._folder)

    def remove_before(self, log_start: int) -> None:
        """Remove files whose messages are all gone from the commit log, but never the last one."""
        with self._mutex:
            while len(self._files) > 1 and self._files[0].header["end_offset"] < log_start:
                self._files[0].remove()
                self._files = self._files[1:]
        self._directory.sync(self._folder)

    def close(self) -> None:
        """Close all files."""
        files, self._files = self._files, ()
        for file in files:
            file.close()
