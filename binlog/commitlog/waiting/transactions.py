"""Transactions: half messages, which are on the disk but not delivered before they are committed.

As in RocketMQ's TransactionalMessageServiceImpl, a half message is parked in one topic, and a message in another topic
records its end.  A commit appends the delivered message and the end record together, in this order.  If a power cut
leaves only the delivered message, its properties show that the half message was committed.

A RocketMQ broker that checks a half message cannot change it, so it appends a copy with a higher check count, and skips
the older one.  All copies are one transaction: the newest is pending, and ending any of them ends it.
"""

from __future__ import annotations

import heapq
import threading
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from binlog.commitlog.append.commit_log import CommitLog
from binlog.commitlog.append.message import Appended, Message
from binlog.commitlog.indexes.consume_queue import ConsumeQueue, ConsumeQueues
from binlog.commitlog.waiting.parked_messages import Find, destination, park, unpark, was_delivered
from binlog.errors import FullError, GoneError, NotFoundError, StateError
from binlog.format.commitlog.indexes import parse_units
from binlog.format.commitlog.message import COMMIT, PROPERTIES_BYTES_MAX, TRANSACTION, StoredMessage
from binlog.format.commitlog.message_parts import (
    CHECK_TIMES,
    LOWEST_HALF,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TAGS,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
    pack_properties,
    parse_count,
    parse_properties,
)
from binlog.format.commitlog.names import DELAY_TOPIC, ENDED_TAG, ENDED_TOPIC, HALF_TOPIC
from binlog.storage.native import Guard


def group_copies(halves: Iterable[StoredMessage]) -> list[list[StoredMessage]]:
    """Group half messages, given in queue order, by transaction; the newest copy of each comes last."""
    groups: list[list[StoredMessage]] = []
    by_identity: dict[tuple[object, ...], list[list[StoredMessage]]] = defaultdict(list)
    for half in halves:
        known = by_identity[_identity(half)]
        times = _check_times(half)
        group = next((each for each in known if _check_times(each[-1]) < times), None)
        if group is None:
            group = []
            known.append(group)
            groups.append(group)
        group.append(half)
    return groups


def _identity(half: StoredMessage) -> tuple[object, ...]:
    """Return the parts of a half message that its copies share."""
    properties = parse_properties(half.properties)
    names = (UNIQUE_KEY, REAL_TOPIC, REAL_QUEUE_ID)
    return (*map(properties.get, names), half.born_ms, half.born_host, half.body)


def _check_times(half: StoredMessage) -> int:
    """Return how often a broker had checked the message when it was appended."""
    return parse_count(parse_properties(half.properties).get(CHECK_TIMES, "")) or 0


_UNITS_AT_ONCE = 1024
# Upper limits of the bytes that a commit adds to the body and properties of the half message, and to its properties.
_COMMIT_BYTES = 1024
_COMMIT_PROPERTIES_BYTES = 64


class Half(NamedTuple):
    """A half message that was neither committed nor rolled back.

    queue_offset: in the topic of half messages; identifies it.  offset: its offset in the commit log.
    store_ms: its store time, in milliseconds since 1970 UTC.
    """

    queue_offset: int
    offset: int
    store_ms: int


