"""StateReader: the state of a group, read from its log without changing anything.

A process that opens a group begins with the newest file of its log that has a checkpoint: it takes the state there, and
applies the operations after the checkpoint's mark.  A process that applies a mark packs its own state, and compares it
with the checkpoint that follows.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from dataclasses import replace
from typing import NamedTuple

from binlog.consumers.state.group_state import AppliedOperation, GroupState
from binlog.consumers.state.logs import LogReader
from binlog.consumers.state.settings import RULES
from binlog.errors import CorruptError, GoneError, NotFoundError, VersionError
from binlog.format.checksums import crc32c
from binlog.format.consumers.group_layouts import GROUP_OPERATION
from binlog.format.consumers.operation import MARK, Kind, entries_of, group_seed, parse_operation
from binlog.format.log_header import LogHeader
from binlog.format.names import NUMBER_FIRST
from binlog.format.record import LENGTH_BYTES, OFFSET_MAX, Ref
from binlog.log.batch import Batch
from binlog.log.directory import LogDirectory
from binlog.log.maintain.fillers import is_filler
from binlog.log.reader import Reader

_RULE = "group_operation"
_SECTION_AT, _CHECKPOINT = GROUP_OPERATION.size, Kind.CHECKPOINT.to_bytes()
_NO_LIMIT = Ref((1 << 32) - 1, OFFSET_MAX)
_PLACE_BYTES = 12  # a ref: the file's number (u32), and the offset (u64)


class Checkpoint(NamedTuple):
    """The packed state after the operation at `mark`."""

    mark: Ref
    data: bytes

    def pack(self) -> bytes:
        """Return the entry of a section `checkpoint`."""
        return self.mark.number.to_bytes(4) + self.mark.offset.to_bytes(8) + self.data

    @classmethod
    def parse(cls, entry: bytes) -> Checkpoint:
        """Return the checkpoint in the entry of a section."""
        return cls(Ref(int.from_bytes(entry[:4]), int.from_bytes(entry[4:_PLACE_BYTES])), entry[_PLACE_BYTES:])


def may_have_checkpoint(record: bytes) -> bool:
    """Return whether the first section of an operation is a checkpoint: parsing all operations would take long."""
    return record[_SECTION_AT : _SECTION_AT + 1] == _CHECKPOINT


AppliedAt = tuple[Ref, AppliedOperation]


class Wanted(NamedTuple):
    """Whose operations a caller wants to know of: a member's, by seat and generation; anonymous: those of no member."""

    seat: int
    generation: int
    anonymous: bool


_NONE_WANTED = Wanted(1 << 16, 0, False)


