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

from binlog.commitlog.key_chain import find_offsets
from binlog.errors import CorruptError
from binlog.format.commitlog.key_index import (
    KEY_INDEX_ENTRY,
    KEY_INDEX_HEADER,
    KEY_INDEX_SLOT,
    KeyIndexSize,
    key_hash,
    parse_slots,
)
from binlog.format.commitlog.names import index_name, is_index_name
from binlog.storage.failures import own_errors
from binlog.storage.files import (
    allocate,
    create_file,
    open_directory,
    open_file,
    remove_file,
    sync,
    sync_directory,
)
from binlog.storage.mapping import Mapping
from binlog.storage.native import ffi, lib


class KeyIndexFile:
    """One file.  One thread at a time may put; any may find."""

    def __init__(self, directory_fd: int, folder: str, name: str, size: KeyIndexSize, *, new: bool) -> None:
        """Open it, or make it.  Raises: CorruptError where it has another size; AccessError, FullError."""
        self.name = name
        self.path = os.path.join(folder, name)
        self.size = size
        self._directory_fd = directory_fd
        if new:
            self._fd = create_file(directory_fd, name, self.path)
        else:
            self._fd = open_file(directory_fd, name, self.path, writable=True)
        try:
            self._prepare(new=new)
            self._mapping = Mapping(self._fd, size.file_bytes, self.path)
        except BaseException:
            os.close(self._fd)
            raise

    def _prepare(self, *, new: bool) -> None:
        found = os.fstat(self._fd).st_size
        if not new and found != self.size.file_bytes:
            raise CorruptError(self.path, 0, "file_bytes", f"the file has {found} bytes, not {self.size.file_bytes}")
        try:
            with own_errors(self.path, "sizing the file"):
                os.ftruncate(self._fd, self.size.file_bytes)
            allocate(self._fd, 0, self.size.file_bytes, self.path)  # a store to a page without a block is SIGBUS
        except BaseException:
            if new:
                remove_file(self._directory_fd, self.name, self.path)
            raise
        if new:
            sync(self._fd, self.path)
            sync_directory(self._directory_fd, self.path)

    @property
    def header(self) -> dict[str, int]:
        """Its fields."""
        return KEY_INDEX_HEADER.unpack(self._mapping.read(KEY_INDEX_HEADER.size, 0))

    @property
    def full(self) -> bool:
        """Whether no key can be put any more."""
        return self.header["entry_count"] >= self.size.entries

    def put(self, keys: memoryview) -> int:
        """Put keys, as a Walk has them; how many were, fewer where the file is full."""
        view = ffi.from_buffer("int64_t[]", keys)
        map_ = self._mapping.address()
        return int(lib.binlog_key_index_put(map_, self.size.slots, self.size.entries, view, len(keys) // 3))

    def read(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes from `offset`."""
        return self._mapping.read(size, offset)

    def entry(self, number: int) -> dict[str, int]:
        """The fields of an entry."""
        return KEY_INDEX_ENTRY.unpack(self.read(KEY_INDEX_ENTRY.size, self.size.entry_at(number)))

    def mend_slots(self) -> None:
        """Have slots lead to the newest entries that count again, where a crash has kept the count from the file."""
        count = self.header["entry_count"]
        slots = self.read_slots()
        beyond = (
            {slot for slot, newest in enumerate(slots) if newest >= count} if max(slots) >= max(count, 1) else set()
        )
        if not beyond:
            return
        right = dict.fromkeys(beyond, 0)
        for number in range(1, count):
            slot = self.entry(number)["key_hash"] % self.size.slots
            if slot in right:
                right[slot] = number
        for slot, newest in right.items():
            self._mapping.write(KEY_INDEX_SLOT.pack({"newest": newest}), self.size.slot_at(slot))

    def read_slots(self) -> array[int]:
        """What all slots say."""
        return parse_slots(self.read(self.size.slots * KEY_INDEX_SLOT.size, KEY_INDEX_HEADER.size))

    def cut(self, log_end: int, stored_ms: Callable[[int], int]) -> bool:
        """Leave out the entries of messages at or behind the log's end; whether any is left.

        stored_ms: when the message at an offset was stored.  A death in between changes nothing: the count comes last.
        """
        header = self.header
        count = header["entry_count"]
        kept = 1 + bisect_left(range(1, count), log_end, key=lambda number: self.entry(number)["offset"])
        if kept >= count:
            return True
        for number in range(count - 1, kept - 1, -1):
            entry = self.entry(number)
            previous = entry["previous"] if 0 <= entry["previous"] < number else 0
            self._mapping.write(KEY_INDEX_SLOT.pack({"newest": previous}), self.size.slot_at(entry["key_hash"]))
            header["slot_count"] -= previous == 0
        if kept > 1:
            last = self.entry(kept - 1)["offset"]
            header |= {"entry_count": kept, "end_offset": last, "end_ms": stored_ms(last)}
            self._mapping.write(KEY_INDEX_HEADER.pack(header), 0)
        return kept > 1

    def flush(self) -> None:
        """Sync it.  Raises: PoisonedError."""
        sync(self._fd, self.path)

    def remove(self) -> None:
        """Remove its name, and close it; who finds something in it goes on."""
        remove_file(self._directory_fd, self.name, self.path)
        self.close()

    def close(self) -> None:
        """Give its descriptor back; it is unmapped with the last one who finds something in it."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class KeyIndex:
    """The files in `folder`, by when they were made.  One thread at a time may put; any may find, flush and remove.

    Invariant: who holds the mutex alone changes the tuple of files, and closes one; so none is closed that is read.
    """

    def __init__(self, folder: str, size: KeyIndexSize) -> None:
        self._folder = folder
        self._size = size
        self._directory_fd = open_directory(folder)
        self._files: tuple[KeyIndexFile, ...] = ()
        self._mutex = threading.Lock()

    def load(self, *, believed_ms: int | None) -> int | None:
        """Open what is there; when the first message was stored whose key is to be put again, None where none is.

        believed_ms: files with messages stored after that are removed, for what they say may not have come to the disk;
        None believes all.
        """
        again_ms: int | None = None
        with own_errors(self._folder, "listing the folder"):
            names = sorted(name for name in os.listdir(self._folder) if is_index_name(name))
            sizes = [os.stat(name, dir_fd=self._directory_fd).st_size for name in names]
        for name, size in zip(names, sizes, strict=True):
            if size == 0:  # as a crash leaves it that comes while it is made
                remove_file(self._directory_fd, name, os.path.join(self._folder, name))
                continue
            file = KeyIndexFile(self._directory_fd, self._folder, name, self._size, new=False)
            if again_ms is not None or (believed_ms is not None and file.header["end_ms"] > believed_ms):
                again_ms = file.header["begin_ms"] if again_ms is None else again_ms
                file.remove()
            else:
                self._files = (*self._files, file)
        if believed_ms is not None and self._files:
            self._files[-1].mend_slots()
        sync_directory(self._directory_fd, self._folder)
        return again_ms

    @property
    def empty(self) -> bool:
        """Whether there is no file: no message has a key, or somebody removed them."""
        return not self._files

    @property
    def end_offset(self) -> int:
        """Where the last message lies that it has; -1 for none."""
        with self._mutex:
            return max(
                (file.header["end_offset"] for file in self._files if file.header["entry_count"] > 1), default=-1
            )

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
        last = self._files[-1].name if self._files else ""
        name = index_name(dt.datetime.now(dt.UTC).astimezone(), after=last)
        file = KeyIndexFile(self._directory_fd, self._folder, name, self._size, new=True)
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

    def truncate(self, log_end: int, stored_ms: Callable[[int], int]) -> None:
        """Leave out the keys of messages at or behind the commit log's end; stored_ms: see `KeyIndexFile.cut`."""
        with self._mutex:
            for file in reversed(self._files):
                if file.header["entry_count"] <= 1:
                    continue
                if file.cut(log_end, stored_ms):
                    break
                file.remove()
                self._files = tuple(each for each in self._files if each is not file)
        sync_directory(self._directory_fd, self._folder)

    def remove_before(self, log_start: int) -> None:
        """Remove files all of whose messages are no more in the commit log; never the last one."""
        with self._mutex:
            while len(self._files) > 1 and self._files[0].header["end_offset"] < log_start:
                self._files[0].remove()
                self._files = self._files[1:]
        sync_directory(self._directory_fd, self._folder)

    def close(self) -> None:
        """Let go of all files."""
        files, self._files = self._files, ()
        for file in files:
            file.close()
        fd, self._directory_fd = self._directory_fd, -1
        if fd >= 0:
            os.close(fd)
