"""Memory that messages are appended to before they are written to a file, so that no append waits for the page cache.

It is shared memory: what a process that died had not written yet, the next one that opens the store finds there.  What
an earlier use of a buffer left is no danger: each message says where in the commit log it lies.
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
    """A buffer of a pool, for one file at a time.  offset: of that file; None while it has none."""

    def __init__(self, pool: TransientStorePool, memory: SharedBuffer, file_bytes: int) -> None:
        self._pool = pool
        self._memory = memory
        self._store = memory.write
        self._file_bytes = file_bytes
        self.offset = parse_head(memory.read(POOL_BUFFER.size, 0), file_bytes=file_bytes)

    def begin(self, offset: int) -> None:
        """Have it be the buffer of the file that starts there."""
        self._memory.write(pack_head(offset=offset, file_bytes=self._file_bytes), 0)
        self.offset = offset

    def write(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        """Store all of `data` at `offset` of the file."""
        self._store(data, HEAD_BYTES + offset)

    def view(self, start: int, stop: int) -> memoryview:
        """What lies from `start` to before `stop` of the file; not to be kept."""
        return self._memory.view(HEAD_BYTES + start, HEAD_BYTES + stop)

    def give_back(self) -> None:
        """It is not needed any more: all that is in it is in the file."""
        self._memory.write(bytes(POOL_BUFFER.size), 0)
        self.offset = None
        self._pool.take_back(self)

    def remove(self) -> None:
        """Give the memory back to the machine."""
        self._memory.remove()
        self._memory.close()


class TransientStorePool:
    """So many buffers for the store in a folder, each as large as a file of its commit log.

    directory: the store's; its device and inode are in the buffers' names.
    Where shared memory has no room for one, there is one fewer: without a buffer, messages go to the file's mapping.
    """

    def __init__(self, directory: Directory, file_bytes: int, count: int) -> None:
        status = os.fstat(directory.fd)
        self._prefix = f"binlog-pool-{status.st_dev:x}-{status.st_ino:x}-"
        with own_errors("the store's folder", "asking whose its files are"):
            self._access = access_beside(directory.fd)
        self._file_bytes = file_bytes
        self._count = count
        self._free: list[PoolBuffer] = []
        self._mutex = threading.Lock()

    def left(self) -> list[PoolBuffer]:
        """What a process that died has left, in the order of their files; each is to be removed."""
        found = []
        for name in shared_names(self._prefix):
            buffer = PoolBuffer(self, SharedBuffer(name, HEAD_BYTES + self._file_bytes, self._access), self._file_bytes)
            if buffer.offset is None:
                buffer.remove()
            else:
                found.append(buffer)
        return sorted(found, key=lambda buffer: buffer.offset or 0)

    def fill(self) -> int:
        """Make the buffers; how many there are."""
        for number in range(self._count):
            try:
                memory = SharedBuffer(f"{self._prefix}{number}", HEAD_BYTES + self._file_bytes, self._access)
            except BinlogError:
                break  # as the class says
            self._free.append(PoolBuffer(self, memory, self._file_bytes))
        return len(self._free)

    def borrow(self, offset: int) -> PoolBuffer | None:
        """A buffer for the file that starts at `offset`; None where all are in use."""
        with self._mutex:
            if not self._free:
                return None
            buffer = self._free.pop()
        buffer.begin(offset)
        return buffer

    def take_back(self, buffer: PoolBuffer) -> None:
        """A buffer that is not in use any more."""
        with self._mutex:
            self._free.append(buffer)

    def close(self) -> None:
        """Give all memory back to the machine but that of buffers in use, whose bytes are not in their files."""
        with self._mutex:
            while self._free:
                self._free.pop().remove()
