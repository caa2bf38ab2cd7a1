"""The comparison of consume queues with the commit log: each message once, in order, and nothing else."""

from __future__ import annotations

import itertools
import os
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from binlog.commitlog.check.files_check import check_files
from binlog.commitlog.check.log_check import DamagedRanges, VerifiedExtent, locate
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
    """The messages of one queue in the commit log.

    first: the queue offset of the first message.  next: of the next message.  place: log offset of the last one.
    also: another offset that may follow, after a message with a wrong offset.
    pending: units that are not compared yet; the last one has the queue offset before `next`.
    """

    first: int
    next: int
    place: int = 0
    also: int | None = None
    pending: bytearray = field(default_factory=bytearray)


class QueuesCheck:
    """Compares the queues in `folder` with the commit log in `log`.

    problems: receives the problems found.
    """

    def __init__(
        self, folder: str, log: FilesReader, verified: VerifiedExtent, problems: list[Problem], damaged: DamagedRanges
    ) -> None:
        self._folder = folder
        self._log = log
        self._verified = verified
        self._problems = problems
        self._damaged = damaged
        self._queues: dict[_Key, _Queue] = {}
        self._open: OrderedDict[_Key, FilesReader | None] = OrderedDict()

    def take(self, run: Run) -> None:
        """Take consecutive messages of one queue, in the order of the commit log."""
        key = run.topic.decode("utf-8", "replace"), run.queue_id
        count = len(run.units) // UNIT_BYTES
        place = parse_unit(run.units).offset
        if not is_topic(key[0]) or run.queue_id < 0:
            self._report(place, "topic", f"the topic {key[0]!r} with queue {run.queue_id} cannot have a folder")
            return
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _Queue(run.first_queue_offset, run.first_queue_offset)
        if not self._follows(key, queue, run.first_queue_offset):
            text = f"queue offset {run.first_queue_offset} of queue {key[1]} of {key[0]} instead of {queue.next}"
            self._report(place, "queue_offset", text)
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
        """Return whether a queue offset may follow: it is the next one, or comes after damaged messages."""
        if index in (queue.next, queue.also):
            return True
        if index < queue.next:
            return False
        if queue.place < self._damaged.removed_end:
            return True  # retention removed the messages in between, and their units
        missing = index - queue.next
        for _, unit in self._units(key, queue.next, index):
            if unit.offset not in self._damaged:
                return False
            missing -= 1
        return missing == 0

    def finish(self, end: int) -> None:
        """Compare the rest, after `take` got all messages up to `end`, and check units without messages."""
        for key, queue in self._queues.items():
            self._compare(key, queue)
        for topic in list_folder(self._folder):
            path = os.path.join(self._folder, topic)
            if not is_topic(topic) or not os.path.isdir(path):
                self._problems.append(Problem(path, 0, "name", "not the folder of a topic"))
                continue
            for name in list_folder(path):
                folder = os.path.join(path, name)
                if not is_queue_name(name) or name != str(int(name)) or not os.path.isdir(folder):
                    self._problems.append(Problem(folder, 0, "name", "not the folder of a queue"))
                    continue
                growing = not self._verified.all
                self._problems.extend(check_files(folder, unit_bytes=UNIT_BYTES, growing=growing))
                self._check_others((topic, int(name)), end)

    def _check_others(self, key: _Key, log_end: int) -> None:
        """Check the units before and after those of the messages in the commit log."""
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
            # Units of removed messages, blank units before the first message, and units of damaged messages.
            known = unit == BLANK_UNIT or 0 <= unit.offset < log_start or unit.offset in self._damaged
            all_due = self._verified.all and self._verified.cut_ms is None
            if not known and (all_due or unit.offset < log_end):
                self._report_unit(key, index, f"{_describe(unit)}, but the log has no such message of the queue")
        if self._verified.all and self._verified.cut_ms is None:
            for index, unit in self._units_in_use(key, begin if queue is None else queue.next, end):
                if any(unit) and not (queue is not None and unit.offset in self._damaged):
                    self._report_unit(key, index, f"{_describe(unit)}, but the queue ends before it")

    def _compare(self, key: _Key, queue: _Queue) -> None:
        """Compare the pending units with those in the queue."""
        wanted, queue.pending = bytes(queue.pending), bytearray()
        start, stop = queue.next - len(wanted) // UNIT_BYTES, queue.next
        if b"".join(self._bytes(key, start, stop)) == wanted:
            return
        units = list(parse_units(wanted))
        gone, there = self._remaining_units(key, start, units)
        missing: list[int] = []
        for index, (unit, other) in enumerate(itertools.zip_longest(units[gone:], there), start + gone):
            if other == unit or (other is not None and other.is_extended and other[:2] == unit[:2]):
                continue
            if other is None or not any(other):
                missing.append(index)
            else:
                self._report_unit(key, index, f"{_describe(other)}, but the log has {_describe(unit)}")
        if missing:
            text = f"{len(missing)} units of messages in the log are missing, up to queue offset {missing[-1]}"
            self._report_unit(key, missing[0], text)

    def _remaining_units(self, key: _Key, start: int, units: list[QueueUnit]) -> tuple[int, list[QueueUnit]]:
        """Return how many of these units retention has removed, and the units in the queue in place of the rest.

        Retention removes files of the log first, and then the queue files that have no other messages.
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
        """Yield the present units with these queue offsets."""
        for data in self._bytes(key, start, stop):
            for unit in parse_units(data):
                yield start, unit
                start += 1

    def _units_in_use(self, key: _Key, start: int, stop: int) -> Iterator[tuple[int, QueueUnit]]:
        """Yield units like `_units`, without most of the zeros at the end of a file, which has hundreds of
        thousands."""
        while start < stop and (files := self._files(key)) is not None:
            with suppress(NotFoundError):  # retention removed the file
                start = max(start, files.skip_hole(start * UNIT_BYTES) // UNIT_BYTES)
            data = next(self._bytes(key, start, stop), b"")
            if not data:
                return
            if data != bytes(len(data)):
                yield from enumerate(parse_units(data), start)
            start += len(data) // UNIT_BYTES

    def _bytes(self, key: _Key, start: int, stop: int) -> Iterator[bytes]:
        """Yield the packed units with these queue offsets, some at a time."""
        files = self._files(key)
        while files is not None and start < stop:
            size = min((stop - start) * UNIT_BYTES, _PIECE_BYTES)
            try:
                data = files.read(size, start * UNIT_BYTES)
            except NotFoundError:
                return  # a negative queue offset, or a removed file
            data = data[: len(data) // UNIT_BYTES * UNIT_BYTES]
            if not data:
                return
            yield data
            start += len(data) // UNIT_BYTES

    def _files(self, key: _Key) -> FilesReader | None:
        """Return the reader of a queue's files; None if the queue has no folder."""
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

    def _report(self, place: int, rule: str, text: str) -> None:
        path, at = locate(self._log, place)
        self._problems.append(Problem(path, at, rule, text))

    def _report_unit(self, key: _Key, index: int, text: str) -> None:
        files = self._files(key)
        path, at = os.path.join(self._folder, key[0], str(key[1])), 0
        if files is not None:
            path, at = locate(files, index * UNIT_BYTES)
        self._problems.append(Problem(path, at, "unit", f"queue offset {index}: {text}"))

    @staticmethod
    def _close(files: FilesReader | None) -> None:
        if files is not None:
            files.close()

    def close(self) -> None:
        """Close the descriptors."""
        while self._open:
            self._close(self._open.popitem()[1])


def _describe(unit: QueueUnit) -> str:
    return f"{unit.message_bytes} bytes at {unit.offset}, tag code {unit.tag_code}"
