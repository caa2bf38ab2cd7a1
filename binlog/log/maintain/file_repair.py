"""FileRepair: repairs one log file, under its lock.

Each step may be repeated.  The damaged bytes are copied to a file of their own, which is synced and named; then fillers
are written in their place, and synced; then the index is updated.  If the process dies in between, the next repair does
the same steps again.

A log file may have been cut below its header while it was in use, as logrotate's copytruncate does.  Its records are
lost.  `repair` writes a new header, from the facts that its neighbours and its index still have, and closes the file
without records, so that no lost offset is used twice.
"""

from __future__ import annotations

import os
import time
from contextlib import closing, suppress

from binlog.errors import BinlogError, CorruptError, FullError, VersionError
from binlog.format.checksums import crc32c
from binlog.format.index_file import INDEX_HEADER, entry_offset
from binlog.format.log_header import (
    HEADER_BYTES,
    LOG_HEADER,
    SLOT_BYTES,
    CommitSlot,
    Flag,
    LogHeader,
    Status,
    mended_identity,
    new_log_header,
    parse_log_header,
)
from binlog.format.names import damaged_file_name, damaged_file_range, index_file_name
from binlog.format.record import LENGTH_BYTES, OFFSET_MAX
from binlog.log.directory import LogDirectory
from binlog.log.files.prepared_file import new_log_uuid
from binlog.log.files.sequences import RecordCounts
from binlog.log.index.index import Index, opened_index
from binlog.log.index.index_building import IndexWriter, complete_index
from binlog.log.index.index_check import Contradiction, DamagedRange, IndexCheck, Unproven
from binlog.log.maintain.fillers import filler_text
from binlog.log.recovery.evidence import FileEvidence, heal, is_unproven
from binlog.log.recovery.record_walk import count_records, last_whole_record_end
from binlog.log.recovery.recovery import Recovery
from binlog.log.recovery.recovery_table import Action, Verdict
from binlog.storage.boot import boot_id
from binlog.storage.files import DiskFile, allocate, read_at, sync, truncate, write_at


def rebuilt_header(directory: LogDirectory, number: int) -> tuple[LogHeader, str]:
    """Return a new header for a file that has none, and a text that says how much was lost.  Its lock is held."""
    before, after = _neighbour(directory, number - 1), _neighbour(directory, number + 1)
    with opened_index(directory, number) as index:
        found = _from_index(index, number)
    uuid, first, end = found if found is not None else (None, None, None)
    for each in (before, after):
        if each is not None and each.is_native:
            uuid = uuid or each.uuid
    if before is not None and before.is_native:
        first = before.first_sequence + before.record_count
    header = new_log_header(
        number=number, uuid=uuid or new_log_uuid(), first_sequence=first or 0, created_ns=time.time_ns(),
        boot_id=boot_id(), epoch=1 + max((each.epoch for each in (before, after) if each is not None), default=0),
    )  # fmt: skip
    if after is not None:
        header = header._replace(status=Status.CLOSED, next_number=number + 1)
    lost = f"all up to offset {end} by the index" if end else "all that it had"
    return header, f"the records of the file are lost, {lost}"


def _neighbour(directory: LogDirectory, number: int) -> LogHeader | None:
    with suppress(BinlogError):
        return directory.read_header(number)
    return None


def _from_index(index: Index | None, number: int) -> tuple[bytes, int | None, int | None] | None:
    """Return the UUID, first sequence and end offset that the index of the file has."""
    if index is None or not index.named or len(index.header) < INDEX_HEADER.size:
        return None
    values = INDEX_HEADER.unpack(index.header)
    if values["number"] != number or not any(values["uuid"]):
        return None
    first, last = (index.entry(0), index.entry(index.count - 1)) if index.count else (None, None)
    return values["uuid"], None if first is None else first.sequence, None if last is None else last.end


_FILLED_AT_ONCE = 1 << 20
_ZERO = LOG_HEADER.offset("zero")

Done = tuple[str, int, str, str]
"""Path, offset, action and text of one action."""


