"""The commit log: all messages of a store, of all topics, in the order of their appends.

Invariant: only the thread that holds the guard appends and assigns queue offsets and store times.  So within the log
the offsets of each queue rise by one, and store times never decrease.  An exception that interrupts an append half-way
poisons the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from binlog._codec import pack_messages, stamp_messages
from binlog.commitlog.append.message import Appended, Message
from binlog.commitlog.files.mapped_file import Buffer, MappedFile
from binlog.commitlog.files.mapped_file_queue import MappedFileQueue
from binlog.errors import ClosedError, CorruptError, FullError, NotFoundError
from binlog.format.commitlog.compiled import Walk, WalkStop, walk
from binlog.format.commitlog.message import (
    BLANK,
    HEAD_BYTES,
    StoredMessage,
    parse_message_at,
    parse_store_ms,
)
from binlog.format.commitlog.message_parts import Host, pack_host
from binlog.storage.file_pool import FilePool

FILE_BYTES = 1 << 30
BODY_BYTES_MAX = 4 << 20
_WALK_BYTES = 1 << 20
LOCAL_HOST = Host.parse("127.0.0.1:10911")


class CommitLog:
    """The messages in a folder, in files of `file_bytes` each.

    store_host: written into each message.  record_crc: whether each message gets a CRC of the whole message.
    body_bytes_max: the largest body of a message; may be changed at any time.
    clock: returns the time in seconds since 1970 UTC.
    buffer: as for MappedFileQueue.
    """

    def __init__(
        self,
        files: FilePool,
        folder: str,
        file_bytes: int = FILE_BYTES,
        *,
        store_host: Host = LOCAL_HOST,
        record_crc: bool = True,
        body_bytes_max: int = BODY_BYTES_MAX,
        clock: Callable[[], float] = time.time,
        buffer: Callable[[int], Buffer | None] = lambda offset: None,
    ) -> None:
        self.body_bytes_max = body_bytes_max
        self.files = MappedFileQueue(folder, file_bytes, buffer=buffer, files=files)
        self.queue_offsets: dict[tuple[str, int], int] = {}
        self._store_host = store_host
        self._host = pack_host(store_host)
        self._record_crc = record_crc
        self._clock = clock
        self._store_ms = 0
        self._guard = files.guard
        self._change = files.change
        self._stopped = False

    @property
    def max_offset(self) -> int:
        """Return the offset at which the next message starts, or the blank before it."""
        return self.files.wrote_where

    @property
    def flushed_ms(self) -> int:
        """Return a time up to which all stored messages are flushed; 0 if that is not known."""
        return self.files.flushed_ms

    def resume_from(self, store_ms: int) -> None:
        """Start from the store time of the last recovered message: all are flushed, and later ones are no older."""
        self._store_ms = self.files.flushed_ms = store_ms

    def append(self, messages: Sequence[Message], *, body_bytes_max: int | None = None) -> Appended:
        """Append messages together, in one file; they are durable once the log is flushed up to `next_offset`.

        body_bytes_max: overrides the limit of the log.
        Raises: ValueError for an empty sequence or a part that is too long; FullError if the messages do not fit in a
        file or the disk is full; ClosedError.
        """
        if not messages:
            raise ValueError("no message to append")
        messages = list(messages)
        limit = self.body_bytes_max if body_bytes_max is None else body_bytes_max
        data, starts, runs = pack_messages(messages, self._host, self._record_crc, limit)
        with self._guard, self._change:
            if self._stopped:
                raise ClosedError(f"{self.files.folder} is closed")
            file = self._file_for(len(data))
            offset = file.offset + file.wrote
            store_ms = self._store_ms = max(int(self._clock() * 1000), self._store_ms)
            queue_offsets: list[int] = []
            after: dict[tuple[str, int], int] = {}
            for queue, queued, count in runs:
                start = after.get(queue, self.queue_offsets.get(queue, 0)) if queued else 0
                if queued:
                    after[queue] = start + count
                stamp_messages(data, starts, len(queue_offsets), count, start, offset, store_ms, self._record_crc)
                queue_offsets += range(start, start + count) if queued else [0] * count
            file.append(data)
            file.store_ms = store_ms
            self.queue_offsets.update(after)
        offsets = [offset] if len(messages) == 1 else _offsets(offset, starts)
        return Appended(offset, len(data), store_ms, offsets, queue_offsets, self._store_host)

    def _file_for(self, size: int) -> MappedFile:
        """Return the file for an append of `size` bytes: the next one if they do not fit in the last."""
        file = self.files.last_file()
        if size + BLANK.size <= file.file_bytes - file.wrote:
            return file
        if size + BLANK.size > file.file_bytes:
            limit = file.file_bytes - BLANK.size
            raise FullError(
                f"messages of {size} bytes do not fit in a file, which has room for {limit}", limit=limit, size=size
            )
        if file.wrote:
            file.fill(_marker(file, file.wrote))
        return self.files.last_file()

    def recover_buffer(self, buffer: Buffer, offset: int) -> None:
        """Complete the file at `offset` from the buffer that a dead process left; recovery calls this first.

        A later file may be complete already, because it had no buffer.
        """
        file = self.files.find(offset)
        if file is None or file.offset != offset:
            return  # it was removed
        end = offset
        for stop, _ in self.walk_range(offset, file.end, check=True):
            end = stop
        if end == file.end:
            return
        file.move(end - offset)
        size = _WALK_BYTES
        while not file.full:
            position = file.wrote
            data = bytes(buffer.view(position, min(position + size, file.file_bytes)))
            found = walk(data, offset + position, check=True)
            file.append(data[: found.consumed])
            marker = _marker(file, file.wrote)
            if found.stop is WalkStop.BLANK and data[found.consumed :].startswith(marker):
                file.fill(marker)
            elif found.stop is WalkStop.SHORT and position + size < file.file_bytes:
                size = _WALK_BYTES if found.consumed else 2 * size
            elif found.stop is not WalkStop.END or not data:
                return

    def read(self, offset: int) -> StoredMessage:
        """Return the message at an offset.

        Raises: NotFoundError if the offset is below or above all messages; CorruptError if no message starts there.
        """
        file, position = self._locate(offset)
        head = file.read(BLANK.size, position)
        size = int.from_bytes(head[:4], "big")
        return parse_message_at(file.read(size, position), offset, file.path, position)

    def store_ms(self, offset: int) -> int:
        """Return the store time of the message at an offset, without comparing its CRCs.  Raises: as `read`."""
        file, position = self._locate(offset)
        return parse_store_ms(file.read(HEAD_BYTES, position), offset, file.path, position)

    def _locate(self, offset: int) -> tuple[MappedFile, int]:
        file = self.files.find(offset)
        if file is None or offset >= file.offset + file.committed:
            raise NotFoundError(f"{self.files.folder}: no message at {offset}")
        return file, offset - file.offset

    def commit(self, offset: int) -> None:
        """Write the bytes at an offset from the buffer to the file, if they are not there yet.

        Raises: FullError, PoisonedError.
        """
        file = self.files.find(offset)
        while file is not None and offset >= file.offset + file.committed and self.files.commit():
            pass

    def walk_range(self, offset: int, limit: int, *, check: bool) -> Iterator[tuple[int, Walk]]:
        """Walk through the messages from an offset up to `limit`, some megabytes at a time.

        Yields the end offset of each walk, and the walk.  Ends early at bytes that are not a message.
        check: compare the CRCs.
        """
        size = _WALK_BYTES
        while offset < limit and (file := self.files.find(offset)) is not None:
            data = file.read(min(size, limit - offset), offset - file.offset)
            found = walk(data, offset, check=check)
            offset += found.consumed
            if found.stop is WalkStop.BLANK and _is_blank(file, offset):
                offset = file.end
            elif found.stop is WalkStop.SHORT and len(data) == size:
                size = _WALK_BYTES if found.consumed else 2 * size
            elif found.stop is not WalkStop.END or not data:
                limit = offset
            if found.consumed or offset == file.end:
                yield offset, found

    def scan(self, offset: int) -> Iterator[StoredMessage]:
        """Yield the messages from an offset on, up to the first bytes that are not a message."""
        while (file := self.files.find(offset)) is not None:
            if _is_blank(file, offset):
                offset = file.end
                continue
            try:
                message = self.read(offset)
            except (CorruptError, NotFoundError):
                return
            yield message
            offset += message.message_bytes

    def stop(self) -> None:
        """Refuse further appends; waits for an append in progress, so that no file is unmapped under it.

        If it raises PoisonedError, appends are refused too.
        """
        with self._guard:
            self._stopped = True

    def close(self) -> None:
        """Unmap the files."""
        self.files.close()


def _offsets(offset: int, starts: bytes) -> list[int]:
    """Return the log offsets of messages that were packed together and start at `offset`."""
    return [offset + start for start in memoryview(starts).cast("I").tolist()[:-1]]


def _is_blank(file: MappedFile, offset: int) -> bool:
    """Return whether the blank that ends the file is at an offset."""
    position = offset - file.offset
    return file.read(BLANK.size, position) == _marker(file, position)


def _marker(file: MappedFile, position: int) -> bytes:
    """Return the blank that fills the rest of a file."""
    return BLANK.pack({"rest_bytes": file.file_bytes - position})
