"""Delayed messages: parked in a topic with a queue for each level, and delivered by a thread when they are due.

All messages of a level wait equally long, so they are delivered in the order of their queue.  The next message of each
level is recorded in the file of RocketMQ's ScheduleMessageService.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import time
from collections.abc import Callable

from binlog.commitlog.append.commit_log import CommitLog
from binlog.commitlog.append.message import Appended, Message
from binlog.commitlog.append.service import Service
from binlog.commitlog.indexes.consume_queue import ConsumeQueue, ConsumeQueues
from binlog.commitlog.waiting.parked_messages import Find, destination, park, unpark, was_delivered
from binlog.errors import FullError, GoneError, NotFoundError
from binlog.format.commitlog.indexes import QueueUnit, parse_units
from binlog.format.commitlog.message import PREPARED, ROLLBACK, TRANSACTION, StoredMessage
from binlog.format.commitlog.message_parts import DELAY, parse_properties
from binlog.format.commitlog.names import CONFIG_FOLDER, DELAY_OFFSETS_FILE, DELAY_SECONDS, DELAY_TOPIC, HALF_TOPIC
from binlog.storage.directory import Directory

_TABLE = "offsetTable"
_FILE = os.path.join(CONFIG_FOLDER, DELAY_OFFSETS_FILE)
_TEMPORARY_FILE = _FILE + ".tmp"
# RocketMQ writes numbers as names without quotes.
_BARE_NAME = re.compile(r"([{,]\s*)(\d+)(\s*:)")


class DelayOffsets:
    """The file with the next queue offset of each level, in a store's directory; creates its folder."""

    def __init__(self, directory: Directory) -> None:
        directory.make_folder(CONFIG_FOLDER)
        self._directory = directory

    def read(self) -> dict[int, int]:
        """Return the offsets by level, as far as the file has them; empty if RocketMQ's format does not match."""
        try:
            text = self._directory.read(_FILE).decode("utf-8", "replace")
            table = json.loads(_BARE_NAME.sub(r'\1"\2"\3', text))[_TABLE]
            return {int(level): int(offset) for level, offset in table.items()}
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            return {}

    def write(self, offsets: dict[int, int]) -> None:
        """Replace the file, durably.  Raises: AccessError, FullError, PoisonedError."""
        self._directory.write_new(_TEMPORARY_FILE, json.dumps({_TABLE: offsets}).encode())
        self._directory.rename(_TEMPORARY_FILE, _FILE)


_LEVELS = range(1, len(DELAY_SECONDS) + 1)
# Occurs in the properties of each message with a delay level, and of few others.
DELAY_MARK = f"{DELAY}\x01".encode()
_IDLE_SECONDS = 60.0
_SOON_SECONDS = 0.005
# Messages can become due early: a user may set the clock forward, or the machine may have slept.
_POLL_SECONDS = 1.0
# A message that would wait this much longer than its level says was stored before a user set the clock back.  As in
# RocketMQ's ScheduleMessageService it is delivered at once, because the right time is unknown.
_CLOCK_BACK_MS = 60_000
_SAVE_SECONDS = 10.0
_AT_ONCE = 64
_BYTES_AT_ONCE = 1 << 20


def park_if_delayed(message: Message) -> Message:
    """Return the message to append: parked in the topic of delayed messages, if it has a delay level.

    A half message is not delayed; the message that its commit appends is.
    Raises: ValueError for a level that is not a number.
    """
    half = message.topic == HALF_TOPIC or message.system_flag & TRANSACTION in (PREPARED, ROLLBACK)
    if half or DELAY_MARK not in message.properties:
        return message
    text = parse_properties(message.properties).get(DELAY, "0")
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"not a delay level: {text!r}")
    level = min(int(text), _LEVELS[-1])
    return park(message, DELAY_TOPIC, level - 1) if level else message


