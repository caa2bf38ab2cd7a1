"""The names of a log's files."""

from __future__ import annotations

import enum
import os
import re

NUMBER_FIRST = 1
INGEST_FILE = ".ingest"
"""The record of an unfinished ingest: see binlog/log/ingest/ingest_record.py."""

PENDING_SUFFIX = ".pending"
"""The end of the name of a file that holds a producer's pending batch."""

NUMBER_MAX = 99_999_999  # eight digits; jPOS prints more, but a name with nine would not sort

_LOG_FILE = re.compile(r"([0-9]{8})\.dat", re.ASCII)
_ARCHIVE_FILE = re.compile(r"([0-9]{8})\.dat\.zst", re.ASCII)
_UNFINISHED_ARCHIVE = re.compile(r"\.([0-9]{8})\.dat\.zst\.new", re.ASCII)
_INDEX_FILE = re.compile(r"([0-9]{8})\.idx", re.ASCII)
_DAMAGED_FILE = re.compile(r"([0-9]{8})\.dat\.([0-9]{1,19})-([0-9]{1,19})\.damaged", re.ASCII)
_PRODUCER_FILE = re.compile(r"[0-9a-f]{32}\.producer(\.pending)?", re.ASCII)
_IMPORT_FILE = re.compile(r"[0-9a-f]{32}\.import", re.ASCII)
_SHIPPED_FILE = re.compile(r"([0-9]{8})\.shipped", re.ASCII)
_INGEST_PART = re.compile(r"\.ingest\.([0-9a-f]{16})\.([0-9]{8})", re.ASCII)
_PREPARED_FILE = re.compile(r"\.([0-9]{8})\.dat\.[0-9a-f]{16}\.new", re.ASCII)


def log_file_name(number: int) -> str:
    """Return `00000001.dat` for 1."""
    return f"{number:08d}.dat"


def log_file_number(name: str) -> int | None:
    """Return the number in a log file's name, or None for any other name."""
    match = _LOG_FILE.fullmatch(name)
    return int(match[1]) or None if match else None


def index_file_name(number: int) -> str:
    """Return `00000001.idx` for 1."""
    return f"{number:08d}.idx"


def index_file_number(name: str) -> int | None:
    """Return the number in an index's name, or None for any other name."""
    match = _INDEX_FILE.fullmatch(name)
    return int(match[1]) or None if match else None


def archive_file_name(number: int) -> str:
    """Return `00000001.dat.zst` for 1: the name of a compressed closed file."""
    return f"{log_file_name(number)}.zst"


def archive_file_number(name: str) -> int | None:
    """Return the number in an archive's name, or None for any other name."""
    match = _ARCHIVE_FILE.fullmatch(name)
    return int(match[1]) or None if match else None


def unfinished_archive_name(number: int) -> str:
    """Return `.00000001.dat.zst.new` for 1: the name of an archive until it is complete and verified."""
    return f".{archive_file_name(number)}.new"


def unfinished_archive_number(name: str) -> int | None:
    """Return the number in the name of an unfinished archive, perhaps of a dead process; None for any other name."""
    match = _UNFINISHED_ARCHIVE.fullmatch(name)
    return int(match[1]) or None if match else None


def prepared_file_name(number: int) -> str:
    """Return a new random name for a prepared file: `.00000002.dat.<16 hex digits>.new`.

    The name is random so that two processes that prepare the same number never share a file.
    """
    return f".{log_file_name(number)}.{os.urandom(8).hex()}.new"


def prepared_file_number(name: str) -> int | None:
    """Return the number in the name of a prepared file, perhaps of a dead process; None for any other name."""
    match = _PREPARED_FILE.fullmatch(name)
    return int(match[1]) if match else None


def ingest_part_name(identity: str, index: int) -> str:
    """Return `.ingest.<16 hex digits>.00000000`: the hidden name of an ingest's first file until it joins the log.

    identity: 16 hex digits, the random name of the ingest.
    """
    return f".ingest.{identity}.{index:08d}"


def ingest_part(name: str) -> tuple[str, int] | None:
    """Return the identity and the index in the hidden name of an ingest's file; None for any other name."""
    match = _INGEST_PART.fullmatch(name)
    return (match[1], int(match[2])) if match else None


def damaged_file_name(number: int, start: int, end: int) -> str:
    """Return `00000001.dat.256-512.damaged`: the name for bytes 256 to 511 that recovery or repair took out of file
    1."""
    return f"{log_file_name(number)}.{start}-{end}.damaged"


def damaged_file_range(name: str) -> tuple[int, int, int] | None:
    """Return the number, start and end in such a name; None for any other name."""
    match = _DAMAGED_FILE.fullmatch(name)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def producer_file_name(producer: str) -> str:
    """Return `<32 hex digits>.producer`, the file of a producer's last batch.  The digits are a hash of the producer's
    name.
    """
    import hashlib  # most logs have no producer

    return f"{hashlib.blake2b(producer.encode(), digest_size=16).hexdigest()}.producer"


def pending_file_name(name: str) -> str:
    """Return `<32 hex digits>.producer.pending`, the file of the batch that is being appended."""
    return f"{name}{PENDING_SUFFIX}"


def producer_lock_name(producer: str) -> str:
    """Return `<32 hex digits>.producer.lock`, the file that is locked while a process has the producer open."""
    return f"{producer_file_name(producer)}.lock"


def import_file_name(producer: str) -> str:
    """Return `<32 hex digits>.import`, the file with the place of an import.  The digits are those of its producer."""
    return producer_file_name(producer).replace(".producer", ".import")


def is_import_file(name: str) -> bool:
    """Whether this is the name of a file with the place of an import."""
    return _IMPORT_FILE.fullmatch(name) is not None


def shipped_file_name(number: int) -> str:
    """Return `00000001.shipped` for 1: the receipt of a closed file that `binlog ship` copied to this directory."""
    return f"{number:08d}.shipped"


def shipped_file_number(name: str) -> int | None:
    """Return the number in a receipt's name, or None for any other name."""
    match = _SHIPPED_FILE.fullmatch(name)
    return int(match[1]) or None if match else None


def is_pending_file(name: str) -> bool:
    """Whether this is the name of a file with a pending batch."""
    match = _PRODUCER_FILE.fullmatch(name)
    return match is not None and match[1] is not None


def is_producer_file(name: str) -> bool:
    """Whether this is the name of a file with a producer's last batch, or with its pending one."""
    return _PRODUCER_FILE.fullmatch(name) is not None


class FileKind(enum.Enum):
    """The kinds of files in a log's directory, besides the log files."""

    INDEX = "index"
    ARCHIVE = "archive"
    DAMAGED = "damaged"
    PREPARED = "prepared"


_KINDS = (
    (_INDEX_FILE, FileKind.INDEX),
    (_ARCHIVE_FILE, FileKind.ARCHIVE),
    (_DAMAGED_FILE, FileKind.DAMAGED),
    (_PREPARED_FILE, FileKind.PREPARED),
    (_UNFINISHED_ARCHIVE, FileKind.PREPARED),
)
_KIND_ENDS = (".idx", ".zst", ".damaged", ".new")


def file_kind(name: str) -> FileKind | None:
    """Return the kind of a file next to the log files; None for a log file, and for a file that is not binlog's."""
    if not name.endswith(_KIND_ENDS):
        return None  # without a search: a log has thousands of log files
    return next((kind for pattern, kind in _KINDS if pattern.fullmatch(name)), None)
