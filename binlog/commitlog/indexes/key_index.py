"""The key index: which messages of the commit log have a key, newest first.

It is made from the commit log, in files of a fixed size, one after the other; each is a hash table of its own.
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
from binlog.storage.failures import own_errors
from binlog.storage.files import allocate, sync
from binlog.storage.mapping import FileMapping
from binlog.storage.native import ffi, lib

# How much gets blocks at once: of the slots, which keys hit anywhere, and of the entries, which follow one another.
_CHUNK_BYTES = 1 << 16
_ENTRIES_AHEAD_BYTES = 1 << 16
# Between two counts fewer keys are put than this: more is damage.
_MENDED_MAX = 1 << 16
# When the message at an offset of the log was stored, if it has a key of this hash; None otherwise.
StoredMs = Callable[[int, int], int | None]


class KeyIndexFile:
    """One file.  One thread at a time may put; any may find."""

    def __init__(self, directory: Directory, name: str, size: KeyIndexSize, *, new: bool) -> None:
        """Open it, or make it.  Raises: CorruptError where it has another size; AccessError, FullError."""
        self.name = name
        self.path = directory.file_path(name)
        self.size = size
        self._directory = directory
        self._fd = directory.create(name) if new else directory.open(name, writable=True)
        self._slots_ready: set[int] = set()  # numbers of chunks of slots that have blocks
        self._entries_ready = 0  # up to where entries have blocks
        self._prepare(new=new)
        self._mapping = FileMapping(self._fd, size.file_bytes, self.path)

    def _prepare(self, *, new: bool) -> None:
        """Give a new file its size, durably, and no blocks: `_allocate` does that as keys come."""
        found = os.fstat(self._fd).st_size
        if not new and found != self.size.file_bytes:
            raise CorruptError(self.path, 0, "file_bytes", f"the file has {found} bytes, not {self.size.file_bytes}")
        if new:
            try:
                with own_errors(self.path, "sizing the file"):
                    os.ftruncate(self._fd, self.size.file_bytes)
            except BaseException:
                self.remove()
                raise
            sync(self._fd, self.path)
            self._directory.sync(os.path.dirname(self.name))

    @property
    def header(self) -> dict[str, int]:
        """Its fields."""
        return KEY_INDEX_HEADER.unpack(self._mapping.read(KEY_INDEX_HEADER.size, 0))

    @property
    def full(self) -> bool:
        """Whether no key can be put any more."""
        return self.header["entry_count"] >= self.size.entries

    def put(self, keys: memoryview) -> int:
        """Put keys, as a Walk has them; how many were, fewer where the file is full.  Raises: FullError."""
        self._allocate(keys)
        view = ffi.from_buffer("int64_t[]", keys)
        map_ = self._mapping.address()
        return int(lib.binlog_key_index_put(map_, self.size.slots, self.size.entries, view, len(keys) // 3))

    def read(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes from `offset`."""
        return self._mapping.read(size, offset)

    def entry(self, number: int) -> dict[str, int]:
        """The fields of an entry."""
        return KEY_INDEX_ENTRY.unpack(self.read(KEY_INDEX_ENTRY.size, self.size.entry_at(number)))

    def _allocate(self, keys: memoryview) -> None:
        """Give blocks to what these keys will be stored in: a store to a page without a block is SIGBUS."""
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
        """Whether the header agrees with the first and the last entry; if not, the file is to be made again.

        A count beyond what the file holds would otherwise cost time and memory in everything that follows it.
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

    def mend_slots(self) -> bool:
        """Have slots lead to entries that count, after a crash that kept the count from the file.

        Whether that can be done: False if an entry that a slot leads to is not there, or too many are to be mended.
        """
        count = max(self.header["entry_count"], 1)
        slots = self.read_slots()
        if max(slots) < count:
            return True
        steps = 0
        for slot in [slot for slot, newest in enumerate(slots) if newest >= count][: _MENDED_MAX + 1]:
            number = slots[slot]
            while number >= count:
                steps += 1
                if number >= self.size.entries or steps > _MENDED_MAX:
                    return False
                entry = self.entry(number)
                if not any(entry.values()) or not 0 <= entry["previous"] < number:
                    return False
                number = entry["previous"]
            self._mapping.write(KEY_INDEX_SLOT.pack({"newest": number}), self.size.slot_at(slot))
        return True

    def read_slots(self) -> array[int]:
        """What all slots say."""
        return parse_slots(self.read(self.size.slots * KEY_INDEX_SLOT.size, KEY_INDEX_HEADER.size))

    def stored_ms(self, number: int, log_end: int, stored_ms: StoredMs) -> int | None:
        """When the message of an entry was stored, if it is in the log."""
        entry = self.entry(number)
        return stored_ms(entry["key_hash"], entry["offset"]) if 0 <= entry["offset"] < log_end else None

    def cut(self, log_end: int, stored_ms: StoredMs) -> bool:
        """Leave out the last entries, up to one whose message is in the log; whether any is left.

        RocketMQ leaves entries of messages that it cut off, and puts those of later messages after them.  They are not
        looked for: whoever finds an entry compares its message.
        A death in between changes nothing: the count comes last.
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
        """Sync it.  Raises: PoisonedError."""
        sync(self._fd, self.path)

    def remove(self) -> None:
        """Remove its name, and close it; who finds something in it goes on."""
        self._directory.remove(self.name)
        self.close()

    def close(self) -> None:
        """Close it; it is unmapped with the last one who finds something in it."""
        self._directory.close_file(self._fd)


