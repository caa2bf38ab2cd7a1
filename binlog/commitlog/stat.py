"""What a store consists of, at one moment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass

from binlog.commitlog.files.files_reader import FilesReader
from binlog.commitlog.indexes.key_lookup import KeyIndexReader, slots_of
from binlog.commitlog.read.store_reader import StoreReader, check_is_store
from binlog.commitlog.recovery.store_state import look
from binlog.errors import CorruptError, NotFoundError
from binlog.format.commitlog.indexes import KEY_INDEX_HEADER
from binlog.format.commitlog.names import COMMIT_LOG_FOLDER, INDEX_FOLDER, QUEUES_FOLDER
from binlog.format.commitlog.store_files import StoreCheckpoint
from binlog.storage.directory import Directory


@dataclass(frozen=True, kw_only=True)
class StoreFileStat:
    """A file of the commit log.

    offset: where it starts.  first_store_ms: when its first message was stored; None where it has none.
    """

    path: str
    offset: int
    file_bytes: int
    disk_bytes: int
    first_store_ms: int | None


@dataclass(frozen=True, kw_only=True)
class QueueStat:
    """A queue of a topic, of the messages that are still in the commit log.

    first_index, next_index: the queue offsets of the first one and of the one that comes.
    first_offset, last_offset: where in the commit log the first and the last one lie; first_store_ms, last_store_ms:
    when they were stored.  None without any.
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
        """How many there are."""
        return self.next_index - self.first_index


@dataclass(frozen=True, kw_only=True)
class KeyIndexStat:
    """A file of the key index: how many keys it has, and when its first and last message were stored, and where."""

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

    first_offset: where the commit log starts.  readable_end: up to where readers may read it, with sync flush up to
        where it is on the disk; None where its owner does not tell.
    owned: a process has the store; owner: a text that names it, None where that cannot be known.
    clean: nobody has it, and who had it stopped as they should.
    checkpoint: up to which store times log, queues and index were synced; None where there is none.
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
        """The messages of all queues: all but those of transactions that were not committed."""
        return sum(queue.message_count for queue in self.queues)

    @property
    def disk_bytes(self) -> int:
        """What all of it takes on the disk."""
        parts: list[StoreFileStat | QueueStat | KeyIndexStat] = [*self.files, *self.queues, *self.key_index]
        return sum(part.disk_bytes for part in parts)


def stat_store(path: str | os.PathLike[str], *, key_slots: int | None = None) -> StoreStat:
    """What the store in a folder consists of.  Reads a few messages of each queue, takes no lock.

    key_slots: as check_store has it.
    Raises: AccessError, CorruptError; NotFoundError where the folder is no store.
    """
    path = os.path.abspath(path)
    with closing(Directory(path)) as directory:
        state = look(directory)
    check_is_store(path)
    slots = slots_of(key_slots, state.news)
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
                continue  # retention removed it since the listing
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
    """What all files of a folder take on the disk."""
    files, total = FilesReader(folder), 0
    try:
        for offset in files.offsets:
            with suppress(NotFoundError):  # retention removed it since the listing
                total += files.disk_bytes(offset)
    finally:
        files.close()
    return total


def _store_ms(reader: StoreReader, offset: int | None) -> int | None:
    """When the message at an offset was stored; None where there is none, and where it is damaged."""
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
