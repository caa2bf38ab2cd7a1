"""Statistics of a store at one moment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass

from binlog.commitlog.files.files_reader import FilesReader
from binlog.commitlog.indexes.key_lookup import KeyIndexReader, key_slots_of
from binlog.commitlog.read.store_reader import StoreReader, check_is_store
from binlog.commitlog.recovery.store_state import read_state
from binlog.errors import CorruptError, NotFoundError
from binlog.format.commitlog.indexes import KEY_INDEX_HEADER
from binlog.format.commitlog.names import COMMIT_LOG_FOLDER, INDEX_FOLDER, QUEUES_FOLDER
from binlog.format.commitlog.store_files import StoreCheckpoint
from binlog.storage.directory import Directory


@dataclass(frozen=True, kw_only=True)
class StoreFileStat:
    """A file of the commit log.

    offset: of its start.  first_store_ms: the store time of its first message; None if it has none.
    """

    path: str
    offset: int
    file_bytes: int
    disk_bytes: int
    first_store_ms: int | None


@dataclass(frozen=True, kw_only=True)
class QueueStat:
    """A queue of a topic, with the messages that are still in the commit log.

    first_index, next_index: the queue offsets of the first message and of the next one.
    first_offset, last_offset: the log offsets of the first and the last message; first_store_ms, last_store_ms: their
    store times.  None if there is no message.
    """

    topic: str
    queue_id: int
    first_index: int
    next_index: int
    first_offset: int | None
    last_offset: int | None
    first_store_ms: int | None
    last_store_ms: int | None
    disk_bytes: int

    @property
    def message_count(self) -> int:
        """Return the number of messages."""
        return self.next_index - self.first_index


@dataclass(frozen=True, kw_only=True)
class KeyIndexStat:
    """A file of the key index: its number of keys, and store time and log offset of its first and last message."""

    path: str
    key_count: int
    begin_ms: int
    end_ms: int
    begin_offset: int
    end_offset: int
    disk_bytes: int


@dataclass(frozen=True, kw_only=True)
class StoreStat:
    """A store, as it is on the disk.

    first_offset: the start of the commit log.  readable_end: the end of the messages that readers may read, with
        Flush.SYNC the synced ones; None if the owner publishes no sidecar.
    owned: a process has the store open for writing.  owner: a text that names it, None if that cannot be known.
    clean: no process has the store, and its last owner stopped cleanly.
    checkpoint: the store times up to which log, queues and index were synced; None if there is no checkpoint.
    """

    path: str
    first_offset: int
    readable_end: int | None
    owned: bool
    owner: str | None
    clean: bool
    checkpoint: StoreCheckpoint | None
    files: tuple[StoreFileStat, ...]
    queues: tuple[QueueStat, ...]
    key_index: tuple[KeyIndexStat, ...]

    @property
    def message_count(self) -> int:
        """Return the messages of all queues: all but those of uncommitted transactions."""
        return sum(queue.message_count for queue in self.queues)

    @property
    def disk_bytes(self) -> int:
        """Return how many bytes of disk space the store takes."""
        parts: list[StoreFileStat | QueueStat | KeyIndexStat] = [*self.files, *self.queues, *self.key_index]
        return sum(part.disk_bytes for part in parts)


def stat_store(path: str | os.PathLike[str], *, key_slots: int | None = None) -> StoreStat:
    """Return the statistics of the store in a folder.  Reads a few messages of each queue, and takes no lock.

    key_slots: as for check_store.
    Raises: AccessError, CorruptError; NotFoundError if the folder is not a store.
    """
    path = os.path.abspath(path)
    with closing(Directory(path)) as directory:
        state = read_state(directory)
    check_is_store(path)
    slots = key_slots_of(key_slots, state.reader_state)
    with StoreReader(path) as reader:
        first_offset, readable_end = reader.log_range()
        return StoreStat(
            path=path,
            first_offset=first_offset,
            readable_end=readable_end,
            owned=state.owned,
            owner=state.owner,
            clean=state.clean,
            checkpoint=state.checkpoint,
            files=tuple(_files(os.path.join(path, COMMIT_LOG_FOLDER), reader)),
            queues=tuple(_queue(path, reader, topic, queue_id) for topic, queue_id in reader.queues()),
            key_index=tuple(_key_index(os.path.join(path, INDEX_FOLDER), slots)),
        )


def _files(folder: str, reader: StoreReader) -> Iterator[StoreFileStat]:
    files = FilesReader(folder)
    try:
        for offset in files.offsets:
            try:
                yield StoreFileStat(
                    path=files.path_of(offset),
                    offset=offset,
                    file_bytes=files.file_bytes(offset),
                    disk_bytes=files.disk_bytes(offset),
                    first_store_ms=_store_ms(reader, offset),
                )
            except NotFoundError:
                continue  # retention removed it after the listing
    finally:
        files.close()


def _queue(path: str, reader: StoreReader, topic: str, queue_id: int) -> QueueStat:
    indexes = reader.queue_range(topic, queue_id)
    ends = [offset for at in {0, -1} for _, offset in reader.log_offsets(topic, queue_id, indexes[at:][:1])]
    first, last = (min(ends), max(ends)) if ends else (None, None)
    return QueueStat(
        topic=topic,
        queue_id=queue_id,
        first_index=indexes.start,
        next_index=indexes.stop,
        first_offset=first,
        last_offset=last,
        first_store_ms=_store_ms(reader, first),
        last_store_ms=_store_ms(reader, last),
        disk_bytes=_disk_bytes(os.path.join(path, QUEUES_FOLDER, topic, str(queue_id))),
    )


def _disk_bytes(folder: str) -> int:
    """Return how many bytes of disk space the files of a folder take."""
    files, total = FilesReader(folder), 0
    try:
        for offset in files.offsets:
            with suppress(NotFoundError):  # retention removed it after the listing
                total += files.disk_bytes(offset)
    finally:
        files.close()
    return total


def _store_ms(reader: StoreReader, offset: int | None) -> int | None:
    """Return the store time of the message at an offset; None if there is none, or it is damaged."""
    if offset is None:
        return None
    try:
        return reader.read(offset).store_ms
    except (NotFoundError, CorruptError):
        return None


def _key_index(folder: str, slots: int) -> Iterator[KeyIndexStat]:
    if not os.path.isdir(folder):
        return
    index = KeyIndexReader(folder, slots)
    try:
        for file in index.files():
            header = KEY_INDEX_HEADER.unpack(file.read(KEY_INDEX_HEADER.size, 0))
            yield KeyIndexStat(
                path=file.path,
                key_count=max(header["entry_count"] - 1, 0),
                begin_ms=header["begin_ms"],
                end_ms=header["end_ms"],
                begin_offset=header["begin_offset"],
                end_offset=header["end_offset"],
                disk_bytes=file.disk_bytes,
            )
    finally:
        index.close()