class KeyIndex:
    """The files in a folder, by when they were made.  One thread at a time may put; any may find, flush and remove.

    Invariant: who holds the mutex alone changes the tuple of files, and closes one; so none is closed that is read.
    """

    def __init__(self, directory: Directory, folder: str, size: KeyIndexSize) -> None:
        self._directory = directory
        self._folder = folder
        self._size = size
        self._files: tuple[KeyIndexFile, ...] = ()
        self._mutex = threading.Lock()

    def load(self, *, believed_ms: int | None, removing: Callable[[], None] = lambda: None) -> int | None:
        """Open what is there; when the first message was stored whose key is to be put again, None where none is.

        A file that contradicts itself is removed, with all that come after it.

        believed_ms: files with messages stored after that are removed, for what they say may not have come to the disk;
        None believes all.
        removing: called before a file is removed that has keys.
        """
        again_ms: int | None = None
        for name in sorted(filter(is_index_name, self._directory.names(self._folder))):
            where = os.path.join(self._folder, name)
            if OpenFile(self._directory, where, writable=False).size == 0:  # as a crash leaves it while it is made
                self._directory.remove(where)
                continue
            file = KeyIndexFile(self._directory, where, self._size, new=False)
            if again_ms is None and not file.is_sound():
                again_ms = self._files[-1].header["end_ms"] if self._files else 0
            if again_ms is not None or (believed_ms is not None and file.header["end_ms"] > believed_ms):
                again_ms = file.header["begin_ms"] if again_ms is None else again_ms
                removing()
                file.remove()
            else:
                self._files = (*self._files, file)
        if believed_ms is not None and self._files and not self._files[-1].mend_slots():
            file = self._files[-1]
            self._files = self._files[:-1]
            again_ms = file.header["begin_ms"]
            removing()
            file.remove()
        self._directory.sync(self._folder)
        return again_ms

    @property
    def empty(self) -> bool:
        """Whether there is no file: no message has a key, or somebody removed them."""
        return not self._files

    @property
    def end_offset(self) -> int:
        """Where the message lies whose keys were put last; -1 for none."""
        with self._mutex:
            headers = (file.header for file in reversed(self._files))
            return next((header["end_offset"] for header in headers if header["entry_count"] > 1), -1)

    def put(self, keys: memoryview) -> None:
        """Put keys, as a Walk has them, in a new file where the last one is full; not those that it has.

        Of the last message it may have some: whoever put them died before the others, or there was no room for a file.
        And it may have more than ours put: RocketMQ has tags, too, since version 5.5.
        Raises: FullError where there is no room for a file; the keys before are put.
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
        """How many of the last entries are of the message at an offset."""
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
        """Where messages lie that may have the key, stored within these times: so many at most, newest first."""
        with self._mutex:
            files = reversed(self._files)
            return list(itertools.islice(find_offsets(files, key_hash(topic, key), begin_ms, end_ms), count))

    def flush(self) -> None:
        """Sync the last file; those before were, when they were full.  Raises: PoisonedError."""
        with self._mutex:
            if self._files:
                self._files[-1].flush()

    def ends_with(self, log_end: int, stored_ms: StoredMs) -> bool:
        """Whether its last key is one of a message of the commit log, which ends at `log_end`, or it has none."""
        with self._mutex:
            for file in reversed(self._files):
                if file.header["entry_count"] > 1:
                    return file.stored_ms(file.header["entry_count"] - 1, log_end, stored_ms) is not None
        return True

    def truncate(self, log_end: int, stored_ms: StoredMs) -> None:
        """Leave out the last keys whose messages are not in the commit log, which ends at `log_end`."""
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
        """Remove files all of whose messages are no more in the commit log; never the last one."""
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
