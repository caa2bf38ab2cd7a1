"""The record of an ingest that is decided and not finished, and the files that wait for their numbers.

`.ingest` is one line of text with a checksum (binlog/format/checksums.py): a JSON object with the keys `id` and
`turn`.  `.ingest.<id>.<index>` are the files, in the order of `index`; each is a complete log file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from binlog.errors import CorruptError, NotFoundError
from binlog.format.checksums import pack_text, parse_text
from binlog.format.names import INGEST_FILE, ingest_part, ingest_part_name
from binlog.log.append.producers import Turn, turn_of
from binlog.log.directory import LogDirectory
from binlog.log.recovery.file_operations import replace_file
from binlog.storage.file_access import FileAccess

_BYTES_MAX = 1 << 16
_DRAFT = f"{INGEST_FILE}.new"
_IDENTITY = re.compile(r"[0-9a-f]{16}", re.ASCII)


@dataclass(frozen=True, slots=True)
class IngestRecord:
    """What a process wrote down before the first of its files became a file of the log.

    identity: 16 hex digits, part of the files' names.  turn: the turn that the files are, None if they are none.
    """

    identity: str
    turn: Turn | None

    def names(self, directory: LogDirectory) -> list[str]:
        """The names of its files that are still there, in order."""
        parts = ((ingest_part(name), name) for name in directory.names())
        return [name for part, name in sorted(each for each in parts if each[0]) if part and part[0] == self.identity]


def read_ingest(directory: LogDirectory) -> IngestRecord | None:
    """The record, or None if no ingest is unfinished.  Raises: CorruptError, AccessError."""
    found = look_at_ingest(directory)
    return None if found is None else found[0]


def look_at_ingest(directory: LogDirectory) -> tuple[IngestRecord, bool] | None:
    """The same, and whether a flipped bit of the record was put right in memory."""
    if not directory.has(INGEST_FILE):
        return None  # as almost always, and a stat costs less than a failed open
    try:
        body, is_mended = parse_text(directory.read(INGEST_FILE, _BYTES_MAX))
        return _parse(body), is_mended
    except NotFoundError:
        return None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        text = f"it is no record of an ingest ({error}); the files `.ingest.*` are what it was about"
        raise CorruptError(directory.file_path(INGEST_FILE), 0, "ingest", text) from error


def _parse(body: bytes) -> IngestRecord:
    values = json.loads(body)
    if set(values) != {"id", "turn"} or not _IDENTITY.fullmatch(values["id"]):
        raise ValueError("it has other keys")
    return IngestRecord(values["id"], None if values["turn"] is None else turn_of(values["turn"]))


def write_ingest(directory: LogDirectory, record: IngestRecord, access: FileAccess) -> None:
    """Write the record, durably.  The names of its files are durable already.  Raises: FullError; PoisonedError."""
    turn = None if record.turn is None else asdict(record.turn)
    body = json.dumps({"id": record.identity, "turn": turn}).encode()
    replace_file(directory, INGEST_FILE, _DRAFT, pack_text(body), access)


def remove_ingest(directory: LogDirectory) -> None:
    """Remove the record.  Not durable: a record that comes back finds none of its files, and its turn recorded."""
    directory.remove(INGEST_FILE)


def sweep_ingests(directory: LogDirectory, names: Iterable[str]) -> None:
    """Remove the files of ingests that were never decided.

    The open file's lock is held, and the file is open: so no other process is about to decide one.
    names: a listing that was made under the lock.
    """
    found = [name for name in names if name == _DRAFT or ingest_part(name) is not None]
    if found and not directory.has(INGEST_FILE):
        for name in found:
            directory.remove(name)


def part_names(identity: str, count: int) -> list[str]:
    """The names for so many files."""
    return [ingest_part_name(identity, index) for index in range(count)]
