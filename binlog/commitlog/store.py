"""A store: the commit log, its indexes and its services, opened by the one process that writes."""

from __future__ import annotations

import contextlib
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from binlog.commitlog.append.commit_log import CommitLog
from binlog.commitlog.append.flush_services import (
    CommitRealTimeService,
    FlushRealTimeService,
    FlushService,
    GroupCommitService,
)
from binlog.commitlog.append.message import Appended, Message
from binlog.commitlog.append.service import Service
from binlog.commitlog.files.transient_pool import TransientStorePool
from binlog.commitlog.indexes.consume_queue import ConsumeQueues
from binlog.commitlog.indexes.dispatch import Dispatcher, IndexFlusher
from binlog.commitlog.indexes.key_index import KeyIndex
from binlog.commitlog.indexes.key_lookup import messages_with_key
from binlog.commitlog.options import Flush, StoreOptions
from binlog.commitlog.recovery.recovery import recover
from binlog.commitlog.recovery.store_state import Sidecar, create_abort_marker, remove_abort_marker
from binlog.commitlog.recovery.survey import refuse_features, refuse_files
from binlog.commitlog.retention import Cleaner
from binlog.commitlog.waiting.delays import DELAY_MARK, DelayOffsets, Delays, park_if_delayed
from binlog.commitlog.waiting.parked_messages import RETRIES_MAX, as_retry
from binlog.commitlog.waiting.transactions import Transactions
from binlog.errors import ClosedError, FullError, GoneError, NotFoundError
from binlog.format.commitlog.indexes import QueueUnit, parse_units
from binlog.format.commitlog.message import MESSAGE_BYTES_MAX, StoredMessage
from binlog.format.commitlog.names import (
    COMMIT_LOG_FOLDER,
    INDEX_FOLDER,
    LOCK_FILE,
    QUEUES_FOLDER,
    is_parking_topic,
    is_topic,
)
from binlog.format.commitlog.store_files import ReaderState
from binlog.storage.file_pool import FilePool
from binlog.storage.handle import Handle, run_all

_DEFAULTS = StoreOptions()
_Found = TypeVar("_Found")
_QUEUE = operator.attrgetter("topic", "queue_id")
_PROPERTIES = operator.attrgetter("properties")

_COPIES_MAX = 1024
_ALWAYS_MS = 2**62
_ALLOCATION_SECONDS = 60.0


