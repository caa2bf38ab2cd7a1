"""The record of an unfinished ingest, and the hidden files that wait for their numbers.

`.ingest` is one line of text with a checksum (binlog/format/checksums.py): a JSON object with the keys `id` and
`batch`.  `.ingest.<id>.<index>` are the files, in the order of `index`; each is a complete log file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from binlog.errors import CorruptError, NotFoundError
from binlog.format.checksums import pack_text, parse_text
from binlog.format.names import INGEST_FILE, ingest_part, ingest_part_name
from binlog.log.append.producers import ProducerBatch, parse_producer_batch
from binlog.log.directory import LogDirectory
from binlog.log.recovery.file_operations import replace_file
from binlog.storage.file_access import FileAccess

_BYTES_MAX = 1 << 16
_UNFINISHED = f"{INGEST_FILE}.new"
_IDENTITY = re.compile(r"[0-9a-f]{16}", re.ASCII)


@dataclass(frozen=True, slots=True)
class IngestRecord:
    """The record that a writer makes before its first file joins the log.

    identity: 16 hex digits, part of the files' names.  batch: the producer's batch that the files are, or None.
    """

    identity: str
    batch: ProducerBatch | None

    def names(self, directory: LogDirectory) -> list[str]:
        """Return the hidden names that still exist, in order."""
        parts = ((ingest_part(name), name) for name in directory.names())
        return [name for part, name in sorted(each for each in parts if each[0]) if part and part[0] == self.identity]


def read_ingest(directory: LogDirectory) -> IngestRecord | None:
    """Return the record, or None if no ingest is unfinished.  Raises: CorruptError, AccessError."""
    found = inspect_ingest(directory)
    return None if found is None else found[0]


def inspect_ingest(directory: LogDirectory) -> tuple[IngestRecord, bool] | None:
    """Return the record as `read_ingest`, and whether one flipped bit was corrected in memory."""
    if not directory.has(INGEST_FILE):
        return None  # almost always, and a stat costs less than a failed open
    try:
        body, is_corrected = parse_text(directory.read(INGEST_FILE, _BYTES_MAX))
        return _parse(body), is_corrected
    except NotFoundError:
        return None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        text = f"it is no ingest record ({error}); its files are `.ingest.*`"
        raise CorruptError(directory.file_path(INGEST_FILE), 0, "ingest", text) from error


def _parse(body: bytes) -> IngestRecord:
    import json  # not needed without an ingest

    values = json.loads(body)
    if set(values) != {"id", "batch"} or not _IDENTITY.fullmatch(values["id"]):
        raise ValueError("its keys are not those of an ingest")
    return IngestRecord(values["id"], None if values["batch"] is None else parse_producer_batch(values["batch"]))


def write_ingest(directory: LogDirectory, record: IngestRecord, access: FileAccess) -> None:
    """Write the record, durably.  The files' names must be durable already.  Raises: FullError; PoisonedError."""
    import json  # not needed without an ingest

    batch = None if record.batch is None else asdict(record.batch)
    body = json.dumps({"id": record.identity, "batch": batch}).encode()
    replace_file(directory, INGEST_FILE, _UNFINISHED, pack_text(body), access)


def remove_ingest(directory: LogDirectory) -> None:
    """Remove the record, not durably: a record that comes back finds no files, and its batch recorded."""
    directory.remove(INGEST_FILE)


def sweep_ingests(directory: LogDirectory, names: Iterable[str]) -> None:
    """Remove the files of ingests that were never decided.

    The caller holds the lock of the file that is open, so no other process is about to decide one.
    names: a listing made under the lock.
    """
    found = [name for name in names if name == _UNFINISHED or ingest_part(name) is not None]
    if found and not directory.has(INGEST_FILE):
        for name in found:
            directory.remove(name)


def part_names(identity: str, count: int) -> list[str]:
    """Return the hidden names for this many files."""
    return [ingest_part_name(identity, index) for index in range(count)]
