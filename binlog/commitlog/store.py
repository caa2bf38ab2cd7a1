"""A store: a commit log, its consume queues, and what keeps them; for one process that writes."""

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
from binlog.commitlog.indexes.dispatch import Dispatcher, QueuesFlushing
from binlog.commitlog.indexes.key_index import KeyIndex
from binlog.commitlog.indexes.key_lookup import messages_with_key
from binlog.commitlog.options import Flush, StoreOptions
from binlog.commitlog.recovery.recovery import recover
from binlog.commitlog.recovery.store_state import Sidecar, mark_begun, mark_ended
from binlog.commitlog.recovery.survey import refuse_features, refuse_files
from binlog.commitlog.retention import Cleaner
from binlog.commitlog.waiting.delays import DELAY_MARK, DelayOffsets, Delays, delayed
from binlog.commitlog.waiting.transactions import Transactions
from binlog.commitlog.waiting.waiting_messages import RETRIES_MAX, retried
from binlog.errors import ClosedError, FullError, GoneError, NotFoundError
from binlog.format.commitlog.indexes import QueueUnit, parse_units
from binlog.format.commitlog.message import MESSAGE_BYTES_MAX, StoredMessage
from binlog.format.commitlog.names import (
    COMMIT_LOG_FOLDER,
    INDEX_FOLDER,
    LOCK_FILE,
    QUEUES_FOLDER,
    is_topic,
    is_waiting_topic,
)
from binlog.format.commitlog.store_files import News
from binlog.storage.file_pool import FilePool
from binlog.storage.handle import Handle

_DEFAULTS = StoreOptions()
# Messages that went on and have the same unique key, of which one is looked for.
_Found = TypeVar("_Found")
_QUEUE = operator.attrgetter("topic", "queue_id")
_PROPERTIES = operator.attrgetter("properties")

_WAITED_MAX = 1024
_ALWAYS_MS = 2**62
_ALLOCATION_SECONDS = 60.0


