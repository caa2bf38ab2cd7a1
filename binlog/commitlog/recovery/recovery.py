"""Making a store whole again, after a clean stop as after a crash.

The commit log is gone through from a file of which all before is known to be good; it ends before the first bytes that
are no message, and what lies behind is erased.  The queues are told of all these messages again, and end where it does.
"""

from __future__ import annotations

from collections.abc import Callable

from binlog.commitlog.append.commit_log import CommitLog
from binlog.commitlog.files.mapped_file import MappedFile
from binlog.commitlog.files.transient_pool import TransientStorePool
from binlog.commitlog.indexes.consume_queue import ConsumeQueues
from binlog.commitlog.indexes.dispatch import Dispatcher, QueuesFlushing
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
    queues_flushing: QueuesFlushing,
    pool: TransientStorePool,
    *,
    crashed: bool,
) -> None:
    """Recover a store that nobody uses yet.

    crashed: the process that had it before did not stop cleanly; then the log is gone through from a file whose first
    message was stored before the checkpoint.  Otherwise the last three files are.
    """
    log.files.load()
    left = pool.left()
    for buffer in left:
        log.adopt(buffer, buffer.offset or 0)
    queues.load()
    checkpoint = queues_flushing.read()
    if crashed:
        queues_flushing.forget()  # another crash, in the middle of this, leaves what it says of queues and index untrue
    recovery_ms = checkpoint.recovery_ms
    again_ms = index.load(believed_ms=recovery_ms if crashed else None, removing=queues_flushing.forget)
    if again_ms is None and index.empty and checkpoint.index_ms > 0:
        again_ms = 0  # somebody removed its files
        queues_flushing.forget()
    start = told_from = _start_after_crash(log, recovery_ms) if crashed else _start_after_clean_stop(log)
    for key, queue in queues.items():
        queue.recover(start if crashed else None)
        if crashed:
            queue.truncate(log.files.max_offset, _leads_there(log, key))
    anew = bool(log.files.files) and not any(queue.max_index for queue in queues)
    changed = crashed or anew or again_ms is not None
    if again_ms is not None:
        _put_keys(log, index, _start_after_crash(log, again_ms - 1), start)
    if anew:
        told_from = log.files.min_offset  # somebody removed the files
        queues_flushing.forget()
    if not _tell(log, queues, dispatcher, told_from, again=crashed):
        changed = True
        queues_flushing.forget()
        for queue in queues:
            queue.clear()
        _tell(log, queues, dispatcher, log.files.min_offset, anew=True)
    end = dispatcher.offset
    if end < start:
        text = "no whole message lies here, and others follow: queues cannot be made anew, and the log is left as it is"
        raise CorruptError(log.files.folder, end, "message", text)
    if log.files.files:
        if crashed:
            log.files.write_anew(start, end)
        log.files.truncate(end)
    for buffer in left:
        buffer.remove()
    if not index.ends_with(end, _stored_ms(log)):
        changed = True
        queues_flushing.forget()
        index.truncate(end, _stored_ms(log))
        # RocketMQ puts no keys of messages that lie before those it cut off, and neither did telling them just now.
        _put_keys(log, index, index.end_offset, end)
    for key, queue in queues.items():
        queue.truncate(end, _leads_there(log, key))  # RocketMQ leaves units of messages that it cut off
        queue.correct_min_index(log.files.min_offset)
    log.queue_offsets = {key: queue.max_index for key, queue in queues.items()}
    log.recovered(dispatcher.store_ms)
    if changed:
        queues_flushing.flush(0)


def _tell(
    log: CommitLog,
    queues: ConsumeQueues,
    dispatcher: Dispatcher,
    start: int,
    *,
    again: bool = False,
    anew: bool = False,
) -> bool:
    """Tell of all messages from an offset on; False where a queue lacks some that lie before.

    That is so where somebody removed files of it.  again: after a crash, remove the units of these messages first,
    because a power cut may have left half of any.  anew: no queue has any, so each begins with what comes first.
    """
    dispatcher.offset = start
    ends = {queue_id: queue.max_index for queue_id, queue in queues.items()}
    uncut = dict(queues.items()) if again else {}
    for stop, found in log.walks(start, log.files.max_offset, check=True):
        for run in found.runs:
            queue_id = run.topic.decode("utf-8", "replace"), run.queue_id
            end = ends.get(queue_id, 0)
            if run.first_queue_offset > end and not anew:
                return False
            if (queue := uncut.pop(queue_id, None)) is not None:
                queue.cut(run.first_queue_offset)
            ends[queue_id] = max(end, run.first_queue_offset + len(run.units) // UNIT_BYTES)
        dispatcher.tell(found)
        dispatcher.offset = stop
    return True


def _leads_there(log: CommitLog, key: tuple[str, int]) -> Callable[[int, QueueUnit], bool]:
    """Whether the message of a queue's offset lies where a unit says, or it was removed."""

    def leads_there(index: int, unit: QueueUnit) -> bool:
        if unit.offset < log.files.min_offset:
            return True
        try:
            message = log.read(unit.offset)
        except (CorruptError, NotFoundError):
            return False
        return (message.topic, message.queue_id, message.queue_offset) == (*key, index)

    return leads_there


def _put_keys(log: CommitLog, index: KeyIndex, start: int, end: int) -> None:
    """Put the keys of all messages between two offsets; in a file with damage, of those before that."""
    for file in log.files:
        if file.offset < end and file.end > start:
            for _, found in log.walks(file.offset, min(file.end, end), check=False):
                index.put(found.keys)


def _stored_ms(log: CommitLog) -> Callable[[int, int], int | None]:
    """When the message at an offset was stored, if it has a key of this hash."""

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
    """The last file whose first message was stored before the checkpoint, or the first file."""
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
