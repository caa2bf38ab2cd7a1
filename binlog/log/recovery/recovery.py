"""Carrying out the verdict of the recovery table on a log file, under its lock.

Every row ends in the same way.  The kept bytes that are not known to be confirmed are written again and synced.  Then
one write changes all header fields, and is synced as well.  So each step may be repeated: if the process dies or the
power fails, the file has the same verdict again, or KEEP.

The bytes are written again although the file has them, because a descriptor reports only errors of pages that became
dirty after it was opened: a sync error is reported once, perhaps to a process that is gone (fsync(2);
docs/durability.md).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from binlog.errors import BusyError, CorruptError
from binlog.format.checksums import crc32c
from binlog.format.log_header import HEADER_BYTES, LOG_HEADER, RECOVERED, CommitSlot, Flag, LogHeader
from binlog.format.names import damaged_file_name, prepared_file_name
from binlog.log.recovery.file_operations import Directory, File
from binlog.log.recovery.record_walk import count_records
from binlog.log.recovery.recovery_table import Action, Verdict
from binlog.storage.boot import boot_id
from binlog.storage.files import content_bytes, read_at

_COPY_BYTES = 1 << 20
_NONCE_BYTES = 4
_SLOTS = (LOG_HEADER.offset("slot_0"), LOG_HEADER.offset("slot_1"))


class Recovery:
    """Brings one file to a state in which a commit can follow, or in which it can be closed."""

    def __init__(self, directory: Directory, number: int, file: File) -> None:
        self._directory = directory
        self._number = number
        self._file = file

    def carry_out(self, header: LogHeader, verdict: Verdict, *, opened_before_unconfirmed: bool = False) -> LogHeader:
        """Carry out the verdict and return the header as it is then.

        opened_before_unconfirmed: the descriptor was open before any program wrote the unconfirmed bytes.
        After Action.CLOSE the file names the next one and is still open; the cutover closes it.
        Raises: CorruptError for Action.REFUSE; FullError with the file unchanged; PoisonedError.
        """
        match verdict.action:
            case Action.REFUSE:
                raise CorruptError(self._file.path, verdict.tail, f"recovery-{verdict.row}", verdict.text)
            case Action.KEEP:
                is_confirmed = header.boot_id == boot_id() and header.slot(header.confirmed_counter + 1) is None
                if not header.is_native or header.closed or is_confirmed:
                    return header
                return self.write(_of_this_boot(header))
            case Action.CONFIRM:
                return self._confirmed(header, verdict.tail, header.published_tail, slot_first=True)
            case Action.ADOPT:
                # Our empty commit marks the end of another program's bytes and confirms them.  If an error of that
                # program's sync would not be reported here, the bytes are written again.
                self.rewrite(header.confirmed_end, header.published_tail if opened_before_unconfirmed else verdict.tail)
                header = header.without_slot(header.confirmed_counter + 1)
                header = header._replace(
                    confirmed_end=verdict.tail, flags=header.flags | Flag.FOREIGN_WRITERS | Flag.STRICT
                )
                return self._confirmed(header, verdict.tail, header.published_tail, slot_first=True)
            case Action.ROLL_FORWARD | Action.RESTORE:
                assert verdict.slot is not None
                header = self._from_slot(header, verdict.slot)
                return self._confirmed(header, verdict.tail, verdict.slot.end, slot_first=True)
            case Action.CLOSE:
                return self._closed_early(header, verdict)

    def _from_slot(self, header: LogHeader, slot: CommitSlot) -> LogHeader:
        """Return the header with the slot's commit confirmed, after writing its bytes again."""
        self.rewrite(slot.start, slot.end)
        believed = header.live_good
        return header.committed(slot)._replace(
            epoch=header.epoch if believed else slot.epoch,
            # The damaged flags may have included an intent, so resolve every pending batch.
            flags=header.flags if believed else Flag.INTENT,
            boot_id=header.boot_id if believed else bytes(16),
        )

    def _confirmed(self, header: LogHeader, tail: int, counted: int, *, slot_first: bool = False) -> LogHeader:
        """Return the header with everything up to `tail` confirmed, by a new commit if bytes follow the last one.

        counted: the offset up to which `header.record_count` counts.
        slot_first: as in a commit, write the slot with the bytes, before the live block that relies on it.  Not if
            bytes are dropped: the slot alone would describe a commit that ends there.
        """
        header = self._up_to(header, tail, counted)
        slot = header.slot(header.confirmed_counter)
        if slot_first and slot is not None:
            self._file.write(slot.pack(uuid=header.uuid, number=header.number), _SLOTS[slot.counter & 1])
        self._file.sync()
        header = self.write(_of_this_boot(header))
        self._file.sync()
        return header

    def _up_to(self, header: LogHeader, tail: int, counted: int) -> LogHeader:
        start = header.confirmed_end
        self.rewrite(start, tail)
        count = header.record_count
        if counted != tail:
            count = self._count(header, counted, tail)
        header = header._replace(tail=tail, published_tail=tail, record_count=count, confirmed_end=tail, running_crc=0)
        last = header.slot(header.confirmed_counter)
        if last is not None and last.end == tail:
            return header
        # An empty commit if no bytes follow: the last slot always ends at the end of the confirmed bytes.
        slot = CommitSlot(
            counter=header.confirmed_counter + 1,
            start=start,
            end=tail,
            record_count=count,
            time_ns=max(time.time_ns(), 0 if last is None else last.time_ns + 1),
            group_crc=self._crc(start, tail),
            epoch=header.epoch,
            nonce=int.from_bytes(os.urandom(_NONCE_BYTES), "big"),
        )
        return header.committed(slot)

    def _closed_early(self, header: LogHeader, verdict: Verdict) -> LogHeader:
        """Keep the proven bytes, quarantine the rest, and name the next file, so that no offset is used twice."""
        if verdict.slot is not None:
            header = self._from_slot(header, verdict.slot)
        end = min(verdict.end, content_bytes(self._file.content))
        if end > verdict.tail:
            self.quarantine(verdict.tail, self._free_end(verdict.tail, end), copied_end=end)
        header = header.without_slot(header.confirmed_counter + 1)
        flags = header.flags & ~Flag.POISON
        header = header._replace(epoch=_after(header.epoch), flags=flags, poison_errno=0)
        if header.closed:
            # No count covers records added after the close; those that are kept stay after the published tail.
            header = self.write(_of_this_boot(header._replace(tail=verdict.tail)))
            self._file.sync()
            return header
        header = header._replace(next_number=header.number + 1)
        return self._confirmed(header, verdict.tail, header.published_tail)

    def _free_end(self, start: int, end: int) -> int:
        """Return the end for the name of the quarantined range; later than `end` if other bytes have that name.

        That happens if a recovery that died quarantined them, and another program has appended in their place since.
        """
        named, names = end, self._directory.names()
        while (name := damaged_file_name(self._number, start, named)) in names:
            if crc32c(self._directory.read(name, end - start)) == self._crc(start, end):
                break
            named += 1
        return named

    def _count(self, header: LogHeader, counted: int, tail: int) -> int:
        """Return the number of records before `tail`, counted from the nearest offset with a known count."""
        start, count = HEADER_BYTES, 0
        slots = (slot for slot in header.slots() if slot.counter <= header.confirmed_counter)
        for at, known in [(counted, header.record_count), *((slot.end, slot.record_count) for slot in slots)]:
            if start <= at <= tail:
                start, count = at, known
        more, _ = count_records(self._file.content, start, tail, tail, self._file.path)
        return count + more

    def write(self, header: LogHeader) -> LogHeader:
        """Write the header from the tail to the slots, ring the doorbell, and return the header.  Not synced."""
        if header.slot(header.confirmed_counter + 1) is not None:
            # This slot did not validate, or is not ours; if it stayed, it would be judged again in this boot.
            header = header.without_slot(header.confirmed_counter + 1)
        header = header._replace(doorbell=_after(header.doorbell), live_good=True)
        self._file.write(header.recovered(), RECOVERED.start)
        return header

    def rewrite(self, start: int, end: int) -> None:
        """Write existing bytes again, so that a sync through this descriptor reports errors of them."""
        for at, data in self._blocks(start, end):
            self._file.write(data, at)

    def _crc(self, start: int, end: int) -> int:
        crc = 0
        for _, data in self._blocks(start, end):
            crc = crc32c(data, crc)
        return crc

    def _blocks(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        while start < end:
            data = read_at(self._file.content, min(_COPY_BYTES, end - start), start, self._file.path)
            if not data:
                raise CorruptError(self._file.path, start, "truncated", f"the file ends before {end}")
            yield start, data
            start += len(data)

    def quarantine(self, start: int, end: int, *, copied_end: int | None = None) -> None:
        """Copy a range to a quarantine file, durably.  If the name exists, its file is complete: a recovery died.

        copied_end: the end of the copied bytes, if it is not the end of the range.
        Raises: BusyError if a cutover removed the copy before it had its name; FullError; PoisonedError.
        """
        directory = self._directory
        # No cutover sweeps this name while this file is the newest.
        name = prepared_file_name(max([self._number, *directory.numbers()]) + 1)
        kept = damaged_file_name(self._number, start, end)
        with directory.created(name, self._file.access()) as copy:
            try:
                for at, data in self._blocks(start, end if copied_end is None else copied_end):
                    copy.write(data, at - start)
                copy.sync()
                if not directory.link(name, kept):
                    directory.remove(name)
                    if kept not in directory.names():
                        raise BusyError(f"{copy.path} was removed by a cutover; try again", holder=None)
            except BaseException:
                directory.remove(name)
                raise


def _after(value: int) -> int:
    return (value + 1) & 0xFFFFFFFF


def _of_this_boot(header: LogHeader) -> LogHeader:
    """Return the header as of this boot: another boot's page cache is gone, and with it the poison there."""
    if header.boot_id == boot_id():
        return header
    flags = header.flags & ~Flag.POISON
    return header._replace(epoch=_after(header.epoch), boot_id=boot_id(), flags=flags, poison_errno=0)