class StateReader:
    """Applies the operations of a group's log, in order.

    uuid: of the log.  limit: operations from this place on are not applied.
    state: after the operations up to `applied`.  marked: the own state at a mark, until its checkpoint.
    checkpoint_number: the newest file in which a checkpoint was seen.  checkpoint_bytes: the size of that checkpoint.
    restarts: how often the state was taken from a checkpoint again.
    """

    def __init__(
        self, path: str, reader: LogReader, uuid: bytes, limit: Ref = _NO_LIMIT, state: GroupState | None = None
    ) -> None:
        self.path = path
        self._limit = limit
        self.uuid = uuid
        self.seed = group_seed(uuid)
        self.state = state or GroupState(self.seed)
        self.applied = Ref(0, 0)
        self.marked: Checkpoint | None = None
        self.checkpoint_number = self.checkpoint_bytes = 0
        self.restarts = 0
        self._reader = reader

    @classmethod
    def open(cls, path: str, *, durable_only: bool = False) -> StateReader:
        """Open a group's log, and apply all of its operations so far.

        durable_only: do not apply operations that a power cut may take back.
        Raises: NotFoundError if there is no log; CorruptError if it has other records; and as a Reader.
        """
        return cls._open(path, _NONE_WANTED, durable_only=durable_only)[0]

    @classmethod
    def _open(cls, path: str, wanted: Wanted, *, durable_only: bool = False) -> tuple[StateReader, list[AppliedAt]]:
        """Open as `open`; return also the wanted operations that were applied after the checkpoint's mark."""
        headers = log_headers(path)
        limit = _NO_LIMIT
        if durable_only:
            limit = next((Ref(each.number, each.confirmed_end) for each in headers if not each.closed), _NO_LIMIT)
        for header in reversed(headers):
            start = Ref(header.number, header.first_offset)
            opened = cls(path, Reader(path, start, verify=False), header.uuid, limit)
            try:
                if (applied := opened._begin(start, wanted, is_first=header.number == NUMBER_FIRST)) is not None:
                    return opened, applied
            except BaseException:
                opened.close()
                raise
            opened.close()
        raise CorruptError(path, 0, _RULE, "no file of the group's log has a checkpoint, and the first one is gone")

    def _begin(self, start: Ref, wanted: Wanted, *, is_first: bool) -> list[AppliedAt] | None:
        """Take the first checkpoint that the reader reaches, and apply everything after its mark.

        start: the reader's; a checkpoint with an earlier mark does not count, because operations would be missing.
        is_first: the reader begins with the log.  Returns None if there is no checkpoint, and it does not.
        """
        batches, found = list[Batch](), None
        while found is None and len(batch := self._reader.read_batch()):
            batches.append(batch)
            found = self._first_checkpoint(batch, start)
        if found is not None:
            try:
                self.state.load(found.data)
            except ValueError as error:
                raise CorruptError(self.path, found.mark.offset, "group_state", str(error)) from error
            self.applied = found.mark
        elif not is_first:
            return None
        applied = list[AppliedAt]()
        for batch in batches:
            self._apply_batch(batch, wanted, applied)
        self._advance(wanted, applied)
        rules = self.state.settings.rules
        if rules != RULES:
            text = f"{self.path}: the group has version {rules} of the rules; this version of binlog knows {RULES}"
            raise VersionError(text, found=rules, known=(RULES,))
        return applied

    def _first_checkpoint(self, batch: Batch, start: Ref) -> Checkpoint | None:
        """Return the first checkpoint in a batch whose mark is at `start` or after it."""
        index = self.state.next_checkpoint(batch.data, batch.offsets, 0)
        while index >= 0:
            record = bytes(batch.data[batch.offsets[index] + LENGTH_BYTES : batch.offsets[index + 1]])
            operation = parse_operation(record, self.seed)
            for entry in entries_of(operation, Kind.CHECKPOINT) if operation is not None else ():
                if (checkpoint := Checkpoint.parse(entry)).mark >= start:
                    return checkpoint
            index = self.state.next_checkpoint(batch.data, batch.offsets, index + 1)
        return None

    def advance(self, wanted: Wanted, until: Ref | None = None, size: int = 0) -> list[AppliedAt]:
        """Apply the operations that were appended since; return those that are wanted.

        until, size: the place of one that the caller appended; later ones may be left to the next call.
        If the files of some of them were removed, it continues with the newest checkpoint.
        Raises: CorruptError; and as a Reader.
        """
        applied = list[AppliedAt]()
        try:
            if until is not None and (batch := self._reader.read_to(until, size)) is not None:
                self._apply_batch(batch, wanted, applied)
            self._advance(wanted, applied, until)
        except GoneError:
            applied += self.restart(wanted)
        return applied

    def restart(self, wanted: Wanted) -> list[AppliedAt]:
        """Begin again with the newest checkpoint; return the wanted operations after its mark."""
        self.restarts += 1
        try:
            fresh, applied = self._open(self.path, wanted)
        except NotFoundError:
            raise GoneError(f"{self.path}: the group was deleted") from None
        self._reader.close()
        self._reader, self.applied, self.marked = fresh._reader, fresh.applied, fresh.marked
        self.checkpoint_number, self.checkpoint_bytes = fresh.checkpoint_number, fresh.checkpoint_bytes
        self.state.load(fresh.state.pack())
        return applied

    def apply_own(self, ref: Ref, record: bytes) -> AppliedOperation | None:
        """Apply an operation that this process appended, without reading it; None if others are before it."""
        return self._apply(ref, record) if self._reader.skip(ref, len(record)) else None

    def _advance(self, wanted: Wanted, applied: list[AppliedAt], until: Ref | None = None) -> None:
        read_batch = self._reader.read_batch
        while (until is None or self.applied < until) and len((batch := read_batch()).offsets) > 1:
            self._apply_batch(batch, wanted, applied)

    def _apply_batch(self, batch: Batch, wanted: Wanted, applied: list[AppliedAt]) -> None:
        """Apply the operations of a batch that were not applied; add those that are wanted to a list.

        Those that `repair` replaced by fillers did not happen.
        """
        index, last = 0, self.applied
        if last.number == batch.number:
            index = bisect_right(batch.offsets, last.offset - batch.offset) if last.offset >= batch.offset else 0
        if last.number > batch.number:
            return
        if self._limit is not _NO_LIMIT:
            batch = _cut(batch, self._limit)
        number, offset, data, offsets = batch.number, batch.offset, batch.data, batch.offsets
        seat, generation, anonymous = wanted
        count = len(offsets) - 1
        while index < count:
            index, found, is_other = self.state.apply_many(data, offsets, index, seat, generation, anonymous)
            if is_other:
                ref, record = batch.entries()[index]
                if not is_filler(self.path, ref, record):
                    raise self._no_operation(ref)
                index += 1
            self.applied = Ref(number, offset + offsets[index - 1])
            for each, operation in found:
                ref = Ref(number, offset + offsets[each])
                if operation[3] or operation[5] is not None:  # flags, checkpoint
                    self._take_note(ref, operation)
                applied.append((ref, operation))

    def _apply(self, ref: Ref, record: bytes) -> AppliedOperation:
        applied = self.state.apply(record)
        if applied is None:
            raise self._no_operation(ref)
        self.applied = ref
        if applied[3] or applied[5] is not None:  # flags, checkpoint
            self._take_note(ref, applied)
        return applied

    def _take_note(self, ref: Ref, applied: AppliedOperation) -> None:
        """Keep the state at a mark, and compare it with a checkpoint."""
        if applied.flags & MARK:
            self.marked = Checkpoint(ref, self.state.pack())
        if applied.checkpoint is not None:
            checkpoint = Checkpoint.parse(applied.checkpoint)
            self.checkpoint_number = max(self.checkpoint_number, checkpoint.mark.number)
            self.checkpoint_bytes = len(checkpoint.data)
            self._compare(ref, checkpoint)

    def _no_operation(self, ref: Ref) -> CorruptError:
        return CorruptError(self.path, ref.offset, _RULE, f"the record at {ref} is no operation of this group")

    def _compare(self, ref: Ref, checkpoint: Checkpoint) -> None:
        ours = self.marked
        if ours is None or ours.mark != checkpoint.mark:
            return
        self.marked = None
        if ours.data != checkpoint.data:
            text = f"the checkpoint at {ref} is another state than this process has"
            hashes = f"CRC-32C {crc32c(checkpoint.data):08x} and {crc32c(ours.data):08x}"
            raise CorruptError(self.path, ref.offset, "group_state", f"{text} ({hashes})")

    def close(self) -> None:
        """Close the files."""
        self._reader.close()


def _cut(batch: Batch, limit: Ref) -> Batch:
    """Return the records of a batch before a place."""
    if batch.next_ref <= limit:
        return batch
    is_here = batch.number == limit.number and batch.offset < limit.offset
    count = bisect_left(batch.offsets, limit.offset - batch.offset, 0, len(batch)) if is_here else 0
    return replace(batch, offsets=batch.offsets[: count + 1])


def log_headers(path: str | os.PathLike[str]) -> list[LogHeader]:
    """Return the headers of a log's files, oldest first.  Other processes may remove old files meanwhile.

    Raises: NotFoundError if there is no log; as a Reader.
    """
    while True:
        with LogDirectory(path) as directory:
            numbers = directory.log_numbers()
            try:
                return [directory.read_header(number) for number in numbers]
            except NotFoundError:
                if directory.listed() == numbers:
                    raise
