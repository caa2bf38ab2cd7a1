"""What is wrong with the records of one file, as far as the file itself shows it.

In our layout records follow one another, with zeros between if no head fits in the rest of a block.  Zeros follow the
last record too, and a file that the journal has gone on from says where its records end.  So every flipped bit of a
record shows.  In JBoss Messaging's layouts a check that does not hold is all that can be seen.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from binlog.format.journal.block import HEAD_BYTES, Part, fragment_at, fragment_place
from binlog.format.journal.compiled import ColumnScan
from binlog.format.journal.file_header import SECTOR_BYTES, FileHeader, JournalLayout, aligned
from binlog.format.journal.record import Kind, said_end
from binlog.format.problem import Problem
from binlog.journal.options import FILE_BYTES_MIN

# Of a record of JBoss Messaging's: its type and the file's id.
_HEAD_BYTES_MIN = 5
# So many are told one by one: hostile bytes may have one every few bytes.
_GAPS_MAX = 1000
_ALIGNMENTS = (1, 512, 1024, 2048, 4096)

_UNFINISHED = "what lies here is no record: it is damaged, or was being written when the machine or its process ended"


def file_problems(path: str, header: FileHeader, data: bytes, scan: ColumnScan) -> Iterator[Problem]:
    """What is wrong, in the order of the file.  data: the whole file."""
    gaps = [
        gap
        for gap in scan.gaps
        if not _is_padding(data, *gap, header) and not _is_hole(data, *gap, header, scan.doubts)
    ]
    for start, stop in gaps[:_GAPS_MAX]:
        yield Problem(path, start, "gap", _UNFINISHED, stop)
    if more := gaps[_GAPS_MAX:]:
        yield Problem(path, more[0][0], "gap", f"{len(more):,} more places from here on are alike", more[-1][1])
    if header.layout is not JournalLayout.NATIVE:
        if (at := _cut_short(scan)) is not None:
            yield Problem(path, at, "tail", _UNFINISHED)
        return
    if end := header.parse_end(data):
        if end != (scan.end, scan.record_count) and not (gaps and scan.end == end[0]):
            text = f"{end[1]} records end at {end[0]}, and {scan.record_count} were found, up to {scan.end}"
            yield Problem(path, min(scan.end, end[0]), "end", text, max(scan.end, end[0]))
    elif (at := tail_offset(data, scan.end, header)) is not None:
        yield Problem(path, at, "tail", _UNFINISHED)


def size_problems(path: str, header: FileHeader, file_bytes: int) -> Iterator[Problem]:
    """That a file has a size which none has: it was cut, and maybe where no record lies that would show it."""
    if header.layout is JournalLayout.NATIVE and file_bytes < FILE_BYTES_MIN:
        text = f"it has {file_bytes} bytes, and no file of ours has fewer than {FILE_BYTES_MIN}"
        yield Problem(path, 0, "file_bytes", text)


def has_begun(header: FileHeader, data: bytes, scan: ColumnScan) -> bool:
    """Whether this use of a file may have written to it: it has a record, or something is where the first one goes."""
    if scan.record_count:
        return True
    if header.layout is not JournalLayout.NATIVE:
        return _cut_short(scan) is not None
    return tail_offset(data, header.layout.header_bytes, header) is not None


def _cut_short(scan: ColumnScan) -> int | None:
    """Where something begins as a record, and goes on as none, in a file of JBoss Messaging's: as the next one would.

    No file of that tells how it is aligned.
    """
    places = {aligned(scan.end, alignment) for alignment in _ALIGNMENTS}
    return next((at for at in scan.doubts if at in places), None)


def tail_offset(data: bytes, end: int, header: FileHeader) -> int | None:
    """Where something lies behind the last record, which ends at `end`, in place of zeros; in our layout."""
    place = fragment_place(end)
    if any(data[end:place]):
        return end
    return place if any(data[place : place + HEAD_BYTES]) else None


def is_cut(data: bytes, at: int, header: FileHeader) -> bool:
    """Whether the record at an offset, the last of its file, may be one whose process ended while it was written.

    Then the rest of it is what was there before; a write that is cut short in memory ends where a sector does, too.
    Not so if it lies in one sector, seems to be there up to its end, or has a head that is sound but for one bit: that
    was written, and damaged later.
    """
    sector_end = at - at % SECTOR_BYTES + SECTOR_BYTES
    if header.layout is not JournalLayout.NATIVE:
        said = said_end(data, at, header)
        return (at + _HEAD_BYTES_MIN if said is None else said) > sector_end
    place = at
    while (found := fragment_at(data, place, header.salt)) is not None:
        end = place + HEAD_BYTES + found["data_bytes"]
        if found["part"] in (Part.WHOLE, Part.LAST):
            last_sector = max((end - 1) // SECTOR_BYTES * SECTOR_BYTES, sector_end)
            is_whole = any(data[last_sector:end]) and not any(data[end : fragment_place(end) + HEAD_BYTES])
            return end > sector_end and not is_whole
        place = fragment_place(end)
    # A head in one sector is there whole if anything of the record is.
    return (place > at or at + HEAD_BYTES > sector_end) and not _is_one_bit_off(data, place, header)


def _is_one_bit_off(data: bytes, at: int, header: FileHeader) -> bool:
    head = bytearray(data[at : at + HEAD_BYTES])
    for bit in range(8 * len(head)):
        head[bit // 8] ^= 1 << bit % 8
        if fragment_at(data[:at] + head + data[at + HEAD_BYTES :], at, header.salt) is not None:
            return True
        head[bit // 8] ^= 1 << bit % 8
    return False


def _is_hole(data: bytes, start: int, stop: int, header: FileHeader, doubts: Sequence[int]) -> bool:
    """Whether JBoss Messaging may have gone on at the next block, and left what an earlier use of the file had there.

    Not where a record of this use begins, nor where one would but for a damaged kind, or a bit of its file id.
    """
    if header.layout is JournalLayout.NATIVE or not any(stop == aligned(start, each) for each in _ALIGNMENTS[1:]):
        return False
    head = int.from_bytes(data[start + 1 : start + _HEAD_BYTES_MIN]) ^ header.record_id
    is_damaged = head == 0 or (head & (head - 1) == 0 and Kind.ADD <= data[start] <= Kind.ROLLBACK)
    place = bisect_left(doubts, start)
    return not is_damaged and not (place < len(doubts) and doubts[place] < stop)


def _is_padding(data: bytes, start: int, stop: int, header: FileHeader) -> bool:
    if header.layout is not JournalLayout.NATIVE:
        return not data[start:stop].strip(b"\0J")
    return stop == fragment_place(start) and not any(data[start:stop])
