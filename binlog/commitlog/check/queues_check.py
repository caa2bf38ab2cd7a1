"""Comparing consume queues with the commit log: each message must be in its queue, once, in order, and nothing else."""

from __future__ import annotations

import itertools
import os
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from binlog.commitlog.check.files_check import check_files
from binlog.commitlog.check.log_check import Lost, Settled, place_of
from binlog.commitlog.files.files_reader import FilesReader
from binlog.errors import AccessError, NotFoundError
from binlog.format.commitlog.compiled import Run
from binlog.format.commitlog.indexes import BLANK_UNIT, UNIT_BYTES, QueueUnit, parse_unit, parse_units
from binlog.format.commitlog.names import is_queue_name, is_topic
from binlog.format.problem import Problem
from binlog.storage.files import list_folder

_PENDING_BYTES = 16 << 10
_PIECE_BYTES = 4096 * UNIT_BYTES
_OPEN_QUEUES_MAX = 32
_OPEN_FILES_MAX = 2

_Key = tuple[str, int]


@dataclass(slots=True)
class _Queue:
    """What the commit log has of a queue.

    first: the queue offset of its first message there.  next: the one that comes.  place: where its last message lies.
    also: another that may come, after a message that had not the one that was to come.
    pending: units that are still to be compared, the last one of which has the queue offset before `next`.
    """

    first: int
    next: int
    place: int = 0
    also: int | None = None
    pending: bytearray = field(default_factory=bytearray)


