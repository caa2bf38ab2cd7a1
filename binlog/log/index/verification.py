"""Verification: reads the records of a log file, and compares them with its index.

Verified are the records that a sound entry of the index covers: all of a closed file, and all but the last 64 KiB or
second of an open one.  Not verified are records after the last entry or beside a damaged one, those of a file without
an index, and those that a reader at the end gets less than a second after its last read of the header, or as it wakes
(docs/durability.md).
"""

from __future__ import annotations

import shlex

from binlog.errors import CorruptError
from binlog.format.index_file import IndexEntry, pack_header
from binlog.format.log_header import LogHeader
from binlog.format.names import index_file_name
from binlog.format.record import Stop, part_of_records
from binlog.log.directory import LogDirectory, OpenedFile
from binlog.log.index.record_reading import RawRecords, ReadOutcome, RecordReading
from binlog.storage.failures import failure
from binlog.storage.files import content_bytes
from binlog.storage.native import read_records


class Verification:
    """Reads one log file, range by range.

    header: the file's.  seed: of the checksums of its index's entries.
    record_bytes_max: a range of one larger record is not read.
    verify: False compares nothing.
    """

    def __init__(
        self,
        directory: LogDirectory,
        file: OpenedFile,
        header: LogHeader,
        *,
        seed: int,
        record_bytes_max: int,
        verify: bool,
    ) -> None:
        self._directory = directory
        self._header = header
        self._fd = file.fd
        self._path = file.path
        self._verify = verify
        self._records = RecordReading(file.fd, file.identity, seed=seed, record_bytes_max=record_bytes_max)
        self._address = self._records.address
        self._record_bytes_max = record_bytes_max
        self._verified = b""  # a whole range, of which only a part was asked for; `_start` is its offset
        self._start = 0

    def read(self, offset: int, size: int, to_tail: int, records_max: int, buffer: bytes | None) -> RawRecords:
        """Read records from `offset` on, up to `size` bytes; verified, and one at least, if the index covers them.

        to_tail: the distance to the file's tail.
        buffer: bytes that no other object has.  If large enough, they are overwritten and returned as the data, which
        then may continue after the last record.
        Raises: CorruptError if the bytes are not those that were written; GoneError; AccessError.
        """
        if not self._verified or not self._start <= offset < self._start + len(self._verified):
            try:
                found = read_records(self._address, offset, size, to_tail, records_max, buffer, self._verify)
            except OSError as error:
                raise failure(error.errno or 0, self._path, "reading") from error
            if isinstance(found, int):
                found = self._read_with_index(offset, size, to_tail, records_max, buffer)
            if found[3] != Stop.MORE:
                return found
            self._start, self._verified = found[:2]
        at = offset - self._start
        part = part_of_records(self._verified, at, size, self._record_bytes_max, records_max)
        return (offset, *part) if part is not None else self._read_plain(offset, size, to_tail, records_max, None)

    def _read(
        self, offset: int, size: int, to_tail: int, records_max: int, buffer: bytes | None, verify: bool
    ) -> RawRecords | int:
        try:
            return read_records(self._address, offset, size, to_tail, records_max, buffer, verify)
        except OSError as error:
            raise failure(error.errno or 0, self._path, "reading") from error

    def _read_plain(self, offset: int, size: int, to_tail: int, records_max: int, buffer: bytes | None) -> RawRecords:
        found = self._read(offset, size, to_tail, records_max, buffer, False)
        assert not isinstance(found, int)
        return found

    def _read_with_index(
        self, offset: int, size: int, to_tail: int, records_max: int, buffer: bytes | None
    ) -> RawRecords:
        """Open the index, which a writer may have made since the last read, and read again.

        Raises: as `read`.
        """
        if self._open_index():
            found = self._read(offset, size, to_tail, records_max, buffer, True)
            if not isinstance(found, int):
                return found
            if found != ReadOutcome.NO_INDEX:
                self._refuse()
        return self._read_plain(offset, size, to_tail, records_max, buffer)

    def _open_index(self) -> bool:
        """Open the index; return whether the file has one."""
        directory, number = self._directory, self._header.number
        if not directory.intact:
            directory.check_path()
        header = pack_header(number=number, uuid=self._header.uuid)
        return self._records.open_index(directory.fd, index_file_name(number), header)

    def close_index(self) -> None:
        """Close the index until it is needed again."""
        self._records.close_index()

    def _refuse(self) -> None:
        """Raise CorruptError for the range that was compared last."""
        entry = self._records.refused()
        file_bytes = content_bytes(self._fd)
        if file_bytes >= entry.end:
            raise damaged_range(self._directory.path, self._path, self._header.number, entry)
        raise CorruptError(self._path, file_bytes, "truncated", f"the file ends before {entry.end}")


def damaged_range(directory: str, path: str, number: int, entry: IndexEntry) -> CorruptError:
    """Return the error for a range that is not as it was written; it has the command that reads it all the same."""
    records = "1 record" if entry.record_count == 1 else f"{entry.record_count} records"
    command = shlex.join(["binlog", "cat", "--no-verify", "--from", f"{number}:{entry.offset}", directory])
    text = (
        f"the bytes from {entry.offset} to {entry.end} ({records}) are not those that were written there. None of them "
        "is returned, because the checksum does not say which one is damaged. To read them without verification: "
        f"Reader(verify=False), or {command}"
    )
    return CorruptError(path, entry.offset, "index-crc", text)
