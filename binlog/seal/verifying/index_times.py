"""Compares the times in the indexes of a sealed log with those of the checkpoints before and after.

A record is in the log before a checkpoint covers it, and not long before: so a time that was changed in an index, to
hide records from a search by time, contradicts the signed times.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import binlog
from binlog.format.index_file import (
    ENTRY_BYTES,
    HEADER_BYTES,
    INDEX_ENTRY,
    Ranges,
    entry_columns,
    entry_seed,
)
from binlog.format.names import archive_file_name, index_file_name, log_file_name
from binlog.format.record import Ref
from binlog.format.seal.statement import Kind, Loss, Statement
from binlog.seal.verifying.report import Report, Rule

# A checkpoint may be signed up to this long before a record's time, because the clocks' readings differ a bit.
_LATER_SECONDS = 60
# A record may be in the file for this long before it is durable, and so before it is sealed.
_EARLIER_SECONDS = 3600
# A log of 10 GB has some 150,000, whose columns would take 20 MiB.
_ENTRIES_AT_ONCE = 4096


class SignedTimes:
    """The sizes and the times of checkpoints, in order."""

    def __init__(self) -> None:
        self.sizes = array("Q")
        self.seconds = array("Q")

    def add(self, size: int, seconds: int) -> None:
        """Add a checkpoint; its size and its time are not below those before."""
        self.sizes.append(size)
        self.seconds.append(seconds)

    def of(self, size: int) -> int | None:
        """Return when the first checkpoint of at least this size was signed; None if none is as large."""
        at = bisect_left(self.sizes, size)
        return self.seconds[at] if at < len(self.sizes) else None


def check_index_times(
    path: str,
    first_leaves: Mapping[int, int],
    losses: Sequence[Loss],
    times: SignedTimes,
    statements: Iterable[Statement],
    report: Report,
) -> None:
    """Add a finding for each file whose index has times that contradict the signed ones.

    first_leaves: of each log file, by its number.  Raises: OSError.
    """
    steps = sum(abs(each.integer("after") - each.integer("before")) for each in statements if each.kind is Kind.CLOCK)
    for file in binlog.stat(path).files:
        first = first_leaves.get(file.number)
        if first is None or file.first_sequence is None or any(loss.ref.number == file.number for loss in losses):
            continue
        name = archive_file_name(file.number) if file.archived else log_file_name(file.number)
        try:
            modified_ns = os.stat(os.path.join(path, name)).st_mtime_ns
        except FileNotFoundError:
            continue
        shift = first - file.first_sequence
        seed = entry_seed(number=file.number, uuid=bytes.fromhex(file.uuid or ""))
        for data in _entries(os.path.join(path, index_file_name(file.number)), seed, file.tail):
            if not _check_entries(Ref(file.number, 0), data, shift, times, steps, modified_ns, report):
                break


def _entries(path: str, seed: int, tail: int) -> Iterator[bytes]:
    """Yield the entries of an index, some at a time; nothing if it does not exist.

    It ends before an entry without its checksum, as a power cut leaves it, because no reader believes that one.
    tail: of the log file.
    """
    ranges: Ranges | None = None
    with suppress(FileNotFoundError), open(path, "rb") as file:
        file.seek(HEADER_BYTES)
        while len(data := file.read(_ENTRIES_AT_ONCE * ENTRY_BYTES)) >= ENTRY_BYTES:
            if ranges is None:
                ranges = Ranges(INDEX_ENTRY.unpack(data)["offset"], None, seed=seed)
            good = ranges.follow(data, tail) * ENTRY_BYTES
            if good:
                yield data[:good]
            if good < len(data):
                return


def _check_entries(
    ref: Ref, data: bytes, shift: int, times: SignedTimes, steps: int, modified_ns: int, report: Report
) -> bool:
    """Check entries of one index; add a finding for the first wrong one, and return False if there is one.

    shift: from a sequence number to a leaf.  steps: seconds, of the clock.  modified_ns: when the log file was changed
    last, which is the time in an index that was built again, as after a power cut.
    """
    sequences, offsets, times_ns, _ = entry_columns(data)
    last = INDEX_ENTRY.unpack(data, len(data) - ENTRY_BYTES)
    # The number of leaves up to the end of each range, whose time is when all of it was in the file.
    ends = [sequence + shift for sequence in sequences[1:]] + [last["sequence"] + last["record_count"] + shift]
    at = 0
    while at < len(ends):
        signed = bisect_left(times.sizes, ends[at])  # the first checkpoint that covers the range
        if signed == len(times.sizes):
            return True
        following = max(bisect_right(ends, times.sizes[signed]), at + 1)
        latest = max((times.seconds[signed] + _LATER_SECONDS + steps) * 10**9, modified_ns)
        earliest = (times.seconds[signed - 1] - _EARLIER_SECONDS - steps) * 10**9 if signed else 0
        if max(times_ns[at:following]) > latest or min(times_ns[at:following]) < earliest:
            place = next(place for place in range(at, following) if not earliest <= times_ns[place] <= latest)
            signed_text = datetime.fromtimestamp(times.seconds[signed], UTC).isoformat(timespec="seconds")
            found = datetime.fromtimestamp(times_ns[place] / 1e9, UTC).isoformat(timespec="seconds")
            text = f"the index says {found}, and the checkpoint that covers the record was signed at {signed_text}"
            before = sequences[place] + shift
            report.add(Rule.INDEX_TIME, text, Ref(ref.number, offsets[place]), before)
            return False
        at = following
    return True