class MessageStore(Handle):
    """The store in the folder `path`, created if it is missing.  Use it as a context manager.

    Any thread of this process may use it; no other process may write to it, and a forked child must not use it.
    Opening recovers the store: every message that was durable is in it, and the queues have all messages of the log.
    Opening raises BusyError if another process has it (`.holder`), AccessError, FullError, StateError if no thread can
    be created; and, before any change, VersionError if the store has features that this engine does not know, and
    CorruptError if files are missing or have another size than the options give.

    If a signal handler raises in the middle of a change, all later changes raise PoisonedError until the store is
    reopened.  If it raises while a call waits for the disk, the messages stay appended: they are on the disk, and
    visible to readers, after the next append or `close` at the latest.

    transactions: half messages, which no consumer gets before they are committed.
    """

    kind = "store"
    lock_name = LOCK_FILE

    def __init__(self, path: str | os.PathLike[str], options: StoreOptions = _DEFAULTS) -> None:
        super().__init__(path)
        self._options = options
        self._is_synced = options.flush is Flush.SYNC
        self._half_bytes = options.file_bytes // 2
        self._valid_queues: set[tuple[str, int]] = set()  # topics and queue ids that were validated
        self._unhealthy: set[str] = set()  # services that have failed or found no room; appends check it
        if not os.path.lexists(os.path.join(self.path, LOCK_FILE)):
            self._refuse_unknown()  # before acquiring the lock creates its file
        self._acquire()
        if not self._is_synced:
            self._guard.bind(-1, 0, 0)  # so that an append does not check whether our descriptors are open

    def _refuse_unknown(self) -> None:
        refuse_features(self.path, reading=False)
        refuse_files(self.path, self._options)

    def _open(self, undoing: contextlib.ExitStack) -> None:
        self._refuse_unknown()
        options, directory = self._options, self._directory
        assert self._lock is not None
        self._lock.clear_file()  # RocketMQ writes into it when it opens a store: readers can tell the last owner
        crashed = create_abort_marker(directory)
        for folder in (COMMIT_LOG_FOLDER, QUEUES_FOLDER, INDEX_FOLDER):
            directory.make_folder(folder)
        files = FilePool(directory, self._guard)
        undoing.callback(files.close)
        self._pool = TransientStorePool(directory, options.file_bytes, options.pool_buffers)
        undoing.callback(self._pool.close)
        self._log = CommitLog(
            files,
            COMMIT_LOG_FOLDER,
            options.file_bytes,
            store_host=options.store_host,
            record_crc=options.record_crc,
            body_bytes_max=options.body_bytes_max,
            buffer=self._pool.borrow,
        )
        undoing.callback(self._log.close)
        self._queues = ConsumeQueues(files, QUEUES_FOLDER, options.units_in_file)
        undoing.callback(self._queues.close)
        self._index = KeyIndex(directory, INDEX_FOLDER, options.key_index)
        self._dispatcher = Dispatcher(
            self._log, self._queues, self._index, self._readable_end, self._publish, self._unhealthy
        )
        self._index_flusher = IndexFlusher(
            self._log, self._queues, self._index, self._dispatcher, directory, options.queues_pace, self._unhealthy
        )
        recover(
            self._log, self._queues, self._index, self._dispatcher, self._index_flusher, self._pool, crashed=crashed
        )
        if options.flush is Flush.POOLED:
            self._pool.fill()
        self._sidecar = Sidecar(directory, self._reader_state())
        self._delays = Delays(self._deliver, self._find_since, self._log, self._queues, DelayOffsets(directory))
        self._create_services()
        self._delays.drop_missing()
        for service in self._services:
            undoing.callback(service.stop)
            service.start()
        self._delays.service.wake()  # messages may be due already

    def _create_services(self) -> None:
        self._flushing = self._flush_service()
        self._cleaner = Cleaner(
            self._log,
            self._queues,
            self._index,
            self._options.retention,
            self._dispatched_end,
            self._publish,
            self._unhealthy,
        )
        self.transactions = Transactions(
            self._put,
            self._flushing.appended,
            self._guard,
            self._check_queue,
            self._find_since,
            self._log,
            self._queues,
        )
        self._allocation = Service("allocation", _ALLOCATION_SECONDS, self._allocate_next)
        parts = (self._dispatcher, self._index_flusher, self._cleaner, self._delays)
        self._services = [*self._flushing.services, self._allocation, *(part.service for part in parts)]

    def _flush_service(self) -> FlushService:
        if self._options.flush is Flush.SYNC:
            return GroupCommitService(self._log.files, self._flushed, self._unhealthy)
        flushing = FlushRealTimeService(self._log.files, self._flushed, self._options.flush_pace, self._unhealthy)
        if self._options.flush is Flush.POOLED:
            return CommitRealTimeService(
                self._log.files, flushing, self._dispatcher.service.wake, self._options.commit_pace, self._unhealthy
            )
        return flushing

    def _flushed(self) -> None:
        """Note that more of the commit log is on the disk."""
        if self._options.flush is Flush.SYNC:
            self._dispatcher.service.wake()

    def _reader_state(self) -> ReaderState:
        return ReaderState(self._log.files.min_offset, self._dispatcher.offset, self._options.key_index.slots)

    def _dispatched_end(self) -> int:
        return self._dispatcher.offset

    def _publish(self) -> None:
        """Publish the new state to readers in other processes."""
        self._sidecar.publish(self._reader_state())

    def _readable_end(self) -> int:
        """Return the end of the messages that the queues, and so consumers, may have: see docs/commitlog.md."""
        files = self._log.files
        if self._options.flush is Flush.ASYNC:
            return files.max_offset
        return files.flushed_where if self._options.flush is Flush.SYNC else files.committed_where

    def append(self, messages: Message | Sequence[Message]) -> Appended:
        """Append one message, or several together in one file.

        A message with a delay level is parked in another topic until it is due; the result refers to the parked one.
        Durable on return with Flush.SYNC, which blocks for a sync that threads share.
        Raises: ValueError for a part that is too long, for a topic or queue that cannot have a folder or is reserved
        for parked messages, and, if the store has no CRCs of whole messages, for properties that end like such a CRC;
        FullError; PoisonedError; ClosedError; GoneError if the folder of the store was moved or removed, which is
        noticed within a second without Flush.SYNC.
        """
        several = [messages] if isinstance(messages, Message) else messages
        if not self._valid_queues.issuperset(map(_QUEUE, several)):
            for message in several:
                self._check_queue(message)
        appended = self._put(several)
        self._wait(appended)
        return appended

    def _wait(self, appended: Appended) -> None:
        """Wait until the appended messages are as safe as the options promise."""
        self._flushing.appended(appended.next_offset)

    def _put(self, messages: Sequence[Message]) -> Appended:
        """Append messages of any topic, if the store is open, without waiting for a flush."""
        if self._is_closed or (self._is_synced and not self._guard.is_ours):
            self._check_open()
        # One search for all messages is faster.  A match across two messages is harmless: `park_if_delayed` checks
        # each.
        properties = messages[0].properties if len(messages) == 1 else b"".join(map(_PROPERTIES, messages))
        if DELAY_MARK not in properties:
            return self._append_now(messages)
        self._delays.service.check()
        appended = self._append_now([park_if_delayed(message) for message in messages])
        self._delays.service.wake()
        return appended

    def _deliver(self, messages: Sequence[Message]) -> Appended:
        """Append messages that were parked; a body may exceed the present limit, since it was accepted once."""
        appended = self._append_now(messages, body_bytes_max=MESSAGE_BYTES_MAX)
        self._wait(appended)
        return appended

    def _append_now(self, messages: Sequence[Message], *, body_bytes_max: int | None = None) -> Appended:
        if self._unhealthy:
            self._flushing.check()
            self._cleaner.check()
            self._dispatcher.service.check()
            self._index_flusher.service.check()
        appended = self._log.append(messages, body_bytes_max=body_bytes_max)
        end = appended.next_offset
        if appended.offset // self._half_bytes != end // self._half_bytes:
            self._allocation.wake()
        if not self._is_synced:  # with Flush.SYNC the dispatcher is woken after the sync
            self._dispatcher.service.wake()
        return appended

    def _allocate_next(self) -> None:
        if self._allocation.stopping:
            return
        # If the disk is full, the append that needs the file raises.
        with contextlib.suppress(FullError):
            self._log.files.allocate_next()

    def _check_queue(self, message: Message) -> None:
        topic = message.topic
        if not is_topic(topic) or is_parking_topic(topic) or message.queue_id < 0:
            raise ValueError(f"the topic {topic!r} with queue {message.queue_id} is invalid or reserved by RocketMQ")
        self._valid_queues.add((topic, message.queue_id))

    def send_back(
        self, message: StoredMessage, group: str, *, delay_level: int = 0, count_max: int = RETRIES_MAX
    ) -> Appended:
        """Return a message to a consumer group that could not handle it, so that the group gets it again.

        The message goes to the topic `%RETRY%<group>` with `reconsume_count` increased: after ten seconds the first
        time, and later each time, or after the given delay level.  After `count_max` times, or for a negative level, it
        goes to the topic `%DLQ%<group>`.  Durable, and raises, as `append`.
        """
        return self.append(as_retry(message, group, delay_level=delay_level, count_max=count_max))

    def read(self, offset: int) -> StoredMessage:
        """Return the message at an offset of the commit log.  Raises: NotFoundError, CorruptError."""
        return self._log.read(offset)

    def pull(self, topic: str, queue_id: int, index: int, count: int) -> list[StoredMessage]:
        """Return up to `count` messages of a queue from a queue offset on; none if the queue is empty or unknown.

        If the first messages were removed, the result starts with the first that remains.
        """
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return []
        while True:
            index = max(index, queue.min_index)
            units = list(parse_units(queue.read(index, count)))
            found = list(self._read_present(unit.offset for unit in units))
            if found or not units:
                return found
            index += len(units)

    def find(
        self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int = _ALWAYS_MS, count: int = 64
    ) -> list[StoredMessage]:
        """Return up to `count` messages of a topic with a key, stored within these times, newest first."""
        self._check_open()
        return self._find(topic, key, begin_ms, end_ms, count)

    def _find(self, topic: str, key: str, begin_ms: int, end_ms: int, count: int) -> list[StoredMessage]:
        candidate_count = count
        while True:
            offsets = self._index.find(topic, key, begin_ms=begin_ms, end_ms=end_ms, count=candidate_count)
            found = messages_with_key(offsets, self._log.read, topic, key, begin_ms, end_ms, count)
            if len(found) >= count or len(offsets) < candidate_count:
                return found
            candidate_count *= 4  # some candidates had other keys

    def _read_present(self, offsets: Iterable[int]) -> Iterator[StoredMessage]:
        """Yield the messages at these offsets, without those that retention removed."""
        for offset in offsets:
            message = self._read_if_present(offset)
            if message is not None:
                yield message

    def _read_if_present(self, offset: int) -> StoredMessage | None:
        """Return the message that a queue or the index refers to; None if its file has been removed."""
        return self._if_present(self._log.read, offset)

    def _if_present(self, ask: Callable[[int], _Found], offset: int) -> _Found | None:
        """Call `ask` with the offset of a message; return None if the file of the message has been removed."""
        try:
            return ask(offset)
        except GoneError:
            if self._is_closed:
                raise ClosedError(f"the store {self.path} is closed") from None
        except NotFoundError:
            if offset >= self._log.files.min_offset:
                raise
        return None

    def _find_since(self, topic: str, key: str, begin_ms: int) -> list[StoredMessage]:
        return self._find(topic, key, begin_ms, _ALWAYS_MS, _COPIES_MAX)

    def find_by_time(self, topic: str, queue_id: int, store_ms: int) -> int:
        """Return the queue offset of the first message stored at a time or later; of the last message if there is none.

        0 if the queue is empty or unknown.  CRCs are not compared.
        """
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return 0

        def stored(unit: QueueUnit) -> int:
            found = self._if_present(self._log.store_ms, unit.offset)
            return -1 if found is None else found  # removed messages are older than all others

        return queue.find_by_time(store_ms, stored)

    def queue_range(self, topic: str, queue_id: int) -> range:
        """Return the queue offsets of a queue; an empty range if it is unknown."""
        queue = self._queues.get(topic, queue_id)
        return range(0) if queue is None else range(queue.min_index, queue.max_index)

    def remove_expired(self) -> int:
        """Remove expired files now, at any hour, up to the limit of one run; return how many of the commit log.

        The queues and the key index lose the removed messages too.  Blocks for a pause between two files.
        Raises: ClosedError; StateError in a forked child.
        """
        self._check_open()
        return self._cleaner.run(manual=True)

    @property
    def max_offset(self) -> int:
        """Return the offset of the next message in the commit log, or of the blank that ends a file before it."""
        return self._log.max_offset

    def _end(self) -> None:
        """Flush everything that was appended."""
        run_all(
            self._cleaner.stop,
            self._delays.stop,
            self._log.stop,
            self._allocation.stop,
            self._flushing.stop,
            self._dispatcher.stop,
            self._index_flusher.stop,
        )
        self._delays.save()
        self._publish()  # an exception may have interrupted a removal before it was published
        if self._dispatcher.offset == self._log.max_offset:
            remove_abort_marker(self._directory)

    def _close_parts(self) -> None:
        for part in (self._log, self._queues, self._index, self._pool, self._sidecar):
            part.close()
