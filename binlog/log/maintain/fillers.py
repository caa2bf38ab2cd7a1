"""Fillers: what `repair` writes in place of damaged or missing records, so that all others keep their places."""

from __future__ import annotations

import os
import re

from binlog.format.names import damaged_file_range
from binlog.format.record import Ref

FILLER = b"BINLOG DAMAGED "
"""The first bytes of a filler that is large enough; then the range, such as `1:256-512`, and blanks."""

_ANY = re.compile(rb"BINLOG DAMAGED [0-9:-]* *")
_WHOLE = re.compile(rb"BINLOG DAMAGED (\d+):(\d+)-(\d+) *")


def filler_text(number: int, start: int, end: int) -> bytes:
    """Return the text of the fillers of a range."""
    return FILLER + f"{number}:{start}-{end}".encode()


def has_filler_text(record: bytes) -> bool:
    """Return whether a record has the text of a filler, or the beginning of one, as a short filler has."""
    return FILLER.startswith(record) or _ANY.fullmatch(record) is not None


def is_filler(path: str | os.PathLike[str], ref: Ref, record: bytes) -> bool:
    """Return whether a record of the log in a directory is a filler.

    A filler names the range in which it is.  If it is too short for that, the range is quarantined in the directory.
    """
    if not record.startswith(FILLER) and not FILLER.startswith(record):
        return False
    match = _WHOLE.fullmatch(record)
    if match is not None and int(match[1]) == ref.number and int(match[2]) <= ref.offset < int(match[3]):
        return True
    if not os.path.isdir(path):
        return False
    ranges = filter(None, map(damaged_file_range, os.listdir(path)))
    return any(number == ref.number and start <= ref.offset < end for number, start, end in ranges)