class MessageStore(Handle):
    """The store in the folder `path`, which is made where it is missing.  Use as a context manager.

    Any thread of this process may use it, no other process may write to it, and a forked child must not.
    Opening recovers: what was promised to be on the disk is there, and the queues have all that the commit log has.
    Raises, opening: BusyError where another process has it (`.holder`), AccessError, FullError; and, before it changes
    anything, VersionError if the store has what this engine does not know, CorruptError if files are missing or have
    another size than the options give; StateError where no thread can be made.

    If an exception of a signal handler comes in the middle of a change, all that follows is refused (PoisonedError)
    until the store is opened anew.  If it comes while a call waits for the disk, what was appended stays: it is on the
    disk, and for all to see, with the next append or with `close`, at the latest.

    transactions: messages that nobody is given until they are committed.
    """

    kind = "store"
    lock_name = LOCK_FILE

    def __init__(self, path: str | os.PathLike[str], options: StoreOptions = _DEFAULTS) -> None:
        super().__init__(path)
        self._options = options
        self._is_synced = options.flush is Flush.SYNC
        self._half_bytes = options.file_bytes // 2
        self._queues_known: set[tuple[str, int]] = set()  # topic and queue of messages that were looked at
        self._concerns: set[str] = set()  # empty while nothing keeps messages from being appended
        if not os.path.lexists(os.path.join(self.path, LOCK_FILE)):
            self._refuse_unknown()  # taking the lock would make its file
        self._acquire()
        if not self._is_synced:
            self._guard.bind(-1, 0, 0)  # whether our descriptors are open is not asked at each message

    def _refuse_unknown(self) -> None:
        refuse_features(self.path, reading=False)
        refuse_files(self.path, self._options)

    def _open(self, undoing: contextlib.ExitStack) -> None:
        self._refuse_unknown()
        options, directory = self._options, self._directory
        assert self._lock is not None
        self._lock.clear_file()  # RocketMQ writes into it when it opens a store: so readers know who had it last
        crashed = mark_begun(directory)
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
            self._log, self._queues, self._index, self._readable_end, self._publish, self._concerns
        )
        self._queues_flushing = QueuesFlushing(
            self._log, self._queues, self._index, self._dispatcher, directory, options.queues_pace, self._concerns
        )
        recover(
            self._log, self._queues, self._index, self._dispatcher, self._queues_flushing, self._pool, crashed=crashed
        )
        if options.flush is Flush.POOLED:
            self._pool.fill()
        self._sidecar = Sidecar(directory, self._news())
        self._delays = Delays(self._pass_on, self._find_since, self._log, self._queues, DelayOffsets(directory))
        self._make_services()
        self._delays.correct()
        for service in self._services:
            undoing.callback(service.stop)
            service.start()
        self._delays.service.wake()  # for those that wait already

    def _make_services(self) -> None:
        self._flushing = self._flush_service()
        self._cleaner = Cleaner(
            self._log,
            self._queues,
            self._index,
            self._options.retention,
            self._told_end,
            self._publish,
            self._concerns,
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
        self._allocation = Service("allocation", _ALLOCATION_SECONDS, self._make_ahead)
        parts = (self._dispatcher, self._queues_flushing, self._cleaner, self._delays)
        self._services = [*self._flushing.services, self._allocation, *(part.service for part in parts)]

    def _flush_service(self) -> FlushService:
        if self._options.flush is Flush.SYNC:
            return GroupCommitService(self._log.files, self._flushed, self._concerns)
        flushing = FlushRealTimeService(self._log.files, self._flushed, self._options.flush_pace, self._concerns)
        if self._options.flush is Flush.POOLED:
            return CommitRealTimeService(
                self._log.files, flushing, self._dispatcher.service.wake, self._options.commit_pace, self._concerns
            )
        return flushing

    def _flushed(self) -> None:
        """More of the commit log is on the disk."""
        if self._options.flush is Flush.SYNC:
            self._dispatcher.service.wake()

    def _news(self) -> News:
        return News(self._log.files.min_offset, self._dispatcher.offset, self._options.key_index.slots)

    def _told_end(self) -> int:
        return self._dispatcher.offset

    def _publish(self) -> None:
        """Tell readers in other processes of more messages."""
        self._sidecar.publish(self._news())

    def _readable_end(self) -> int:
        """Up to where queues, and so consumers, may know of messages: those in the file or, with sync, on the disk."""
        files = self._log.files
        if self._options.flush is Flush.ASYNC:
            return files.max_offset
        return files.flushed_where if self._options.flush is Flush.SYNC else files.committed_where

    def append(self, messages: Message | Sequence[Message]) -> Appended:
        """Append a message, or several, which then lie together in one file.

        One with a delay level waits in another topic until it is due, and what is returned is of that one.
        Durable on return with Flush.SYNC.  Blocks: with that for a sync that is shared with other threads.
        Raises: ValueError for a part that is too long, or a topic or queue that can have no folder, or is kept for what
        waits, and, in a store without CRCs of whole messages, for properties that end like one; FullError;
        PoisonedError; ClosedError; GoneError once the
        store's folder was moved or removed, which without sync is noticed within a second.
        """
        several = [messages] if isinstance(messages, Message) else messages
        if not self._queues_known.issuperset(map(_QUEUE, several)):
            for message in several:
                self._check_queue(message)
        appended = self._put(several)
        self._wait(appended)
        return appended

    def _wait(self, appended: Appended) -> None:
        """Wait until what was appended is as safe as the options promise."""
        self._flushing.appended(appended.next_offset)

    def _put(self, messages: Sequence[Message]) -> Appended:
        """Append, where the store is open, messages of any topic, and do not wait."""
        if self._is_closed or (self._is_synced and not self._guard.is_ours):
            self._refuse()
        # All at once, which is quicker than one by one; two that only together have it do no harm.
        properties = messages[0].properties if len(messages) == 1 else b"".join(map(_PROPERTIES, messages))
        if DELAY_MARK not in properties:
            return self._put_any(messages)
        self._delays.service.check()
        appended = self._put_any([delayed(message) for message in messages])
        self._delays.service.wake()
        return appended

    def _pass_on(self, messages: Sequence[Message]) -> Appended:
        """Append what waited: it is there, however large a message may be by now."""
        appended = self._put_any(messages, body_bytes_max=MESSAGE_BYTES_MAX)
        self._wait(appended)
        return appended

    def _put_any(self, messages: Sequence[Message], *, body_bytes_max: int | None = None) -> Appended:
        if self._concerns:
            self._flushing.check()
            self._cleaner.check()
            self._dispatcher.service.check()
            self._queues_flushing.service.check()
        appended = self._log.append(messages, body_bytes_max=body_bytes_max)
        end = appended.next_offset
        if appended.offset // self._half_bytes != end // self._half_bytes:
            self._allocation.wake()
        if not self._is_synced:  # else they are told once they are on the disk
            self._dispatcher.service.wake()
        return appended

    def _make_ahead(self) -> None:
        if self._allocation.stopping:
            return
        # Where the disk is full the append that needs the file says so.
        with contextlib.suppress(FullError):
            self._log.files.make_ahead()

    def _check_queue(self, message: Message) -> None:
        topic = message.topic
        if not is_topic(topic) or is_waiting_topic(topic) or message.queue_id < 0:
            raise ValueError(f"no topic or queue of yours can be {topic!r}, {message.queue_id}")
        self._queues_known.add((topic, message.queue_id))

    def send_back(
        self, message: StoredMessage, group: str, *, delay_level: int = 0, count_max: int = RETRIES_MAX
    ) -> Appended:
        """Have a message given to a group of consumers again, which could not handle it.

        It comes to the topic `%RETRY%` and the group's name, counted in `reconsume_count`, after ten seconds the first
        time and later each time, or at a delay level; after `count_max` times, or for a negative level, it comes to the
        topic `%DLQ%` and the group's name.  Durable, and raises: as `append`.
        """
        return self.append(retried(message, group, delay_level=delay_level, count_max=count_max))

    def read(self, offset: int) -> StoredMessage:
        """The message that lies at an offset of the commit log.  Raises: NotFoundError, CorruptError."""
        return self._log.read(offset)

    def pull(self, topic: str, queue_id: int, index: int, count: int) -> list[StoredMessage]:
        """Up to so many messages of a queue, from a queue offset on; none where it has none, or is not known.

        Where messages are no longer there, it begins with the first that is.
        """
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return []
        while True:
            index = max(index, queue.min_index)
            units = list(parse_units(queue.read(index, count)))
            found = list(self._there(unit.offset for unit in units))
            if found or not units:
                return found
            index += len(units)

    def find(
        self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int = _ALWAYS_MS, count: int = 64
    ) -> list[StoredMessage]:
        """The messages of a topic that have a key and were stored within these times, so many at most, newest first."""
        self._refuse()
        return self._find(topic, key, begin_ms, end_ms, count)

    def _find(self, topic: str, key: str, begin_ms: int, end_ms: int, count: int) -> list[StoredMessage]:
        looked_at = count
        while True:
            offsets = self._index.find(topic, key, begin_ms=begin_ms, end_ms=end_ms, count=looked_at)
            found = messages_with_key(offsets, self._log.read, topic, key, begin_ms, end_ms, count)
            if len(found) >= count or len(offsets) < looked_at:
                return found
            looked_at *= 4  # some of them have another key

    def _there(self, offsets: Iterable[int]) -> Iterator[StoredMessage]:
        """The messages that lie there, without those that were removed: queues follow the log."""
        for offset in offsets:
            message = self._still_there(offset)
            if message is not None:
                yield message

    def _still_there(self, offset: int) -> StoredMessage | None:
        """The message that a queue or the index has told of; None where its file has been removed since."""
        return self._of_there(self._log.read, offset)

    def _of_there(self, ask: Callable[[int], _Found], offset: int) -> _Found | None:
        """What is asked of a message that a queue or the index has told of; None where its file has been removed."""
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
        return self._find(topic, key, begin_ms, _ALWAYS_MS, _WAITED_MAX)

    def find_by_time(self, topic: str, queue_id: int, store_ms: int) -> int:
        """The queue offset of the first message stored at a time or after it; the last one's, where all are before it.

        0 for a queue that is not known, or has no message.  CRCs are not compared: times are believed.
        """
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return 0

        def stored(unit: QueueUnit) -> int:
            found = self._of_there(self._log.store_ms, unit.offset)
            return -1 if found is None else found  # it was stored before all that are there

        return queue.find_by_time(store_ms, stored)

    def queue_range(self, topic: str, queue_id: int) -> range:
        """The queue offsets that a queue has; none where it is not known."""
        queue = self._queues.get(topic, queue_id)
        return range(0) if queue is None else range(queue.min_index, queue.max_index)

    def remove_expired(self) -> int:
        """Remove files that have expired, whatever the hour, so many as one run may; how many of the commit log went.

        Their messages are gone from queues and key index too.  Blocks: for a pause between two files.
        Raises: ClosedError; StateError in a forked child.
        """
        self._refuse()
        return self._cleaner.run(manual=True)

    @property
    def max_offset(self) -> int:
        """Where in the commit log the next message will lie, or the end of a file before it."""
        return self._log.max_offset

    def _end(self) -> None:
        """Put all that was appended on the disk."""
        with contextlib.ExitStack() as stopping:  # goes on whatever one of them raises; the last one stops first
            for stop in (
                self._queues_flushing.stop,
                self._dispatcher.stop,
                self._flushing.stop,
                self._allocation.stop,
                self._log.stop,
                self._delays.stop,
                self._cleaner.stop,
            ):
                stopping.callback(stop)
        self._delays.save()
        self._publish()  # an exception may have ended a removal before it was told
        if self._dispatcher.offset == self._log.max_offset:
            mark_ended(self._directory)

    def _let_go(self) -> None:
        for part in (self._log, self._queues, self._index, self._pool, self._sidecar):
            part.close()
