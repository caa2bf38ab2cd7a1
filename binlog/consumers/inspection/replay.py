"""Replay: the operations of a group's log, from its oldest file on, to be applied one by one."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from typing import Self

from binlog.consumers.retention import GROUPS, group_names
from binlog.consumers.state.group_state import GroupState
from binlog.consumers.state.state_reader import Checkpoint, may_have_checkpoint
from binlog.errors import CorruptError, NotFoundError
from binlog.format.consumers.group_layouts import GROUP_OPERATION, MAGIC
from binlog.format.consumers.operation import MARK, Kind, entries_of, group_seed, parse_operation
from binlog.format.log_header import LogHeader
from binlog.format.names import NUMBER_FIRST
from binlog.format.record import Ref
from binlog.log.batch import Entry
from binlog.log.directory import LogDirectory
from binlog.log.maintain.fillers import is_filler
from binlog.log.reader import Reader

_MAGIC = MAGIC.to_bytes(2)[:1]
_TIME_AT = GROUP_OPERATION.offset("group_time_ns")


def folder_of(path: str | os.PathLike[str], name: str) -> str:
    """Return the directory of a group of a log.  Raises: NotFoundError if the log has no such group."""
    if name not in group_names(path):
        raise NotFoundError(f"{os.fspath(path)} has no consumer group {name!r}")
    return os.path.join(path, GROUPS, name)


def time_of(record: bytes) -> int:
    """Return the group time of an operation, by its bytes alone."""
    return int.from_bytes(record[_TIME_AT : _TIME_AT + 8])


def no_operation(folder: str, ref: Ref) -> CorruptError:
    """Return the error for a record of a group's log that is no operation of the group."""
    return CorruptError(folder, ref.offset, "group_operation", f"the record at {ref} is no operation of this group")


class Replay:
    """The operations of a group's log in order.  Takes no lock, and writes nothing.

    newest: begin with the newest checkpoint; otherwise with the oldest operation before which the state is known.
    state: before the operations that `records` yields; the caller applies each of them.
    created_ns: when the oldest file was made, by the wall clock.
    is_whole: the log still has the group's first operation, and all others so far.
    is_certain: no operation is missing since the state was taken from a checkpoint.
    Raises: NotFoundError if the log has no file; CorruptError, also if no checkpoint tells the state at its beginning;
    AccessError, VersionError.
    """

    def __init__(self, folder: str, *, newest: bool = False) -> None:
        self.folder = folder
        headers = _headers(folder)
        self.is_whole = headers[0].number == NUMBER_FIRST
        self.created_ns = headers[0].created_ns
        self.seed = group_seed(headers[0].uuid)
        self.state = GroupState(self.seed)
        self._ahead: deque[Entry] = deque()
        self.is_certain = True
        self._mark: Ref | None = None
        self._after_mark: list[bytes] = []
        for header in reversed(headers) if newest else headers[:1]:
            self._reader = Reader(folder, Ref(header.number, header.first_offset))
            try:
                if header.number == NUMBER_FIRST or self._take_checkpoint(Ref(header.number, header.first_offset)):
                    return
            except BaseException:
                self.close()
                raise
            self.close()
            self._ahead.clear()
        raise CorruptError(folder, 0, "group_operation", "it has no checkpoint, and its first file is gone")

    def _take_checkpoint(self, start: Ref) -> bool:
        """Load the first checkpoint after a place; return False if there is none."""
        while len(batch := self._reader.read_batch()):
            entries = batch.entries()
            self._ahead.extend(entries)
            for entry in entries:
                checkpoint = checkpoint_in(entry.data, self.seed)
                # Operations would be missing after an earlier mark.
                if checkpoint is None or checkpoint.mark < start:
                    continue
                try:
                    self.state.load(checkpoint.data)
                except ValueError as error:
                    raise CorruptError(self.folder, entry.ref.offset, "group_state", str(error)) from error
                while self._ahead and self._ahead[0].ref <= checkpoint.mark:
                    self._ahead.popleft()
                return True
        return False

    def records(self) -> Iterator[Entry]:
        """Yield each record, up to the end of the log so far, but not the fillers of a repair.

        After a filler the state is not known, until it is taken from the next checkpoint.
        Raises: GoneError if the file of the next one was removed; and as a Reader.
        """
        for entry in self._all():
            if entry.data[:1] != _MAGIC and is_filler(self.folder, entry.ref, entry.data):
                self.is_whole = self.is_certain = False
                self._mark = None
                continue
            if not self.is_certain:
                self._take_next_checkpoint(entry)
            yield entry

    def _all(self) -> Iterator[Entry]:
        while self._ahead:
            yield self._ahead.popleft()
        while len(batch := self._reader.read_batch()):
            yield from batch.entries()

    def _take_next_checkpoint(self, entry: Entry) -> None:
        """Take the state from a checkpoint, and apply the operations after its mark again."""
        operation = parse_operation(entry.data, self.seed)
        if operation is not None and operation.flags & MARK:
            self._mark, self._after_mark = entry.ref, []
            return
        checkpoint = checkpoint_in(entry.data, self.seed)
        if checkpoint is not None and checkpoint.mark == self._mark:
            self.state.load(checkpoint.data)
            for record in self._after_mark:
                self.state.apply(record)
            self.is_certain = True
        self._after_mark.append(entry.data)

    def close(self) -> None:
        """Close the files."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def checkpoint_in(record: bytes, seed: int) -> Checkpoint | None:
    """Return the checkpoint that an operation has, None if it has none."""
    operation = parse_operation(record, seed) if may_have_checkpoint(record) else None
    entry = None if operation is None else next(iter(entries_of(operation, Kind.CHECKPOINT)), None)
    return None if entry is None else Checkpoint.parse(entry)


def _headers(folder: str) -> list[LogHeader]:
    """Return the headers of the log's files.  Members may remove old ones meanwhile."""
    with LogDirectory(folder) as directory:
        while True:
            numbers = directory.log_numbers()
            try:
                return [directory.read_header(number) for number in numbers]
            except NotFoundError:
                if directory.listed() == numbers:
                    raise


def started_times(folder: str) -> dict[int, int]:
    """Return the group time of the last start of each item, as far as it was after the newest checkpoint."""
    times: dict[int, int] = {}
    with Replay(folder, newest=True) as replay:
        for ref, record in replay.records():
            applied = replay.state.apply(record)
            if applied is None:
                raise no_operation(folder, ref)
            started = [each.sequence for each in applied.outcome.assigned if each.is_started]
            started += [each.sequence for each in applied.outcome.started]
            times.update(dict.fromkeys(started, replay.state.clock_ns))
    return times
