"""Delayed messages: they wait in a topic with a queue for each level, until a thread appends them to their own.

All messages of a level wait equally long, so the one that came first goes on first.

Which message of each delay level goes on next, in the file in which RocketMQ's ScheduleMessageService keeps it.
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
from binlog.commitlog.waiting.waiting_messages import Find, own_queue, to_go_on, to_wait, went_on
from binlog.errors import FullError, GoneError, NotFoundError
from binlog.format.commitlog.indexes import QueueUnit, parse_units
from binlog.format.commitlog.message import PREPARED, ROLLBACK, TRANSACTION, StoredMessage
from binlog.format.commitlog.message_parts import DELAY, parse_properties
from binlog.format.commitlog.names import CONFIG_FOLDER, DELAY_OFFSETS_FILE, DELAY_SECONDS, DELAY_TOPIC, HALF_TOPIC
from binlog.storage.directory import Directory

_TABLE = "offsetTable"
_FILE = os.path.join(CONFIG_FOLDER, DELAY_OFFSETS_FILE)
_DRAFT = _FILE + ".tmp"
# RocketMQ writes numbers as names without quotes.
_BARE_NAME = re.compile(r"([{,]\s*)(\d+)(\s*:)")


class DelayOffsets:
    """The file of the store in a directory.  Its folder is made where it is missing."""

    def __init__(self, directory: Directory) -> None:
        directory.make_folder(CONFIG_FOLDER)
        self._directory = directory

    def read(self) -> dict[int, int]:
        """By level.  Of a level that is not there, or where the file is none of ours, nothing is known."""
        try:
            text = self._directory.read(_FILE).decode("utf-8", "replace")
            table = json.loads(_BARE_NAME.sub(r'\1"\2"\3', text))[_TABLE]
            return {int(level): int(offset) for level, offset in table.items()}
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            return {}

    def write(self, offsets: dict[int, int]) -> None:
        """Durable on return.  Raises: AccessError, FullError, PoisonedError."""
        self._directory.write_new(_DRAFT, json.dumps({_TABLE: offsets}).encode())
        self._directory.rename(_DRAFT, _FILE)


_LEVELS = range(1, len(DELAY_SECONDS) + 1)
# In the properties of each message that has a delay level, and of few others.
DELAY_MARK = f"{DELAY}\x01".encode()
_IDLE_SECONDS = 60.0
_SOON_SECONDS = 0.005
# Whoever sets the clock forward, or wakes the machine, makes messages due.
_LOOK_SECONDS = 1.0
# What would wait longer than its level says, and so much more, was stored before somebody set the clock back.  It goes
# on at once, as in RocketMQ's ScheduleMessageService: nobody knows when it should have.
_CLOCK_BACK_MS = 60_000
_SAVE_SECONDS = 10.0
_AT_ONCE = 64
_BYTES_AT_ONCE = 1 << 20


def delayed(message: Message) -> Message:
    """The message as it is appended: where it has a delay level, to the topic in which it waits.

    A half message does not wait, but what is appended when it is committed.
    Raises: ValueError for a level that is no number.
    """
    half = message.topic == HALF_TOPIC or message.system_flag & TRANSACTION in (PREPARED, ROLLBACK)
    if half or DELAY_MARK not in message.properties:
        return message
    text = parse_properties(message.properties).get(DELAY, "0")
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"not a delay level: {text!r}")
    level = min(int(text), _LEVELS[-1])
    return to_wait(message, DELAY_TOPIC, level - 1) if level else message


class Delays:
    """Has each delayed message go on when it is due, once, whatever process dies when.

    append, find: the store's.  What went on is known again after a crash by what was appended, so the file that says
    how far each level is only spares looking; it never says more than what is on the disk.
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

    def correct(self) -> None:
        """Leave out what the file says of messages that are not there.  For a store that was recovered.

        Raises: as `save`.
        """
        ends = {level: queue.max_index for level in _LEVELS if (queue := self._queue(level)) is not None}
        known = {level: min(index, ends.get(level, 0)) for level, index in self._saved.items()}
        if known != self._saved:
            # The log is another one, or lost its end.  Messages that come now would be taken for ones that went on.
            self._write(known)

    def stop(self) -> None:
        """End; what is not due goes on waiting.  Raises: that for which no message goes on any more."""
        self.service.stop()
        self.service.check()

    def save(self) -> None:
        """Keep how far each level is.  For a log that is flushed.  Raises: AccessError, FullError, PoisonedError."""
        offsets = {**self._saved, **self._next}  # a level may not have been looked at yet
        if offsets != self._saved:
            self._write(offsets)

    def _write(self, offsets: dict[int, int]) -> None:
        self._offsets.write(offsets)
        self._saved = offsets

    def _work(self) -> float:
        """Have go on what is due; in how many seconds to look again."""
        if self.service.stopping:
            return _IDLE_SECONDS
        seconds = _IDLE_SECONDS
        for level in _LEVELS:
            try:
                seconds = min(seconds, self._level(level))
            except FullError:
                seconds = min(seconds, _LOOK_SECONDS)  # nothing is lost: it goes on when there is room
            except GoneError:
                seconds = min(seconds, _SOON_SECONDS)  # the first ones of the queue are being removed
        if time.monotonic() >= self._save_at and self._log.files.flushed_where >= self._log_end:
            self._save_at = time.monotonic() + _SAVE_SECONDS
            with contextlib.suppress(FullError):  # the older file is as good, and costs looking
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
            index = self._next[level] = self._first(queue, self._saved.get(level, 0))
        index = max(index, queue.min_index)
        units = list(parse_units(queue.read(index, _AT_ONCE)))
        if not units:
            # Of what was appended the queue hears a moment later.
            return _SOON_SECONDS if index < appended else _IDLE_SECONDS
        now_ms = time.time() * 1000
        last_ms = now_ms + 1000 * DELAY_SECONDS[level - 1] + _CLOCK_BACK_MS
        # In their order, for who counts them counts from the first.
        due = list(itertools.takewhile(lambda unit: not now_ms < self._due_ms(unit, level) <= last_ms, units))
        if not due:
            return min(max((self._due_ms(units[0], level) - now_ms) / 1000, 0), _LOOK_SECONDS)
        self._next[level] = index + self._pass_on([unit.offset for unit in due])
        return 0.0  # the other levels are next, and then what is left of this one

    def _due_ms(self, unit: QueueUnit, level: int) -> int:
        """When a message of a level is due."""
        if not unit.is_extended:
            return unit.tag_code
        stored = self._stored(unit.offset)
        return 0 if stored is None else stored.store_ms + 1000 * DELAY_SECONDS[level - 1]

    def _first(self, queue: ConsumeQueue, index: int) -> int:
        """The queue offset of the first message that did not go on yet."""
        index = min(max(index, queue.min_index), queue.max_index)
        while (unit := queue.unit(index)) is not None:
            stored = self._stored(unit.offset)
            if stored is not None and not went_on(stored, [own_queue(stored)[0]], self._find):
                break
            index += 1
        return index

    def _stored(self, offset: int) -> StoredMessage | None:
        """The message that lies there; None once it was removed, which it is when it has expired."""
        try:
            return self._log.read(offset)
        except (NotFoundError, GoneError):
            return None

    def _pass_on(self, offsets: list[int]) -> int:
        """Append the messages that lie there to their own topics, as many as make one append; how many those are."""
        messages: list[Message] = []
        # Together they must fit in a file.
        count, left = 0, min(_BYTES_AT_ONCE, self._log.files.file_bytes // 2)
        for offset in offsets:
            stored = self._stored(offset)
            if stored is not None:
                left -= stored.message_bytes
                if left < 0 and messages:
                    break
                messages.append(to_go_on(stored, without=(DELAY,)))
            count += 1
        if messages:
            self._append(messages)
            self._log_end = self._log.max_offset
        return count
