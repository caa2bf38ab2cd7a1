"""Damage in a journal's file, as far as the file itself shows it.

In the native layout records follow each other, with zeros in between only if a head does not fit in the rest of a
block.  Zeros follow the last record, and a file that takes no more appends declares where its records end.  So every
flipped bit of a record shows.  In JBoss Messaging's layouts, only a wrong length shows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from binlog.format.journal.block import HEAD_BYTES, Part, fragment_at, fragment_start
from binlog.format.journal.compiled import ColumnScan
from binlog.format.journal.file_header import SECTOR_BYTES, FileHeader, JournalLayout, aligned
from binlog.format.journal.record import Kind, declared_end
from binlog.format.problem import Problem
from binlog.journal.options import FILE_BYTES_MIN

# Of a record in JBoss Messaging's layouts: its kind and the id of the file.
_HEAD_BYTES_MIN = 5
# Further gaps are reported together: hostile bytes may have one every few bytes.
_GAPS_MAX = 1000
_ALIGNMENTS = (1, 512, 1024, 2048, 4096)

_UNFINISHED = "no record: these bytes are damaged, or were being written when the process or the machine died"


def file_problems(path: str, header: FileHeader, data: bytes, scan: ColumnScan) -> Iterator[Problem]:
    """Yield the problems of a file, in the order of their offsets.  data: the whole file."""
    gaps = [
        gap
        for gap in scan.gaps
        if not _is_padding(data, *gap, header) and not _is_alignment_gap(data, *gap, header, scan.suspects)
    ]
    for start, stop in gaps[:_GAPS_MAX]:
        yield Problem(path, start, "gap", _UNFINISHED, stop)
    if more := gaps[_GAPS_MAX:]:
        yield Problem(path, more[0][0], "gap", f"{len(more):,} more gaps like this from here on", more[-1][1])
    if header.layout is not JournalLayout.NATIVE:
        if (at := _unfinished_at(scan)) is not None:
            yield Problem(path, at, "tail", _UNFINISHED)
        return
    if end := header.parse_end(data):
        if end != (scan.end, scan.record_count) and not (gaps and scan.end == end[0]):
            text = f"{end[1]} records end at {end[0]}, and {scan.record_count} were found, up to {scan.end}"
            yield Problem(path, min(scan.end, end[0]), "end", text, max(scan.end, end[0]))
    elif (at := tail_offset(data, scan.end, header)) is not None:
        yield Problem(path, at, "tail", _UNFINISHED)


def size_problems(path: str, header: FileHeader, file_bytes: int) -> Iterator[Problem]:
    """Report a file smaller than any file of a journal: it was cut, perhaps at a place where no record shows it."""
    if header.layout is JournalLayout.NATIVE and file_bytes < FILE_BYTES_MIN:
        text = f"it has {file_bytes} bytes, and no native file has fewer than {FILE_BYTES_MIN}"
        yield Problem(path, 0, "file_bytes", text)


def was_written(header: FileHeader, data: bytes, scan: ColumnScan) -> bool:
    """Whether this use of a file may have been written to: it has a record, or bytes at the place of the first one."""
    if scan.record_count:
        return True
    if header.layout is not JournalLayout.NATIVE:
        return _unfinished_at(scan) is not None
    return tail_offset(data, header.layout.header_bytes, header) is not None


def _unfinished_at(scan: ColumnScan) -> int | None:
    """Return the offset of an unfinished record after the last one, in JBoss Messaging's layouts.

    Tries the alignments in use, because a file does not say how it is aligned.
    """
    offsets = {aligned(scan.end, alignment) for alignment in _ALIGNMENTS}
    return next((at for at in scan.suspects if at in offsets), None)


def tail_offset(data: bytes, end: int, header: FileHeader) -> int | None:
    """Return where bytes other than zeros follow the last record of a native file, which ends at `end`."""
    start = fragment_start(end)
    if any(data[end:start]):
        return end
    return start if any(data[start : start + HEAD_BYTES]) else None


def is_unfinished_write(data: bytes, at: int, header: FileHeader) -> bool:
    """Whether the last record of a file may be a write that a crash interrupted, not damage.

    A write that is interrupted in memory ends at a sector boundary, and older bytes follow.  So a record was written
    completely, and damaged later, if it is within one sector, if it is written up to its end, or if its head is valid
    but for one bit.
    """
    sector_end = at - at % SECTOR_BYTES + SECTOR_BYTES
    if header.layout is not JournalLayout.NATIVE:
        declared = declared_end(data, at, header)
        return (at + _HEAD_BYTES_MIN if declared is None else declared) > sector_end
    start = at
    while (head := fragment_at(data, start, header.salt)) is not None:
        end = start + HEAD_BYTES + head["data_bytes"]
        if head["part"] in (Part.WHOLE, Part.LAST):
            last_sector = max((end - 1) // SECTOR_BYTES * SECTOR_BYTES, sector_end)
            is_whole = any(data[last_sector:end]) and not any(data[end : fragment_start(end) + HEAD_BYTES])
            return end > sector_end and not is_whole
        start = fragment_start(end)
    # A head within one sector is complete if any byte of the record is written.
    return (start > at or at + HEAD_BYTES > sector_end) and not _is_one_bit_off(data, start, header)


def _is_one_bit_off(data: bytes, at: int, header: FileHeader) -> bool:
    head = bytearray(data[at : at + HEAD_BYTES])
    for bit in range(8 * len(head)):
        head[bit // 8] ^= 1 << bit % 8
        if fragment_at(data[:at] + head + data[at + HEAD_BYTES :], at, header.salt) is not None:
            return True
        head[bit // 8] ^= 1 << bit % 8
    return False


def _is_alignment_gap(data: bytes, start: int, stop: int, header: FileHeader, suspects: Sequence[int]) -> bool:
    """Whether JBoss Messaging may have skipped a gap to align its next write, leaving bytes of an earlier use there.

    Not if a record of this use begins there, or would begin there but for a damaged kind or one bit of its file id.
    """
    if header.layout is JournalLayout.NATIVE or not any(stop == aligned(start, each) for each in _ALIGNMENTS[1:]):
        return False
    head = int.from_bytes(data[start + 1 : start + _HEAD_BYTES_MIN]) ^ header.record_id
    is_damaged = head == 0 or (head & (head - 1) == 0 and Kind.ADD <= data[start] <= Kind.ROLLBACK)
    next_suspect = bisect_left(suspects, start)
    return not is_damaged and not (next_suspect < len(suspects) and suspects[next_suspect] < stop)


def _is_padding(data: bytes, start: int, stop: int, header: FileHeader) -> bool:
    if header.layout is not JournalLayout.NATIVE:
        return not data[start:stop].strip(b"\0J")
    return stop == fragment_start(start) and not any(data[start:stop])