class Transactions:
    """The half messages of a store.  Any thread may use it.

    put, wait, check, find: methods of the store, so the durability of an append applies here too.
    guard: of the store; an exception that interrupts a prepare or an end half-way poisons it.
    """

    def __init__(
        self,
        put: Callable[[list[Message]], Appended],
        wait: Callable[[int], None],
        guard: Guard,
        check: Callable[[Message], None],
        find: Find,
        log: CommitLog,
        queues: ConsumeQueues,
    ) -> None:
        self._append = put
        self._wait = wait
        self._change = guard.change()
        self._check = check
        self._find = find
        self._log = log
        self._queues = queues
        self._mutex = threading.Lock()
        self._is_loaded = False
        self._halves: dict[int, Half] = {}
        # Half messages that are being committed or rolled back.
        self._ending: dict[int, Half] = {}
        # A heap of the queue offsets in both, and of some that are in neither any more.
        self._order: list[int] = []
        # Half messages in preparation get no lower queue offsets; a later process must search from here, see `_load`.
        self._floors: list[int] = []
        # By the queue offset of a half message: the offsets of its older copies.  And for each copy, the newest one.
        self._older: dict[int, list[int]] = {}
        self._newest: dict[int, int] = {}

    def prepare(self, message: Message) -> Half:
        """Append a half message.  Raises: as an append of the message would."""
        self._check(message)
        half = park(message, HALF_TOPIC, 0)
        properties = parse_properties(half.properties)
        properties[TRANSACTION_PREPARED] = "true"
        flag = half.system_flag & ~TRANSACTION  # the queue of half messages omits messages with a transaction flag
        half = half._replace(properties=pack_properties(properties), system_flag=flag)
        self._check_room(half)
        with self._change:
            with self._mutex:
                self._load()
                floor = self._log.queue_offsets.get((HALF_TOPIC, 0), 0)
                self._floors.append(floor)
            try:
                appended = self._append([half])
                found = Half(appended.queue_offsets[0], appended.offset, appended.store_ms)
                with self._mutex:
                    self._add(found)
            finally:
                with self._mutex:
                    self._floors.remove(floor)
        self._wait(appended.next_offset)
        return found

    def _check_room(self, half: Message) -> None:
        """Raise FullError or ValueError if the half message fits, but its commit would not."""
        size = len(half.body) + len(half.properties) + _COMMIT_BYTES
        limit = self._log.files.file_bytes
        if size > limit:
            raise FullError(
                f"a commit of {size} bytes does not fit in a file, which has room for {limit}", limit=limit, size=size
            )
        if len(half.properties) + _COMMIT_PROPERTIES_BYTES > PROPERTIES_BYTES_MAX:
            raise ValueError(f"properties of {len(half.properties)} bytes are too long, because a commit adds to them")

    def commit(self, half: Half) -> Appended:
        """Append the message to its own topic, where consumers get it.

        Raises: StateError if it was ended before; NotFoundError if it has expired; CorruptError; and as an append.
        """
        return self._end(half, committed=True)

    def roll_back(self, half: Half) -> Appended:
        """End the half message without a delivery.  Raises: as `commit`."""
        return self._end(half, committed=False)

    def pending(self, *, before_ms: int | None = None) -> list[Half]:
        """Return the half messages that were not ended, in order, including those of earlier processes.

        before_ms: only those that were stored before this time.
        """
        with self._mutex:
            self._load()
            halves = sorted(self._halves.values())
        start = self._log.files.min_offset
        return [half for half in halves if half.offset >= start and (before_ms is None or half.store_ms < before_ms)]

    def message(self, half: Half) -> StoredMessage:
        """Return the parked half message.  Raises: NotFoundError if it has expired; CorruptError; and as an append."""
        self._wait(min(half.offset + 1, self._log.max_offset))  # the thread that prepares it may not have synced it yet
        self._log.commit(half.offset)
        return self._log.read(half.offset)

    def _end(self, half: Half, *, committed: bool) -> Appended:
        with self._change:
            with self._mutex:
                self._load()
                found = self._halves.get(self._newest.get(half.queue_offset, half.queue_offset))
                if found is None:
                    raise StateError(f"half message {half.queue_offset} is not pending")
                if found.offset < self._log.files.min_offset:
                    raise NotFoundError(f"half message {half.queue_offset} has expired")
                half = self._ending[found.queue_offset] = self._halves.pop(found.queue_offset)
            try:
                messages = [self._committed(half)] if committed else []
                numbers = [*self._older.get(half.queue_offset, []), half.queue_offset]
                appended = self._append([*messages, *self._ended(numbers)])
            except BaseException:
                with self._mutex:
                    self._halves[half.queue_offset] = half  # the append did nothing, or the store is poisoned
                raise
            finally:
                with self._mutex:
                    del self._ending[half.queue_offset]
        self._wait(appended.next_offset)
        return appended

    def _committed(self, half: Half) -> Message:
        message = unpark(self.message(half), without=(TRANSACTION_PREPARED,))
        flag = message.system_flag & ~TRANSACTION | COMMIT
        return message._replace(system_flag=flag, prepared_offset=half.offset)

    def _ended(self, numbers: list[int]) -> list[Message]:
        """Return the end records of these half messages, with the lowest offset that may still be pending.

        There is a record for each, because RocketMQ 4 reads only one number in a record.
        """
        with self._mutex:
            lowest = min([self._lowest(), *self._floors])
        properties = pack_properties({TAGS: ENDED_TAG, LOWEST_HALF: str(lowest)})
        return [Message(ENDED_TOPIC, str(number).encode(), properties) for number in numbers]

    def _lowest(self) -> int:
        start = self._log.files.min_offset
        while True:
            number = self._order[0]
            half = self._halves.get(number)
            if number in self._ending or (half is not None and half.offset >= start):
                return number
            heapq.heappop(self._order)

    def _add(self, half: Half) -> None:
        self._halves[half.queue_offset] = half
        heapq.heappush(self._order, half.queue_offset)

    def _load(self) -> None:
        """Load the pending half messages of the store, before the first use by this process.

        If a transaction was ended through an older copy, only that copy shows it; the floor keeps it within the search.
        """
        if self._is_loaded:
            return
        for half in self._pending_in_store():
            self._add(half)
        self._is_loaded = True

    def _pending_in_store(self) -> list[Half]:
        halves_queue, ended_queue = self._queues.get(HALF_TOPIC, 0), self._queues.get(ENDED_TOPIC, 0)
        if halves_queue is None:
            return []
        halves = list(self._messages(halves_queue, _lowest_half(self._log, ended_queue)))
        ended: set[int] = set()
        if halves and ended_queue is not None:
            ended.update(self._ended_numbers(ended_queue, halves[0].offset))
        pending: list[Half] = []
        for copies in group_copies(halves):
            numbers = [each.queue_offset for each in copies]
            if any(each.queue_offset in ended or self._was_delivered(each) for each in copies):
                if not ended.issuperset(numbers):
                    self._floors.append(numbers[0])
                continue
            newest = copies[-1]
            self._older[newest.queue_offset] = numbers[:-1]
            self._newest.update(dict.fromkeys(numbers, newest.queue_offset))
            pending.append(Half(newest.queue_offset, newest.offset, newest.store_ms))
        return pending

    def _was_delivered(self, half: StoredMessage) -> bool:
        return was_delivered(half, [destination(half)[0], DELAY_TOPIC], self._find)

    def _ended_numbers(self, queue: ConsumeQueue, log_start: int) -> Iterator[int]:
        """Yield the numbers of the half messages that were ended by records after an offset of the log."""
        indexes = range(queue.min_index, queue.max_index)
        start = bisect_right(indexes, log_start, key=lambda index: _offset(queue, index))
        for ended in self._messages(queue, queue.min_index + start):
            for text in ended.body.decode("ascii", "replace").split(","):
                number = parse_count(text)
                if number is not None:
                    yield number

    def _messages(self, queue: ConsumeQueue, index: int) -> Iterator[StoredMessage]:
        index = max(index, queue.min_index)
        while units := list(parse_units(queue.read(index, _UNITS_AT_ONCE))):
            for unit in units:
                try:
                    yield self._log.read(unit.offset)
                except (NotFoundError, GoneError):
                    continue  # it has expired meanwhile
            index += len(units)


def _offset(queue: ConsumeQueue, index: int) -> int:
    unit = queue.unit(index)
    return -1 if unit is None else unit.offset


def _lowest_half(log: CommitLog, ended: ConsumeQueue | None) -> int:
    """Return the queue offset below which all half messages are ended, according to the last end record of ours."""
    if ended is None or ended.max_index == ended.min_index:
        return 0
    unit = ended.unit(ended.max_index - 1)
    try:
        properties = {} if unit is None else parse_properties(log.read(unit.offset).properties)
    except (NotFoundError, GoneError):
        return 0
    return parse_count(properties.get(LOWEST_HALF, "")) or 0