class Delays:
    """Delivers each delayed message once, when it is due, even if processes die in between.

    append, find: methods of the store.  After a crash, delivered messages are recognized by the copy in their topic.
    So the file with the next offsets only saves searches; it never covers more than is on the disk.
    """

    def __init__(
        self,
        append: Callable[[list[Message]], Appended],
        find: Find,
        log: CommitLog,
        queues: ConsumeQueues,
        offsets: DelayOffsets,
    ) -> None:
        self._append = append
        self._find = find
        self._log = log
        self._queues = queues
        self._offsets = offsets
        self._saved = offsets.read()
        self._next: dict[int, int] = {}
        self._log_end = 0
        self._save_at = time.monotonic() + _SAVE_SECONDS
        self.service = Service("delays", _IDLE_SECONDS, self._work)

    def drop_missing(self) -> None:
        """Limit the offsets in the file to the messages that exist, after recovery.

        Raises: as `save`.
        """
        ends = {level: queue.max_index for level in _LEVELS if (queue := self._queue(level)) is not None}
        known = {level: min(index, ends.get(level, 0)) for level, index in self._saved.items()}
        if known != self._saved:
            # The log is another one, or lost its end.  Later messages would otherwise count as delivered.
            self._write(known)

    def stop(self) -> None:
        """End; messages that are not due stay parked.  Raises: the error that stopped deliveries."""
        self.service.stop()
        self.service.check()

    def save(self) -> None:
        """Save the offset of each level; the log must be flushed.  Raises: AccessError, FullError, PoisonedError."""
        offsets = {**self._saved, **self._next}  # a level may not have been read yet
        if offsets != self._saved:
            self._write(offsets)

    def _write(self, offsets: dict[int, int]) -> None:
        self._offsets.write(offsets)
        self._saved = offsets

    def _work(self) -> float:
        """Deliver messages that are due; return the seconds until the next call."""
        if self.service.stopping:
            return _IDLE_SECONDS
        seconds = _IDLE_SECONDS
        for level in _LEVELS:
            try:
                seconds = min(seconds, self._level(level))
            except FullError:
                seconds = min(seconds, _POLL_SECONDS)  # retry later; no message is lost
            except GoneError:
                seconds = min(seconds, _SOON_SECONDS)  # retention is removing the start of the queue
        if time.monotonic() >= self._save_at and self._log.files.flushed_where >= self._log_end:
            self._save_at = time.monotonic() + _SAVE_SECONDS
            with contextlib.suppress(FullError):  # an older file only costs searches
                self.save()
        return seconds

    def _queue(self, level: int) -> ConsumeQueue | None:
        return self._queues.get(DELAY_TOPIC, level - 1)

    def _level(self, level: int) -> float:
        queue = self._queue(level)
        appended = self._log.queue_offsets.get((DELAY_TOPIC, level - 1), 0)
        if queue is None:
            return _SOON_SECONDS if appended else _IDLE_SECONDS
        index = self._next.get(level)
        if index is None:
            index = self._next[level] = self._first_undelivered(queue, self._saved.get(level, 0))
        index = max(index, queue.min_index)
        units = list(parse_units(queue.read(index, _AT_ONCE)))
        if not units:
            # Appended messages are dispatched to the queue a moment later.
            return _SOON_SECONDS if index < appended else _IDLE_SECONDS
        now_ms = time.time() * 1000
        last_ms = now_ms + 1000 * DELAY_SECONDS[level - 1] + _CLOCK_BACK_MS
        # In queue order, because offsets are counted from the first one.
        due = list(itertools.takewhile(lambda unit: not now_ms < self._due_ms(unit, level) <= last_ms, units))
        if not due:
            return min(max((self._due_ms(units[0], level) - now_ms) / 1000, 0), _POLL_SECONDS)
        self._next[level] = index + self._deliver([unit.offset for unit in due])
        return 0.0  # the other levels come first, then the rest of this one

    def _due_ms(self, unit: QueueUnit, level: int) -> int:
        """Return when a message of a level is due."""
        if not unit.is_extended:
            return unit.tag_code
        stored = self._stored(unit.offset)
        return 0 if stored is None else stored.store_ms + 1000 * DELAY_SECONDS[level - 1]

    def _first_undelivered(self, queue: ConsumeQueue, index: int) -> int:
        """Return the queue offset of the first message that was not delivered yet."""
        index = min(max(index, queue.min_index), queue.max_index)
        while (unit := queue.unit(index)) is not None:
            stored = self._stored(unit.offset)
            if stored is not None and not was_delivered(stored, [destination(stored)[0]], self._find):
                break
            index += 1
        return index

    def _stored(self, offset: int) -> StoredMessage | None:
        """Return the message at an offset; None if retention has removed it."""
        try:
            return self._log.read(offset)
        except (NotFoundError, GoneError):
            return None

    def _deliver(self, offsets: list[int]) -> int:
        """Deliver the messages at these offsets, as many as fit in one append; return how many."""
        messages: list[Message] = []
        # Together they must fit in one file.
        count, left = 0, min(_BYTES_AT_ONCE, self._log.files.file_bytes // 2)
        for offset in offsets:
            stored = self._stored(offset)
            if stored is not None:
                left -= stored.message_bytes
                if left < 0 and messages:
                    break
                messages.append(unpark(stored, without=(DELAY,)))
            count += 1
        if messages:
            self._append(messages)
            self._log_end = self._log.max_offset
        return count