class FileRepair:
    """Repairs one file, or with `dry_run` only reports.  done: the actions."""

    def __init__(self, directory: LogDirectory, number: int, fd: int, *, dry_run: bool) -> None:
        self.done: list[Done] = []
        self._directory = directory
        self._number = number
        self._fd = fd
        self._path = directory.log_path(number)
        self._dry_run = dry_run
        self._recovery = Recovery(directory, number, DiskFile(fd, self._path))

    def report(self, offset: int, action: str, text: str) -> None:
        """Add an action to `done`."""
        self.done.append((self._path, offset, action, text))

    def repair_header(self) -> LogHeader | None:
        """Return the header after rewriting its wrong fields; None if a dry run cannot continue.

        Raises: CorruptError, VersionError if more than one bit under a checksum is flipped.
        """
        fd, path = self._fd, self._path
        data = read_at(fd, HEADER_BYTES, 0, path)
        if len(data) < HEADER_BYTES:
            return self._restore_header(len(data))
        try:
            parse_log_header(data, path=path, number=self._number)
        except (CorruptError, VersionError):
            corrected = mended_identity(data, number=self._number)
            if corrected is None:
                raise
            at = next(at for at in range(HEADER_BYTES) if corrected[at] != data[at])
            self.report(at, "header", "a flipped bit of the header is corrected")
            if self._dry_run:
                return None
            write_at(fd, corrected[at : at + 1], at, path)
        found, header = self._directory.believed_header(fd, self._number)
        if is_unproven(header, FileEvidence(fd, path)):
            header = header._replace(tail=header.published_tail)
        if header != found:
            text = "the header's status, next number or tail cannot be right, and is rewritten"
            self.report(LOG_HEADER.offset("status"), "header", text)
        if header.is_native and any(header.zero):
            header = header._replace(zero=bytes(len(header.zero)))
            self.report(_ZERO, "header", "the header's last eight bytes are reset to zero")
        if not self._dry_run:
            heal(fd, found, header, path)
            if header.zero != found.zero:
                write_at(fd, header.zero, _ZERO, path)
            if self.done:
                sync(fd, path)
        return header

    def _restore_header(self, size: int) -> LogHeader | None:
        """Write a new header to a file that was cut below it, and close the file without records."""
        header, lost = rebuilt_header(self._directory, self._number)
        self.report(size, "cut", f"the file was cut to {size} bytes: {lost}; the file is closed without records")
        if self._dry_run:
            return None
        self._directory.remove(index_file_name(self._number))
        write_at(self._fd, header.pack(), 0, self._path)
        sync(self._fd, self._path)
        if header.closed:
            return header
        self._close_at(header, header.first_offset, header.first_offset)
        return None

    def check_cut(self, header: LogHeader) -> bool:
        """If the file ends before its tail, end it at the last whole record and return True."""
        size = os.fstat(self._fd).st_size
        if not header.is_native or size >= header.tail:
            return False
        text = f"the file was cut to {size} bytes, and the records from there to {header.tail} are lost"
        if not header.closed:
            self.salvage(header, text)
            return True
        good = last_whole_record_end(self._fd, header.first_offset, size, self._path)
        self.report(good, "shortened", f"{text}: {size - good} bytes are quarantined, the file ends at {good}")
        if not self._dry_run:
            self._end_at(header, good, size)
        return True

    def recover(self, header: LogHeader, verdict: Verdict) -> LogHeader:
        """Carry out the verdict on a closed file, which writers no longer open; return the new header."""
        self.report(verdict.tail, "recovered", f"the file is recovered: {verdict.action.value}")
        return header if self._dry_run else self._recovery.carry_out(header, verdict)

    def repair(self, header: LogHeader) -> None:
        """Repair damaged records and the index of a file that needs no recovery."""
        damaged, sound_to, contradicts = self._by_index(header)
        filled = False
        for each in damaged:
            count = self._count(each, header)
            if count is None:
                sound_to = each.start  # the start of the next record is not known
                break
            self._fill(each, count)
            filled = True
        end = last_whole_record_end(self._fd, sound_to, header.tail, self._path)
        if end < header.tail:
            header = self._cut(header, end)
        elif filled and header.is_native and not header.closed:
            self.commit_in_new_epoch(header)
        elif header.is_native and header.has_damaged_slot and header.tail == header.published_tail:
            self.report(LOG_HEADER.offset("slot_0"), "header", "a commit slot whose CRC does not match is replaced")
            self.commit_in_new_epoch(_without_spoilt(header))
        if not self._dry_run or not filled:
            self._index(header, contradicts=contradicts)

    def salvage(self, header: LogHeader, reason: str) -> None:
        """Keep the sound records of a file that has lost acknowledged ones, close it, and continue in the next file."""
        start = header.first_offset
        size = os.fstat(self._fd).st_size
        end = min(header.tail, size) if header.tail >= start else size
        good = start
        with opened_index(self._directory, self._number) as index:
            if index is not None:
                check = IndexCheck(index, self._fd, header._replace(tail=end), self._path)
                found = next(check.run(), None)
                good = found.start if isinstance(found, DamagedRange) else check.end
        slots = [slot for slot in header.slots() if slot.start >= good]
        limit = min([end, *(slot.start for slot in slots)])
        good = max(good, last_whole_record_end(self._fd, good, max(limit, good), self._path))
        self.report(good, "shortened", f"{reason}: {end - good} bytes are quarantined, the file is closed at {good}")
        if self._dry_run:
            return
        self._close_at(header, good, end)

    def fill_gap(self, header: LogHeader, count: int) -> LogHeader:
        """Append fillers for records that are missing after the last one; return the new header.

        The fillers count once the header has their end.  If the process dies before, they are after the tail and mean
        nothing.
        Raises: FullError with nothing changed.
        """
        start = header.tail
        filler, end = _gap_fillers(self._number, start, count)
        records = "1 record is" if count == 1 else f"{count} records are"
        text = f"{records} missing before file {self._number + 1}: fillers replace them, up to {end}"
        self.report(start, "filled", text)
        if self._dry_run:
            return header._replace(tail=end)
        fd, path = self._fd, self._path
        size = os.fstat(fd).st_size
        try:
            if end > size:
                allocate(fd, size, end, path)
        except FullError:
            truncate(fd, size, path)
            raise
        # The name comes before the fillers count, because `check` finds them by it.
        if not any(taken[1] == start for taken in self._quarantined()):
            self._recovery.quarantine(start, end, copied_end=start)
        per_write = max(_FILLED_AT_ONCE // len(filler), 1)
        for first in range(0, count, per_write):
            write_at(fd, filler * min(per_write, count - first), start + first * len(filler), path)
        sync(fd, path)
        # The index may be a later copy than the file, with entries of other records here.
        complete_index(self._directory, header, fd)
        if header.is_native:
            before = RecordCounts(self._directory).sequence_after(header, fd) - header.first_sequence
            header = header._replace(tail=end, published_tail=end, record_count=before + count)
            self.commit_in_new_epoch(header)
        else:
            write_at(fd, end.to_bytes(8, "big"), LOG_HEADER.offset("tail"), path)
            sync(fd, path)
            header = header._replace(tail=end)
        return header

    def _quarantined(self) -> list[tuple[int, int, int]]:
        names = self._directory.quarantined().get(self._number, [])
        return [taken for name in names if (taken := damaged_file_range(name)) is not None]

    def _by_index(self, header: LogHeader) -> tuple[list[DamagedRange], int, bool]:
        """Return the damaged ranges by the index, how far it reaches, and whether it must be rebuilt."""
        with opened_index(self._directory, self._number) as index:
            if index is None:
                return [], header.first_offset, True
            check = IndexCheck(index, self._fd, header, self._path)
            found = list(check.run())
            damaged = [each for each in found if isinstance(each, DamagedRange)]
            # Without a sound entry, the lengths must lead to the end, and give the record count by the entries around.
            unproven = [each for each in found if isinstance(each, Unproven)]
            damaged += [
                DamagedRange(each.start, each.end, each.record_count)
                for each in unproven
                if self._count_by_lengths(each, header) != each.record_count
            ]
            damaged.sort(key=lambda each: each.start)
            return damaged, check.end, any(isinstance(each, Contradiction) for each in found) or index.blank

    def _count(self, damaged: DamagedRange, header: LogHeader) -> int | None:
        """Return the record count of a damaged range, by the entries around it or by the lengths; None if not known."""
        if damaged.record_count is not None:
            return damaged.record_count
        return self._count_by_lengths(damaged, header)

    def _count_by_lengths(self, part: DamagedRange | Unproven, header: LogHeader) -> int | None:
        """Return how many records the lengths lead through; None if they do not lead to the range's end."""
        try:
            count, end = count_records(self._fd, part.start, part.end, header.tail, self._path)
        except CorruptError:
            return None
        return count if end == part.end else None

    def _fill(self, damaged: DamagedRange, count: int) -> None:
        start, end = damaged.start, damaged.end
        name = damaged_file_name(self._number, start, end)
        text = f"{count} records, one of them damaged, are quarantined in {name}; fillers replace them"
        self.report(start, "quarantined", text)
        if self._dry_run:
            return
        self._recovery.quarantine(start, end)
        write_at(self._fd, self._filler(start, end, count), start, self._path)
        sync(self._fd, self._path)
        self._correct_entry(start, end)

    def _filler(self, start: int, end: int, count: int) -> bytes:
        """Return n fillers for a range, at the same offsets as the records if their lengths are sound."""
        data = read_at(self._fd, end - start, start, self._path)
        lengths: list[int] = []
        at = 0
        while at + LENGTH_BYTES <= len(data) and len(lengths) <= count:
            lengths.append(int.from_bytes(data[at : at + LENGTH_BYTES], "big"))
            at += LENGTH_BYTES + lengths[-1]
        if at != end - start or len(lengths) != count:
            lengths = [end - start - LENGTH_BYTES * count] + [0] * (count - 1)
        text = filler_text(self._number, start, end)
        return b"".join(length.to_bytes(LENGTH_BYTES, "big") + text[:length].ljust(length) for length in lengths)

    def _correct_entry(self, start: int, end: int) -> None:
        """Update the index entry of the range with the CRC of its fillers."""
        with opened_index(self._directory, self._number) as index:
            if index is None:
                return
            number, seed = index.count_before(start), index.seed
            entry = index.entry(number)
        if entry is not None and (entry.offset, entry.end) == (start, end):
            crc = crc32c(read_at(self._fd, end - start, start, self._path))
            with closing(IndexWriter(self._directory, self._number, self._fd)) as writing:
                write_at(writing.fd, entry._replace(range_crc=crc).pack(seed), entry_offset(number), writing.path)
                sync(writing.fd, writing.path)

    def _cut(self, header: LogHeader, end: int) -> LogHeader:
        """Quarantine everything from `end` on, and close the file there, or leave it closed."""
        text = f"a record is damaged, and the start of the next is not known: {header.tail - end} bytes are quarantined"
        if not header.is_native:
            return header  # in a foreign file only the tail is ever moved, and never back
        self.report(end, "shortened", f"{text}, the file ends at {end}")
        if self._dry_run:
            return header
        if not header.closed:
            self._close_at(header, end, header.tail)
            return header._replace(tail=end)
        return self._end_at(header, end, header.tail)

    def _end_at(self, header: LogHeader, good: int, end: int) -> LogHeader:
        """Quarantine the bytes of a closed file from `good` to `end`, and end the file there."""
        count, _ = count_records(self._fd, header.first_offset, good, good, self._path)
        if good < end:
            self._recovery.quarantine(good, end)
        confirmed = min(header.confirmed_end, good)
        cut = header._replace(tail=good, published_tail=good, record_count=count, confirmed_end=confirmed)
        self.commit_in_new_epoch(cut)
        truncate(self._fd, good, self._path)
        return cut

    def _close_at(self, header: LogHeader, good: int, end: int) -> None:
        slots = [slot for slot in header.slots() if slot.end <= good]
        counter = max([header.confirmed_counter if header.live_good else 0, *(slot.counter for slot in header.slots())])
        kept_flags = Flag.FOREIGN_WRITERS | Flag.STRICT | Flag.INTENT
        base = _without_spoilt(header)._replace(
            live_good=True,
            published_tail=slots[0].end if slots else header.first_offset,
            record_count=slots[0].record_count if slots else 0, confirmed_end=good, confirmed_counter=counter,
            flags=header.flags & kept_flags if header.live_good else Flag.INTENT,
        )  # fmt: skip
        self._recovery.carry_out(base, Verdict(14, Action.CLOSE, good, end=end))

    def commit_in_new_epoch(self, header: LogHeader) -> None:
        """Write an empty commit at the tail, in a new epoch, so that no slot has a CRC of overwritten bytes."""
        slot = CommitSlot(
            counter=header.confirmed_counter + 1, start=header.tail, end=header.tail, record_count=header.record_count,
            time_ns=time.time_ns(), group_crc=0, epoch=header.epoch + 1, nonce=int.from_bytes(os.urandom(4), "big"),
        )  # fmt: skip
        if self._dry_run:
            return
        self._recovery.rewrite(header.confirmed_end, header.tail)
        sync(self._fd, self._path)
        self._recovery.write(
            header.with_slot(slot)._replace(
                confirmed_counter=slot.counter, confirmed_end=header.tail, running_crc=0,
                epoch=header.epoch + 1, boot_id=boot_id(),
            )
        )  # fmt: skip
        sync(self._fd, self._path)

    def _index(self, header: LogHeader, *, contradicts: bool) -> None:
        """Complete the index, or rebuild it if it contradicts the file."""
        with opened_index(self._directory, self._number) as index:
            if index is not None and not contradicts and IndexCheck(index, self._fd, header, self._path).complete():
                return
        self.report(header.first_offset, "index", "the index rebuilt" if contradicts else "the index completed")
        if not self._dry_run:
            complete_index(self._directory, header, self._fd, rebuild=contradicts)


def _gap_fillers(number: int, start: int, count: int) -> tuple[bytes, int]:
    """Return one of n framed fillers, and where the last one ends.  Raises: FullError if no file is so large."""
    end = start
    while True:
        # The text has the end, which depends on the length of the text; it fits after one or two rounds.
        text = filler_text(number, start, end)
        found = start + count * (LENGTH_BYTES + len(text))
        if found > OFFSET_MAX:
            raise FullError(f"there is no room for {count} fillers in file {number}", limit=OFFSET_MAX, size=found)
        if found == end:
            return len(text).to_bytes(LENGTH_BYTES, "big") + text, end
        end = found


def _without_spoilt(header: LogHeader) -> LogHeader:
    """Return the header with zeros for each commit slot whose CRC does not match."""
    good = {slot.counter & 1 for slot in header.slots()}
    return header._replace(
        slot_0=header.slot_0 if 0 in good else bytes(SLOT_BYTES),
        slot_1=header.slot_1 if 1 in good else bytes(SLOT_BYTES),
    )