class QueuesCheck:
    """The queues below `folder`, and the commit log in `log`.

    problems: what is wrong is added to it.
    """

    def __init__(self, folder: str, log: FilesReader, settled: Settled, problems: list[Problem], lost: Lost) -> None:
        self._folder = folder
        self._log = log
        self._settled = settled
        self._problems = problems
        self._lost = lost
        self._queues: dict[_Key, _Queue] = {}
        self._open: OrderedDict[_Key, FilesReader | None] = OrderedDict()

    def take(self, run: Run) -> None:
        """Messages of one queue that follow one another, in the order of the commit log."""
        key = run.topic.decode("utf-8", "replace"), run.queue_id
        count = len(run.units) // UNIT_BYTES
        place = parse_unit(run.units).offset
        if not is_topic(key[0]) or run.queue_id < 0:
            self._tell(place, "topic", f"queue {run.queue_id} of the topic {key[0]!r} can have no folder")
            return
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _Queue(run.first_queue_offset, run.first_queue_offset)
        if not self._follows(key, queue, run.first_queue_offset):
            text = f"queue offset {run.first_queue_offset} of queue {key[1]} of {key[0]}, where {queue.next} comes"
            self._tell(place, "queue_offset", text)
            self._compare(key, queue)
            queue.also = queue.next + count
            queue.next = run.first_queue_offset + count
            queue.place = place
            return
        if queue.next != run.first_queue_offset:
            self._compare(key, queue)
        queue.also = None
        queue.place = place
        queue.next = run.first_queue_offset + count
        queue.pending += run.units
        if len(queue.pending) >= _PENDING_BYTES:
            self._compare(key, queue)

    def _follows(self, key: _Key, queue: _Queue, index: int) -> bool:
        """Whether the message of a queue offset may come now: the next one, or one behind messages that are lost."""
        if index in (queue.next, queue.also):
            return True
        if index < queue.next:
            return False
        if queue.place < self._lost.removed_end:
            return True  # those before were removed meanwhile, from the queue too
        missing = index - queue.next
        for _, unit in self._units(key, queue.next, index):
            if unit.offset not in self._lost:
                return False
            missing -= 1
        return missing == 0

    def finish(self, end: int) -> None:
        """Once all messages up to `end` were given: what is left to be compared, and what only queues have."""
        for key, queue in self._queues.items():
            self._compare(key, queue)
        for topic in list_folder(self._folder):
            path = os.path.join(self._folder, topic)
            if not is_topic(topic) or not os.path.isdir(path):
                self._problems.append(Problem(path, 0, "name", "no folder of a topic"))
                continue
            for name in list_folder(path):
                folder = os.path.join(path, name)
                if not is_queue_name(name) or name != str(int(name)) or not os.path.isdir(folder):
                    self._problems.append(Problem(folder, 0, "name", "no folder of a queue"))
                    continue
                growing = not self._settled.all
                self._problems.extend(check_files(folder, unit_bytes=UNIT_BYTES, growing=growing))
                self._check_others((topic, int(name)), end)

    def _check_others(self, key: _Key, log_end: int) -> None:
        """The units of which the commit log has no message."""
        files = self._files(key)
        if files is None or not files.offsets:
            return
        queue = self._queues.get(key)
        begin, end = files.min_offset // UNIT_BYTES, files.end // UNIT_BYTES
        log_start = self._log.min_offset
        for index, unit in self._units(key, begin, end if queue is None else queue.first):
            if unit.message_bytes == 0 and queue is None:
                begin = index
                break
            # Messages that retention has removed from the log, and what stands for those before the first one.
            known = unit == BLANK_UNIT or 0 <= unit.offset < log_start or unit.offset in self._lost
            all_due = self._settled.all and self._settled.cut_ms is None
            if not known and (all_due or unit.offset < log_end):
                self._tell_unit(key, index, f"{_said(unit)}, and the log has no such message in the queue")
        if self._settled.all and self._settled.cut_ms is None:
            for index, unit in self._units_in_use(key, begin if queue is None else queue.next, end):
                if any(unit) and not (queue is not None and unit.offset in self._lost):
                    self._tell_unit(key, index, f"{_said(unit)}, and the queue ends before")

    def _compare(self, key: _Key, queue: _Queue) -> None:
        """Compare what is pending with what the queue has."""
        wanted, queue.pending = bytes(queue.pending), bytearray()
        start, stop = queue.next - len(wanted) // UNIT_BYTES, queue.next
        if b"".join(self._bytes(key, start, stop)) == wanted:
            return
        units = list(parse_units(wanted))
        gone, there = self._still_there(key, start, units)
        missing: list[int] = []
        for index, (unit, other) in enumerate(itertools.zip_longest(units[gone:], there), start + gone):
            if other == unit or (other is not None and other.is_extended and other[:2] == unit[:2]):
                continue
            if other is None or not any(other):
                missing.append(index)
            else:
                self._tell_unit(key, index, f"{_said(other)}, and the log has {_said(unit)}")
        if missing:
            text = f"{len(missing)} units are missing, up to queue offset {missing[-1]}, of messages that the log has"
            self._tell_unit(key, missing[0], text)

    def _still_there(self, key: _Key, start: int, units: list[QueueUnit]) -> tuple[int, list[QueueUnit]]:
        """How many of a queue's units retention has removed since, and what is in place of the others.

        It removes files of the log, and then those of the queue that have no other messages.
        """
        while True:
            self._log.refresh()
            log_start = self._log.min_offset
            gone = bisect_left(units, log_start, key=lambda unit: unit.offset)
            there = [unit for _, unit in self._units(key, start + gone, start + len(units))]
            self._log.refresh()
            if self._log.min_offset == log_start:
                return gone, there

    def _units(self, key: _Key, start: int, stop: int) -> Iterator[tuple[int, QueueUnit]]:
        """The units of these queue offsets, as far as they are there."""
        for data in self._bytes(key, start, stop):
            for unit in parse_units(data):
                yield start, unit
                start += 1

    def _units_in_use(self, key: _Key, start: int, stop: int) -> Iterator[tuple[int, QueueUnit]]:
        """The same without most of those that are zeros, of which a file has hundreds of thousands."""
        while start < stop and (files := self._files(key)) is not None:
            with suppress(NotFoundError):  # a file that was removed
                start = max(start, files.skip_hole(start * UNIT_BYTES) // UNIT_BYTES)
            data = next(self._bytes(key, start, stop), b"")
            if not data:
                return
            if data != bytes(len(data)):
                yield from enumerate(parse_units(data), start)
            start += len(data) // UNIT_BYTES

    def _bytes(self, key: _Key, start: int, stop: int) -> Iterator[bytes]:
        """The same as they lie in the files, some at a time."""
        files = self._files(key)
        while files is not None and start < stop:
            size = min((stop - start) * UNIT_BYTES, _PIECE_BYTES)
            try:
                data = files.read(size, start * UNIT_BYTES)
            except NotFoundError:
                return  # a negative queue offset, or a file that was removed
            data = data[: len(data) // UNIT_BYTES * UNIT_BYTES]
            if not data:
                return
            yield data
            start += len(data) // UNIT_BYTES

    def _files(self, key: _Key) -> FilesReader | None:
        """The queue's; None where there are none."""
        if key not in self._open:
            folder = os.path.join(self._folder, key[0], str(key[1]))
            try:
                self._open[key] = FilesReader(folder, open_max=_OPEN_FILES_MAX)
            except (AccessError, NotFoundError):
                if os.path.isdir(folder):
                    raise
                self._open[key] = None
            if len(self._open) > _OPEN_QUEUES_MAX:
                self._close(self._open.popitem(last=False)[1])
        self._open.move_to_end(key)
        return self._open[key]

    def _tell(self, place: int, rule: str, text: str) -> None:
        path, at = place_of(self._log, place)
        self._problems.append(Problem(path, at, rule, text))

    def _tell_unit(self, key: _Key, index: int, text: str) -> None:
        files = self._files(key)
        path, at = os.path.join(self._folder, key[0], str(key[1])), 0
        if files is not None:
            path, at = place_of(files, index * UNIT_BYTES)
        self._problems.append(Problem(path, at, "unit", f"queue offset {index}: {text}"))

    @staticmethod
    def _close(files: FilesReader | None) -> None:
        if files is not None:
            files.close()

    def close(self) -> None:
        """Give its descriptors back."""
        while self._open:
            self._close(self._open.popitem()[1])


def _said(unit: QueueUnit) -> str:
    return f"{unit.message_bytes} bytes at {unit.offset}, tag code {unit.tag_code}"
