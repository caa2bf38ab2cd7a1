"""The key index: which messages of the commit log have a key, newest first.

It is made from the commit log, in files of a fixed size, one after the other; each is a hash table of its own.
"""

from __future__ import annotations

import datetime as dt
import os
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from binlog.errors import CorruptError
from binlog.format.commitlog.key_index import (
    ENTRY_COUNT,
    KEY_INDEX_ENTRY,
    KEY_INDEX_HEADER,
    KEY_INDEX_SLOT,
    SLOT_COUNT,
    key_hash,
    key_index_bytes,
)
from binlog.format.commitlog.names import is_index_name
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


@dataclass(frozen=True, slots=True)
class KeyIndexSize:
    """How many slots and entries each file has; RocketMQ's unless told."""

    slots: int = SLOT_COUNT
    entries: int = ENTRY_COUNT

    @property
    def file_bytes(self) -> int:
        """How long a file is."""
        return key_index_bytes(self.slots, self.entries)


class KeyIndexFile:
    """One file.  One thread at a time may put; any may find."""

    def __init__(self, directory_fd: int, folder: str, name: str, size: KeyIndexSize, *, new: bool) -> None:
        """Open it, or make it.  Raises: CorruptError where it has another size; AccessError, FullError."""
        self.name = name
        self.path = os.path.join(folder, name)
        self._size = size
        self._directory_fd = directory_fd
        if new:
            self._fd = create_file(directory_fd, name, self.path, mode=None)
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
        if not new and found != self._size.file_bytes:
            raise CorruptError(self.path, 0, "file_bytes", f"the file has {found} bytes, not {self._size.file_bytes}")
        try:
            with own_errors(self.path, "sizing the file"):
                os.ftruncate(self._fd, self._size.file_bytes)
            allocate(self._fd, 0, self._size.file_bytes, self.path)  # a store to a page without a block is SIGBUS
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
        return self.header["entry_count"] >= self._size.entries

    def put(self, keys: memoryview) -> int:
        """Put keys, as a Walk has them; how many were, fewer where the file is full."""
        view = ffi.from_buffer("int64_t[]", keys)
        map_ = self._mapping.address()
        return int(lib.binlog_key_index_put(map_, self._size.slots, self._size.entries, view, len(keys) // 3))

    def find(self, hash_: int, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Where messages lie whose key has this hash and which were stored within these times, newest first.

        Other keys may have the hash, so the messages must be looked at.
        """
        header = self.header
        count = header["entry_count"]
        slot_at = KEY_INDEX_HEADER.size + hash_ % self._size.slots * KEY_INDEX_SLOT.size
        entry = KEY_INDEX_SLOT.unpack(self._mapping.read(KEY_INDEX_SLOT.size, slot_at), 0)["newest"]
        base = KEY_INDEX_HEADER.size + self._size.slots * KEY_INDEX_SLOT.size
        while 0 < entry < count:
            data = self._mapping.read(KEY_INDEX_ENTRY.size, base + entry * KEY_INDEX_ENTRY.size)
            found = KEY_INDEX_ENTRY.unpack(data, 0)
            # Seconds are rounded down, so the message was stored within this one.
            stored_ms = header["begin_ms"] + found["seconds"] * 1000
            if found["key_hash"] == hash_ and begin_ms < stored_ms + 1000 and stored_ms <= end_ms:
                yield found["offset"]
            if found["previous"] >= entry:
                return  # a chain leads to older entries only
            entry = found["previous"]

    def flush(self) -> None:
        """Sync it.  Raises: PoisonedError."""
        sync(self._fd, self.path)

    def remove(self) -> None:
        """Remove its name, and close it."""
        remove_file(self._directory_fd, self.name, self.path)
        self.close()

    def close(self) -> None:
        """Unmap it."""
        self._mapping.close()
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class KeyIndex:
    """The files in `folder`, by when they were made."""

    def __init__(self, folder: str, size: KeyIndexSize) -> None:
        self._folder = folder
        self._size = size
        self._directory_fd = open_directory(folder)
        self._files: tuple[KeyIndexFile, ...] = ()

    def load(self, *, believed_ms: int | None) -> int | None:
        """Open what is there; when the first message was stored whose key is to be put again, None where none is.

        believed_ms: files with messages stored after that are removed, for what they say may not have come to the disk;
        None believes all.
        """
        again_ms: int | None = None
        with own_errors(self._folder, "listing the folder"):
            names = sorted(name for name in os.listdir(self._folder) if is_index_name(name))
        for name in names:
            file = KeyIndexFile(self._directory_fd, self._folder, name, self._size, new=False)
            if again_ms is not None or (believed_ms is not None and file.header["end_ms"] > believed_ms):
                again_ms = file.header["begin_ms"] if again_ms is None else again_ms
                file.remove()
            else:
                self._files = (*self._files, file)
        sync_directory(self._directory_fd, self._folder)
        return again_ms

    @property
    def end_offset(self) -> int:
        """Where the last message lies that it has; -1 for none."""
        return max((file.header["end_offset"] for file in self._files if file.header["entry_count"] > 1), default=-1)

    def put(self, keys: memoryview) -> None:
        """Put keys, as a Walk has them, in a new file where the last one is full; not those of messages it has."""
        known = bisect_right(range(len(keys) // 3), self.end_offset, key=lambda number: keys[3 * number + 1])
        keys = keys[3 * known :]
        while keys:
            if not self._files or self._files[-1].full:
                self._begin()
            done = self._files[-1].put(keys)
            keys = keys[3 * done :]

    def _begin(self) -> None:
        if self._files:
            self._files[-1].flush()
        now = dt.datetime.now(dt.UTC)
        while (name := f"{now:%Y%m%d%H%M%S}{now.microsecond // 1000:03d}") in {file.name for file in self._files}:
            now += dt.timedelta(milliseconds=1)
        self._files = (*self._files, KeyIndexFile(self._directory_fd, self._folder, name, self._size, new=True))

    def find(self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int = 2**62, count: int = 64) -> list[int]:
        """Where messages lie that may have the key, stored within these times: so many at most, newest first."""
        hash_ = key_hash(topic, key)
        found: list[int] = []
        for file in reversed(self._files):
            header = file.header
            if header["entry_count"] <= 1 or header["begin_ms"] > end_ms:
                continue
            if header["end_ms"] < begin_ms:
                break
            for offset in file.find(hash_, begin_ms, end_ms):
                found.append(offset)
                if len(found) == count:
                    return found
        return found

    def flush(self) -> None:
        """Sync the last file; those before were, when they were full.  Raises: PoisonedError."""
        if self._files:
            self._files[-1].flush()

    def remove_before(self, log_start: int) -> None:
        """Remove files all of whose messages are no more in the commit log; never the last one."""
        while len(self._files) > 1 and self._files[0].header["end_offset"] < log_start:
            self._files[0].remove()
            self._files = self._files[1:]
        sync_directory(self._directory_fd, self._folder)

    def close(self) -> None:
        """Unmap all files."""
        for file in self._files:
            file.close()
        fd, self._directory_fd = self._directory_fd, -1
        if fd >= 0:
            os.close(fd)
