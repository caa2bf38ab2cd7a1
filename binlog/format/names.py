"""The names of a log's files."""

from __future__ import annotations

import enum
import hashlib
import re
import secrets

NUMBER_FIRST = 1
INGEST_FILE = ".ingest"
"""The ingest that was decided and is not finished: see binlog/log/ingest/ingest_record.py."""

NEXT_SUFFIX = ".next"
"""Of the turn that is being appended."""

NUMBER_MAX = 99_999_999  # eight digits; jPOS prints more, but a name of nine would no longer sort

_LOG_FILE = re.compile(r"([0-9]{8})\.dat", re.ASCII)
_ARCHIVE_FILE = re.compile(r"([0-9]{8})\.dat\.zst", re.ASCII)
_ARCHIVE_DRAFT = re.compile(r"\.([0-9]{8})\.dat\.zst\.new", re.ASCII)
_INDEX_FILE = re.compile(r"([0-9]{8})\.idx", re.ASCII)
_DAMAGED_FILE = re.compile(r"([0-9]{8})\.dat\.([0-9]{1,19})-([0-9]{1,19})\.damaged", re.ASCII)
_ONCE_FILE = re.compile(r"[0-9a-f]{32}\.once(\.next)?", re.ASCII)
_INGEST_PART = re.compile(r"\.ingest\.([0-9a-f]{16})\.([0-9]{8})", re.ASCII)
_PREPARED_FILE = re.compile(r"\.([0-9]{8})\.dat\.[0-9a-f]{16}\.new", re.ASCII)


def log_file_name(number: int) -> str:
    """`00000001.dat` for 1."""
    return f"{number:08d}.dat"


def log_file_number(name: str) -> int | None:
    """The number in a log file's name, or None for any other name."""
    match = _LOG_FILE.fullmatch(name)
    return int(match[1]) or None if match else None


def index_file_name(number: int) -> str:
    """`00000001.idx` for 1."""
    return f"{number:08d}.idx"


def index_file_number(name: str) -> int | None:
    """The number in an index's name, or None for any other name."""
    match = _INDEX_FILE.fullmatch(name)
    return int(match[1]) or None if match else None


def archive_file_name(number: int) -> str:
    """`00000001.dat.zst` for 1: a closed file, compressed."""
    return f"{log_file_name(number)}.zst"


def archive_file_number(name: str) -> int | None:
    """The number in an archive's name, or None for any other name."""
    match = _ARCHIVE_FILE.fullmatch(name)
    return int(match[1]) or None if match else None


def archive_draft_name(number: int) -> str:
    """`.00000001.dat.zst.new`: an archive until it is complete and verified."""
    return f".{archive_file_name(number)}.new"


def archive_draft_number(name: str) -> int | None:
    """The number of an archive being made, or left behind by a process that died at it; None for any other name."""
    match = _ARCHIVE_DRAFT.fullmatch(name)
    return int(match[1]) or None if match else None


def prepared_file_name(number: int) -> str:
    """A new random name for file `number` while it is being prepared: `.00000002.dat.<16 hex digits>.new`.

    Random, so that two processes that prepare the same number never share a file.
    """
    return f".{log_file_name(number)}.{secrets.token_hex(8)}.new"


def prepared_file_number(name: str) -> int | None:
    """The number of a file being prepared, or left behind by a process that died at it; None for any other name."""
    match = _PREPARED_FILE.fullmatch(name)
    return int(match[1]) if match else None


def ingest_part_name(identity: str, index: int) -> str:
    """`.ingest.<16 hex digits>.00000000`: the first file of an ingest, before it is a file of the log.

    identity: 16 hex digits, a random name of the ingest.
    """
    return f".ingest.{identity}.{index:08d}"


def ingest_part(name: str) -> tuple[str, int] | None:
    """The identity and the index in such a name; None for any other name."""
    match = _INGEST_PART.fullmatch(name)
    return (match[1], int(match[2])) if match else None


def damaged_file_name(number: int, start: int, end: int) -> str:
    """`00000001.dat.256-512.damaged`: bytes that recovery or repair took out of file 1, from 256 to before 512."""
    return f"{log_file_name(number)}.{start}-{end}.damaged"


def damaged_file_range(name: str) -> tuple[int, int, int] | None:
    """The number, start and end in such a name; None for any other name."""
    match = _DAMAGED_FILE.fullmatch(name)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def once_file_name(source: str) -> str:
    """`<32 hex digits>.once`: the last turn of a source that is in the log.  The digits are a hash of its name."""
    return f"{hashlib.blake2b(source.encode(), digest_size=16).hexdigest()}.once"


def next_file_name(once_name: str) -> str:
    """`<32 hex digits>.once.next`: the turn that is being appended."""
    return f"{once_name}{NEXT_SUFFIX}"


def is_next_file(name: str) -> bool:
    """Whether it is one of those."""
    match = _ONCE_FILE.fullmatch(name)
    return match is not None and match[1] is not None


def is_once_file(name: str) -> bool:
    """Whether it tells a turn that is in the log, or that is being appended."""
    return _ONCE_FILE.fullmatch(name) is not None


class FileKind(enum.Enum):
    """What else lies in a log's directory."""

    INDEX = "index"
    ARCHIVE = "archive"
    DAMAGED = "damaged"
    PREPARED = "prepared"


_KINDS = (
    (_INDEX_FILE, FileKind.INDEX),
    (_ARCHIVE_FILE, FileKind.ARCHIVE),
    (_DAMAGED_FILE, FileKind.DAMAGED),
    (_PREPARED_FILE, FileKind.PREPARED),
    (_ARCHIVE_DRAFT, FileKind.PREPARED),
)


def file_kind(name: str) -> FileKind | None:
    """What a file is that lies beside the log's own; None for those, and for what is not ours."""
    return next((kind for pattern, kind in _KINDS if pattern.fullmatch(name)), None)
