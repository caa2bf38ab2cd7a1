"""A pool of buffers in shared memory, to which messages are appended before they reach a file.

An append to a buffer does not wait for the page cache.  If the process dies, the next process that opens the store
finds the buffers and recovers them.  Messages from an earlier use of a buffer do no harm, because each message contains
its offset in the commit log.
"""

from __future__ import annotations

import os
import threading

from binlog.errors import BinlogError
from binlog.format.commitlog.store_files import HEAD_BYTES, POOL_BUFFER, pack_head, parse_head
from binlog.storage.directory import Directory
from binlog.storage.failures import own_errors
from binlog.storage.file_access import access_beside
from binlog.storage.mapping import SharedBuffer, shared_names


class PoolBuffer:
    """A buffer of a pool, for one file at a time.  offset: of that file; None if the buffer is free."""

    def __init__(self, pool: TransientStorePool, memory: SharedBuffer, file_bytes: int) -> None:
        self._pool = pool
        self._memory = memory
        self._store = memory.write
        self._file_bytes = file_bytes
        self.offset = parse_head(memory.read(POOL_BUFFER.size, 0), file_bytes=file_bytes)

    def begin(self, offset: int) -> None:
        """Assign the buffer to the file that starts at `offset`."""
        self._memory.write(pack_head(offset=offset, file_bytes=self._file_bytes), 0)
        self.offset = offset

    def write(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        """Store all of `data` at `offset` of the file."""
        self._store(data, HEAD_BYTES + offset)

    def view(self, start: int, stop: int) -> memoryview:
        """Return the bytes of the file from `start` up to `stop`, valid until the buffer is given back."""
        return self._memory.view(HEAD_BYTES + start, HEAD_BYTES + stop)

    def give_back(self) -> None:
        """Return the buffer to its pool; the file has all of its bytes."""
        self._memory.write(bytes(POOL_BUFFER.size), 0)
        self.offset = None
        self._pool.take_back(self)

    def remove(self) -> None:
        """Free the shared memory."""
        self._memory.remove()
        self._memory.close()


class TransientStorePool:
    """A pool of `count` buffers for the store in a folder, each as large as a file of its commit log.

    directory: of the store; the names of the buffers contain its device and inode.
    If shared memory has no room, the pool has fewer buffers: a file without one is appended to through its mapping.
    """

    def __init__(self, directory: Directory, file_bytes: int, count: int) -> None:
        status = os.fstat(directory.fd)
        self._prefix = f"binlog-pool-{status.st_dev:x}-{status.st_ino:x}-"
        with own_errors("the store's folder", "reading the owner of its files"):
            self._access = access_beside(directory.fd)
        self._file_bytes = file_bytes
        self._count = count
        self._free: list[PoolBuffer] = []
        self._mutex = threading.Lock()

    def remnants(self) -> list[PoolBuffer]:
        """Return the buffers that a dead process left, sorted by file; the caller removes each."""
        found = []
        for name in shared_names(self._prefix):
            buffer = PoolBuffer(self, SharedBuffer(name, HEAD_BYTES + self._file_bytes, self._access), self._file_bytes)
            if buffer.offset is None:
                buffer.remove()
            else:
                found.append(buffer)
        return sorted(found, key=lambda buffer: buffer.offset or 0)

    def fill(self) -> int:
        """Create the buffers; return how many there are."""
        for number in range(self._count):
            try:
                memory = SharedBuffer(f"{self._prefix}{number}", HEAD_BYTES + self._file_bytes, self._access)
            except BinlogError:
                break  # no room; fewer buffers will do
            self._free.append(PoolBuffer(self, memory, self._file_bytes))
        return len(self._free)

    def borrow(self, offset: int) -> PoolBuffer | None:
        """Return a buffer for the file that starts at `offset`; None if all are in use."""
        with self._mutex:
            if not self._free:
                return None
            buffer = self._free.pop()
        buffer.begin(offset)
        return buffer

    def take_back(self, buffer: PoolBuffer) -> None:
        """Accept a buffer that is no longer in use."""
        with self._mutex:
            self._free.append(buffer)

    def close(self) -> None:
        """Free all buffers but those in use, whose bytes have not reached their files."""
        with self._mutex:
            while self._free:
                self._free.pop().remove()
