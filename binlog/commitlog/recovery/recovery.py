"""Recovery of a store, after a clean stop as after a crash.

Recovery walks through the commit log from a file before which everything is known to be good.  The log ends before the
first bytes that are not a message, and everything after that end is erased.  The walked messages are dispatched again,
and the queues end where the log ends.
"""

from __future__ import annotations

from collections.abc import Callable

from binlog.commitlog.append.commit_log import CommitLog
from binlog.commitlog.files.mapped_file import MappedFile
from binlog.commitlog.files.transient_pool import TransientStorePool
from binlog.commitlog.indexes.consume_queue import ConsumeQueues
from binlog.commitlog.indexes.dispatch import Dispatcher, IndexFlusher
from binlog.commitlog.indexes.key_index import KeyIndex
from binlog.commitlog.indexes.key_lookup import keys_of
from binlog.errors import CorruptError, NotFoundError
from binlog.format.commitlog.indexes import UNIT_BYTES, QueueUnit, key_hash, tag_hash
from binlog.format.commitlog.message_parts import TAGS, parse_properties

_FILES_AFTER_CLEAN_STOP = 3


def recover(
    log: CommitLog,
    queues: ConsumeQueues,
    index: KeyIndex,
    dispatcher: Dispatcher,
    index_flusher: IndexFlusher,
    pool: TransientStorePool,
    *,
    crashed: bool,
) -> None:
    """Recover a store before its first use.

    crashed: the last owner did not stop cleanly.  Then the walk starts at the last file whose first message was stored
    before the checkpoint.  After a clean stop it covers the last three files.
    """
    log.files.load()
    remnants = pool.remnants()
    for buffer in remnants:
        log.recover_buffer(buffer, buffer.offset or 0)
    queues.load()
    checkpoint = index_flusher.read()
    if crashed:
        index_flusher.reset()  # if this recovery crashes too, the checkpoint must not cover queues and index
    recovery_ms = checkpoint.recovery_ms
    missing_from_ms = index.load(trusted_ms=recovery_ms if crashed else None, removing=index_flusher.reset)
    if missing_from_ms is None and index.empty and checkpoint.index_ms > 0:
        missing_from_ms = 0  # a user removed the index files
        index_flusher.reset()
    start = replay_from = _start_after_crash(log, recovery_ms) if crashed else _start_after_clean_stop(log)
    for key, queue in queues.items():
        queue.recover(start if crashed else None)
        if crashed:
            queue.truncate(log.files.max_offset, _log_matcher(log, key))
    rebuild = bool(log.files.files) and not any(queue.max_index for queue in queues)
    changed = crashed or rebuild or missing_from_ms is not None
    if missing_from_ms is not None:
        _put_keys(log, index, _start_after_crash(log, missing_from_ms - 1), start)
    if rebuild:
        replay_from = log.files.min_offset  # a user removed the queue files
        index_flusher.reset()
    if not _dispatch(log, queues, dispatcher, replay_from, torn=crashed):
        changed = True
        index_flusher.reset()
        for queue in queues:
            queue.clear()
        _dispatch(log, queues, dispatcher, log.files.min_offset, rebuild=True)
    end = dispatcher.offset
    if end < start:
        text = "no whole message is here, but messages follow: queues cannot be rebuilt, and the log was not changed"
        raise CorruptError(log.files.folder, end, "message", text)
    if log.files.files:
        if crashed:
            log.files.rewrite(start, end)
        log.files.truncate(end)
    for buffer in remnants:
        buffer.remove()
    if not index.ends_with(end, _stored_ms(log)):
        changed = True
        index_flusher.reset()
        index.truncate(end, _stored_ms(log))
        # RocketMQ adds no keys of messages before those that it cut off, and the dispatch above skipped them as well.
        _put_keys(log, index, index.end_offset, end)
    for key, queue in queues.items():
        queue.truncate(end, _log_matcher(log, key))  # RocketMQ leaves the units of messages that it cut off
        queue.correct_min_index(log.files.min_offset)
    log.queue_offsets = {key: queue.max_index for key, queue in queues.items()}
    log.resume_from(dispatcher.store_ms)
    if changed:
        index_flusher.flush(0)


def _dispatch(
    log: CommitLog,
    queues: ConsumeQueues,
    dispatcher: Dispatcher,
    start: int,
    *,
    torn: bool = False,
    rebuild: bool = False,
) -> bool:
    """Dispatch all messages from an offset on; return False if a queue lacks earlier messages.

    A queue lacks some if a user removed files of it.  torn: after a crash, first drop the units of these messages,
    because a power cut may have torn any of them.  rebuild: the queues are empty, so each starts at its first message.
    """
    dispatcher.offset = start
    ends = {queue_id: queue.max_index for queue_id, queue in queues.items()}
    uncut = dict(queues.items()) if torn else {}
    for stop, found in log.walk_range(start, log.files.max_offset, check=True):
        for run in found.runs:
            queue_id = run.topic.decode("utf-8", "replace"), run.queue_id
            end = ends.get(queue_id, 0)
            if run.first_queue_offset > end and not rebuild:
                return False
            if (queue := uncut.pop(queue_id, None)) is not None:
                queue.cut(run.first_queue_offset)
            ends[queue_id] = max(end, run.first_queue_offset + len(run.units) // UNIT_BYTES)
        dispatcher.dispatch(found)
        dispatcher.offset = stop
    return True


def _log_matcher(log: CommitLog, key: tuple[str, int]) -> Callable[[int, QueueUnit], bool]:
    """Return a function: whether the message with a queue offset is where its unit says, or was removed."""

    def matches_log(index: int, unit: QueueUnit) -> bool:
        if unit.offset < log.files.min_offset:
            return True
        try:
            message = log.read(unit.offset)
        except (CorruptError, NotFoundError):
            return False
        return (message.topic, message.queue_id, message.queue_offset) == (*key, index)

    return matches_log


def _put_keys(log: CommitLog, index: KeyIndex, start: int, end: int) -> None:
    """Put the keys of all messages between two offsets; of a damaged file, of those before the damage."""
    for file in log.files:
        if file.offset < end and file.end > start:
            for _, found in log.walk_range(file.offset, min(file.end, end), check=False):
                index.put(found.keys)


def _stored_ms(log: CommitLog) -> Callable[[int, int], int | None]:
    """Return a function: the store time of the message at an offset, if it has a key with this hash."""

    def stored_ms(hash_: int, offset: int) -> int | None:
        try:
            message = log.read(offset)
        except (CorruptError, NotFoundError):
            return None
        tag = parse_properties(message.properties).get(TAGS, "")
        hashes = [key_hash(message.topic, key) for key in keys_of(message)]
        return message.store_ms if hash_ in (*hashes, tag_hash(message.topic, tag)) else None

    return stored_ms


def _start_after_clean_stop(log: CommitLog) -> int:
    files = log.files.files
    return files[-_FILES_AFTER_CLEAN_STOP:][0].offset if files else 0


def _start_after_crash(log: CommitLog, recovery_ms: int) -> int:
    """Return the start of the last file whose first message was stored before the checkpoint, or of the first file."""
    for file in reversed(log.files.files):
        store_ms = _first_store_ms(log, file)
        if store_ms is not None and store_ms <= recovery_ms:
            return file.offset
    return log.files.min_offset


def _first_store_ms(log: CommitLog, file: MappedFile) -> int | None:
    try:
        return log.read(file.offset).store_ms
    except (CorruptError, NotFoundError):
        return None
