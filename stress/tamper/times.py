"""Writes other times into the files of a log, with correct checksums: when a file was made, and records were added.

For logs that have been made over hours, and for attackers who want to hide records from a search by time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from binlog.format.checksums import crc32c
from binlog.format.index_file import ENTRY_BYTES, HEADER_BYTES, INDEX_ENTRY, INDEX_HEADER
from binlog.format.log_header import HEADER_BYTES as LOG_HEADER_BYTES
from binlog.format.log_header import block_seed, parse_log_header
from binlog.format.names import index_file_name, log_file_name

HOUR = 3600


def date_file(log: Path, number: int, made: float, dated: Callable[[int], float]) -> None:
    """Date one file, which was changed last when its last records were added.

    made: when it was made.  dated: returns the time of an entry of its index, given the sequence number of its first
    record.  Both in seconds since 1970 UTC.
    """
    path = log / log_file_name(number)
    data = bytearray(path.read_bytes())
    header = parse_log_header(bytes(data[:LOG_HEADER_BYTES]), path=str(path))
    data[:LOG_HEADER_BYTES] = header._replace(created_ns=int(made * 1e9)).pack()
    path.write_bytes(data)
    date_index(log, number, lambda place, entries: dated(entries[place][0]))
    last = dated(header.first_sequence + header.record_count - 1)
    os.utime(path, (last, last))


def date_index(log: Path, number: int, dated: Callable[[int, list[tuple[int, float]]], float]) -> None:
    """Date the entries of one file's index.

    dated: returns the time of an entry, given its place and the sequence numbers and times of all entries.
    """
    path = log / index_file_name(number)
    whole = path.read_bytes()
    data = bytearray(whole)
    header = INDEX_HEADER.unpack(whole, 0)
    places = range(HEADER_BYTES, len(data) // ENTRY_BYTES * ENTRY_BYTES, ENTRY_BYTES)
    entries = [INDEX_ENTRY.unpack(whole, at) for at in places if at + ENTRY_BYTES <= len(data)]
    known = [(int(entry["sequence"]), entry["time_ns"] / 1e9) for entry in entries]
    for place, entry in enumerate(entries):
        changed = bytearray(INDEX_ENTRY.pack({**entry, "time_ns": int(dated(place, known) * 1e9), "entry_crc": 0}))
        seed = block_seed(header["uuid"], number)
        changed[-4:] = crc32c(bytes(changed[:-4]), seed).to_bytes(4, "big")
        at = HEADER_BYTES + place * ENTRY_BYTES
        data[at : at + ENTRY_BYTES] = changed
    path.write_bytes(data)
