"""Checking a log: finds everything that is wrong with it, and repairs nothing.

May run while other processes append.  A cutover whose process died is not a problem: the next writer finishes it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator

from binlog.errors import BinlogError, CorruptError, NotFoundError
from binlog.format.log_header import (
    FIRST_OFFSET,
    HEADER_BYTES,
    LOG_HEADER,
    SLOT_BYTES,
    Flag,
    LogHeader,
    parse_log_header,
    parse_slot,
)
from binlog.format.names import (
    INGEST_FILE,
    archive_file_number,
    damaged_file_range,
    unfinished_archive_number,
)
from binlog.format.problem import Problem, problem_of
from binlog.log.append.producers import damaged_producer_files
from binlog.log.directory import LogDirectory, OpenedFile
from binlog.log.files.header import check_size, read_header, validated_header
from binlog.log.files.sequences import gap_error, missing_between, missing_next_error
from binlog.log.index.index import CLOCK_STEP_NS, index_path, index_times, opened_index
from binlog.log.index.index_check import Contradiction, DamagedRange, IndexCheck
from binlog.log.ingest.ingest_record import inspect_ingest
from binlog.log.recovery.record_walk import count_records
from binlog.storage.files import ByteSource, LostFrameError

# Names that logrotate and people give to log files: 00000001.dat.1, 00000001.dat-20261126, 00000001.dat.old.
_RENAMED = re.compile(r"\d{8}\.dat.+")

FLIPPED = "a bit of it is flipped; its checksum shows which one, and it is read as it was written"


def check(path: str | os.PathLike[str], *, number: int | None = None) -> list[Problem]:
    """Return every problem found in the log in a directory; an empty list for none.

    number: check only this file, whether it follows the one before it, and if it is the last one, whether the next
    exists.  Such calls for each of `file_sizes`, in parallel, find together the same as one for the whole log.
    Reads every record's length, every byte that an index covers, and every frame of an archive, whose offsets are those
    of the log file.  Takes no lock and writes nothing.
    Raises: NotFoundError if the directory does not exist or has no log; AccessError if it cannot be read.
    """
    with LogDirectory(path) as directory:
        return list(_check(directory, number))


def _check(directory: LogDirectory, only: int | None) -> Iterator[Problem]:
    before: LogHeader | None = None
    numbers = directory.log_numbers()
    quarantined = directory.quarantined()
    last = numbers[-1] if numbers else None
    if only is not None:
        numbers = [number for number in numbers if number < only][-1:] + ([only] if only in numbers else [])
    for number in numbers:
        wanted = only in (None, number)
        path = directory.log_path(number)
        header = None
        try:
            with directory.log_file(number) as file:
                path = file.path
                validated = validated_header(file.content, number, path)
                header = directory.believe(validated)
                if wanted:
                    yield from _check_witnesses(file, validated, header)
                    yield from _check_quarantined(directory, header, quarantined.get(number, ()))
                    yield from _check_one(directory, file, header)
        except NotFoundError:
            before = None  # pruned after the listing
            continue
        except BinlogError as error:
            if wanted:
                yield problem_of(error, path)
        if wanted and before is not None and header is not None:
            yield from _check_pair(before, header, directory)
        before = header
    if before is not None and only in (None, last):
        yield from _check_last(before, directory)
    if only is None:
        yield from _check_renamed(directory)
    if only in (None, last):
        yield from _check_ingest(directory)
        yield from _check_producers(directory)


def _check_ingest(directory: LogDirectory) -> Iterator[Problem]:
    try:
        found = inspect_ingest(directory)
    except CorruptError as error:
        yield problem_of(error, directory.path)
        return
    if found is not None and found[1]:
        yield Problem(directory.file_path(INGEST_FILE), 0, "ingest", FLIPPED)


def _check_producers(directory: LogDirectory) -> Iterator[Problem]:
    for name, error in damaged_producer_files(directory).items():
        path = directory.file_path(name)
        yield Problem(path, 0, "producer", FLIPPED) if error is None else problem_of(error, path)


def _check_witnesses(file: OpenedFile, validated: LogHeader, believed: LogHeader) -> Iterator[Problem]:
    """Report header fields without a checksum that other facts contradict, so that they are not believed."""
    path = file.path
    if validated.status != believed.status:
        at, words = LOG_HEADER.offset("status"), ("open", "closed")
        text = f"the status is {validated.status}, and the file is {words[believed.status]}"
        yield Problem(path, at, "status", text)
    if validated.next_number != believed.next_number:
        at = LOG_HEADER.offset("next_number")
        text = f"the next number is {validated.next_number}, which can only be {believed.next_number}"
        yield Problem(path, at, "next-number", text)
    found = read_header(file.content, believed.number, path)
    if not found.is_native or (found.live_good and found.tail == found.published_tail):
        return
    if found != read_header(file.content, believed.number, path):
        return  # a write was in progress
    if not found.live_good:
        yield Problem(path, LOG_HEADER.offset("live_crc"), "live-crc", "the live block's CRC does not match")
    elif found.tail < found.published_tail or validated.tail == validated.published_tail == found.published_tail:
        text = f"the tail is {found.tail}, but only {validated.tail} can be right"
        yield Problem(path, LOG_HEADER.offset("tail"), "tail", text)


def _check_one(directory: LogDirectory, file: OpenedFile, header: LogHeader) -> Iterator[Problem]:
    """Report everything that is wrong within one file."""
    path = file.path
    lost = [] if file.archive is None else list(file.archive.lost_frames())
    faults = [] if file.archive is None else file.archive.faults
    yield from (Problem(path, 0, "archive", f"{fault}; it is still readable") for fault in faults)
    yield from (Problem(each.path, each.offset, each.rule, each.text) for each in lost)
    yield from _check_index(directory, file, header, lost)
    yield from _check_times(directory, header, path)
    if not lost:
        yield from _check_file(file.content, header, path)


def _check_file(content: ByteSource, header: LogHeader, path: str) -> Iterator[Problem]:
    if header.is_native:
        yield from _check_blocks(header, path)
    check_size(header.tail, content, path)
    if not header.is_native:
        count_records(content, header.first_offset, header.tail, header.tail, path)
        return
    count, end = count_records(content, FIRST_OFFSET, header.published_tail, header.tail, path)
    if end != header.published_tail:
        yield Problem(path, end, "chain", f"the records' lengths do not meet our tail {header.published_tail}")
    elif count != header.record_count:
        at = LOG_HEADER.offset("record_count")
        yield Problem(path, at, "record-count", f"the header counts {header.record_count} records, there are {count}")
    count_records(content, end, header.tail, header.tail, path)


def _check_index(
    directory: LogDirectory, file: OpenedFile, header: LogHeader, lost: list[LostFrameError]
) -> Iterator[Problem]:
    """Report damaged ranges.  lost: lost frames, which were reported already."""
    path = file.path
    with opened_index(directory, header.number) as index:
        if index is None:
            return
        for found in IndexCheck(index, file.content, header, path).run():
            if isinstance(found, DamagedRange):
                if any(each.offset < found.end and found.start < each.end for each in lost):
                    continue
                text = f"the bytes from {found.start} to {found.end} are not those that were written there"
                yield Problem(path, found.start, "index-crc", text, found.end)
            elif isinstance(found, Contradiction):
                yield Problem(index_path(path), found.offset, "index", found.text)


def _check_times(directory: LogDirectory, header: LogHeader, path: str) -> Iterator[Problem]:
    """Report times that contradict the clock or each other by more than an adjustment of a clock does."""
    if not header.is_native:
        return
    now_ns = time.time_ns() + CLOCK_STEP_NS
    times = index_times(directory, header)
    at = LOG_HEADER.offset("created_ns")
    if header.created_ns > now_ns:
        yield Problem(path, at, "time", "the file was made in the future, by its header")
    if times is not None and times[1] > now_ns:
        yield Problem(index_path(path), 0, "time", "records were appended in the future, by their times")
    elif times is not None and times[0] + CLOCK_STEP_NS < header.created_ns <= now_ns:
        yield Problem(index_path(path), 0, "time", "records were appended before the file was made, by their times")


def _check_quarantined(directory: LogDirectory, header: LogHeader, names: Iterable[str]) -> Iterator[Problem]:
    """Report acknowledged records that are lost, as long as their quarantined bytes are kept."""
    for name in names:
        _, start, end = damaged_file_range(name) or (0, 0, 0)
        # Recovery quarantines only bytes that were never acknowledged, after the tail of the file that it cut.
        if start < header.published_tail:
            text = f"the records from {start} to {end} were damaged and are quarantined in {name}; fillers replace them"
            status = directory.status(name)
            if status is not None and status.st_size == 0:
                text = f"records are missing; fillers replace them from {start} to {end}, as {name} says"
            yield Problem(directory.log_path(header.number), start, "quarantined", text, end)


def _check_blocks(header: LogHeader, path: str) -> Iterator[Problem]:
    if header.flags & Flag.POISON:
        text = f"a write or sync failed ({os.strerror(header.poison_errno)}); what the disk holds is not known"
        yield Problem(path, LOG_HEADER.offset("flags"), "poison", text)
    if any(header.zero):
        yield Problem(path, LOG_HEADER.offset("zero"), "zero", "the header's last eight bytes are not zero")
    for name, slot in (("slot_0", header.slot_0), ("slot_1", header.slot_1)):
        # Recovery leaves zeros for a commit that it dropped; the last confirmed slot always exists.
        last = name == f"slot_{header.confirmed_counter & 1}"
        if (last or slot != bytes(SLOT_BYTES)) and parse_slot(slot, uuid=header.uuid, number=header.number) is None:
            yield Problem(path, LOG_HEADER.offset(name), "slot-crc", "the commit slot's CRC does not match")


def _check_pair(before: LogHeader, header: LogHeader, directory: LogDirectory) -> Iterator[Problem]:
    """Report problems between two consecutive files, read twice because writers may continue the log meanwhile."""
    if not list(_pair_problems(before, header, directory)):
        return
    try:
        before, header = directory.read_header(before.number), directory.read_header(header.number)
    except BinlogError:
        return  # pruned meanwhile, or reported already
    yield from _pair_problems(before, header, directory)


def _pair_problems(before: LogHeader, header: LogHeader, directory: LogDirectory) -> Iterator[Problem]:
    path, path_before = directory.path_of(header.number), directory.path_of(before.number)
    if before.closed and before.next_number != header.number:
        if not directory.exists(before.next_number):
            yield _missing_next(before, directory)
        return
    missing = _missing_between(before, header, directory)
    if missing:
        yield problem_of(gap_error(path_before, before.number, missing), path_before)
    elif not before.closed and (header.number != before.number + 1 or not header.unused):
        text = f"file {before.number} is open, and is followed by file {header.number}, which is in use"
        yield Problem(path_before, LOG_HEADER.offset("status"), "two-open", text)
    if not (before.is_native and header.is_native):
        return
    times = index_times(directory, before)
    if before.closed and times is not None and times[1] > max(header.created_ns, before.created_ns) + CLOCK_STEP_NS:
        text = "records were appended after the next file was made, by their times"
        yield Problem(index_path(path_before), 0, "time", text)
    if before.closed and before.published_tail < before.tail:
        # A native writer closed the file, because the next one is native too: these bytes came later.
        text = f"{before.tail - before.published_tail} bytes of records that another program appended after the close"
        yield Problem(path_before, before.published_tail, "late", text)
    if before.uuid != header.uuid:
        yield Problem(path, LOG_HEADER.offset("uuid"), "uuid", "the file belongs to another log than the one before it")
    expected = before.first_sequence + before.record_count
    if before.closed and header.first_sequence != expected and not missing:
        at = LOG_HEADER.offset("first_sequence")
        text = f"the first record's sequence is {header.first_sequence}, the file before ends at {expected}"
        yield Problem(path, at, "sequence", text)


def _missing_between(before: LogHeader, header: LogHeader, directory: LogDirectory) -> int:
    if header.number != before.number + 1:
        return 0
    with directory.log_file(before.number) as file:
        return missing_between(directory, before, file.content, header)


def _check_last(last: LogHeader, directory: LogDirectory) -> Iterator[Problem]:
    """Report that the last file of the listing names a next file that does not exist."""
    is_lost = last.closed and not directory.exists(last.next_number) and directory.exists(last.number)
    if is_lost and not directory.ends_at(last.number):
        yield _missing_next(last, directory)


def _check_renamed(directory: LogDirectory) -> Iterator[Problem]:
    """Report log files whose names are not those of a log, such as logrotate's: their records are not in the log."""
    for name in sorted(directory.names()):
        if (
            not _RENAMED.match(name)
            or archive_file_number(name)
            or unfinished_archive_number(name)
            or damaged_file_range(name)
        ):
            continue
        path = directory.file_path(name)
        try:
            header = parse_log_header(directory.read(name, HEADER_BYTES), path=path)
        except BinlogError:
            continue  # not a log file, or not readable
        text = f"it is file {header.number} of a log under another name; its {header.record_count} records are not read"
        yield Problem(path, 0, "moved", text)


def _missing_next(before: LogHeader, directory: LogDirectory) -> Problem:
    path = directory.path_of(before.number)
    return problem_of(missing_next_error(path, before), path)
