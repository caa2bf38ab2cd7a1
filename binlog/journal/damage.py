"""What is wrong with the records of one file, as far as the file itself shows it.

In our layout nothing but zeros lies between two records, and these only up to the next multiple of the alignment;
behind the last record lie zeros too, and a file that the journal has gone on from says where its records end.  So
every flipped bit of a record shows.  In JBoss Messaging's layouts a check that does not hold is all that can be seen.
"""

from __future__ import annotations

from collections.abc import Iterator

from binlog.format.journal.file_header import FileHeader, JournalLayout
from binlog.format.problem import Problem
from binlog.storage.journal_records import LoadScan, Scan

# Written behind the last record with every write, where there is room.
ZEROS_BEHIND = 16

_UNFINISHED = "what lies here is no record: it is damaged, or was being written when the machine or its process ended"


def file_problems(path: str, header: FileHeader, data: bytes, scan: Scan | LoadScan) -> Iterator[Problem]:
    """What is wrong, in the order of the file.  data: the whole file."""
    gaps = [gap for gap in scan.gaps if not _is_padding(data, *gap, header)]
    for start, stop in gaps:
        yield Problem(path, start, "gap", _UNFINISHED, stop)
    if header.layout is not JournalLayout.NATIVE:
        if doubts := [at for at in scan.doubts if at >= scan.end]:
            yield Problem(path, doubts[0], "tail", _UNFINISHED)
        return
    if end := header.parse_end(data):
        if end != (scan.end, scan.record_count) and not (gaps and scan.end == end[0]):
            text = f"{end[1]} records end at {end[0]}, and {scan.record_count} were found, up to {scan.end}"
            yield Problem(path, min(scan.end, end[0]), "end", text, max(scan.end, end[0]))
    elif any(data[scan.end : scan.end + ZEROS_BEHIND]):
        yield Problem(path, scan.end, "tail", _UNFINISHED)


def _is_padding(data: bytes, start: int, stop: int, header: FileHeader) -> bool:
    if header.layout is not JournalLayout.NATIVE:
        return not data[start:stop].strip(b"\0J")
    return stop - start < header.alignment and stop % header.alignment == 0 and not any(data[start:stop])
