"""The header of a journal file in each layout, and the end that a native file declares.

In JBoss Messaging's layouts the header has four bytes, the id of the file's current use.  A native header has a magic
number, and a salt that is new in each use and goes into the CRC of each head.  After it there is room for the end of
the records, which is filled in after a cutover.  All of this is within the first 512 bytes, which a disk writes
completely or not at all.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from binlog.errors import CorruptError, VersionError
from binlog.format.checksums import crc32c
from binlog.format.journal.block import BLOCK_BYTES
from binlog.format.layout import Field, Layout

VERSION = 2
_MAGIC = b"BINLOGJL"
ALIGNMENT_MAX = 1 << 16
# A disk writes a sector completely or not at all.
SECTOR_BYTES = 512

JOURNAL_HEADER = Layout(
    "journal_header",
    "The header of a journal's file",
    size=64,
    fields=(
        Field("magic", "bytes:8", "`BINLOGJL`", const=_MAGIC),
        Field("version", "u32", "a reader refuses a version it does not know", const=VERSION),
        Field("block_bytes", "u32", "a reader refuses any other block size", const=BLOCK_BYTES),
        Field("file_id", "u64", "id of this use of the file"),
        Field("salt", "bytes:8", "random bytes of this use; the CRC of each head includes them"),
        Field("began_ns", "u64", "when this use began, nanoseconds since 1970 UTC"),
        Field("record_id_max", "u64", "no record or transaction had a larger id when this use began"),
        Field("reserved", "bytes:12", "zeros", const=bytes(12)),
        Field("crc", "u32", "CRC-32C of 0..59"),
    ),
)

JOURNAL_END = Layout(
    "journal_end",
    "The end of a journal file's records",
    size=24,
    base=JOURNAL_HEADER.size,
    fields=(
        Field("end", "u64", "the offset after the last record"),
        Field("record_count", "u64", ""),
        Field("reserved", "u32", "0", const=0),
        Field("crc", "u32", "CRC-32C of the header and of the fields before this one"),
    ),
)

JBM_HEADER = Layout(
    "jbm_header",
    "The header of a file of JBoss Messaging's journal",
    size=4,
    fields=(Field("file_id", "u32", "id of this use of the file"),),
)

# Of eight.  Chance gives fewer, and a damaged native file must not be taken for another program's file.
_MAGIC_BYTES_LIKELY = 4

_CRC_AT = JOURNAL_HEADER.offset("crc")
_END_CRC_AT = JOURNAL_END.offset("crc")


class JournalLayout(enum.Enum):
    """The layout of all files and records of a journal.

    NATIVE: binlog's own.  JBM: JBoss Messaging's since September 2008.  JBM_2008_07: the one of the months before.
    """

    NATIVE = "native"
    JBM = "jbm"
    JBM_2008_07 = "jbm-2008-07"

    @property
    def header_bytes(self) -> int:
        """Bytes before the first record, if nothing is aligned."""
        return JOURNAL_END.end if self is JournalLayout.NATIVE else JBM_HEADER.size

    @property
    def fill(self) -> int:
        """The byte that fills a new file."""
        return 0 if self is JournalLayout.NATIVE else ord("J")


# As many bytes of a file as `parse_file_header` needs.
FILE_START_BYTES = JOURNAL_END.end


class FileHeader(NamedTuple):
    """The header of a file; the table above has the units.  A layout other than native has only the id."""

    layout: JournalLayout
    file_id: int
    salt: bytes = b""
    began_ns: int = 0
    record_id_max: int = 0

    @property
    def record_id(self) -> int:
        """The file id as records have it."""
        return self.file_id & 0xFFFFFFFF

    def pack(self) -> bytes:
        """Pack the header, with zeros for the end of the records."""
        if self.layout is not JournalLayout.NATIVE:
            return JBM_HEADER.pack({"file_id": self.file_id})
        values = {name: getattr(self, name) for name in ("file_id", "salt", "began_ns", "record_id_max")}
        crc = crc32c(JOURNAL_HEADER.pack({**values, "crc": 0})[:_CRC_AT])
        return JOURNAL_HEADER.pack({**values, "crc": crc}) + bytes(JOURNAL_END.size)

    def pack_end(self, end: int, record_count: int) -> bytes:
        """Pack the end of the records, to be written at JOURNAL_END.base of a native file."""
        values = {"end": end, "record_count": record_count}
        start = JOURNAL_END.pack({**values, "crc": 0})[: _END_CRC_AT - JOURNAL_END.base]
        return JOURNAL_END.pack({**values, "crc": self._end_crc(start)})

    def parse_end(self, data: bytes) -> tuple[int, int] | None:
        """Return the end of the records and their count, or None if the file does not declare them yet.

        data: the first bytes of the file.  The CRC includes the header, so an end of an earlier use does not count.
        """
        if self.layout is not JournalLayout.NATIVE or len(data) < JOURNAL_END.end:
            return None
        fields = JOURNAL_END.unpack(data)
        if fields["crc"] != self._end_crc(data[JOURNAL_END.base : _END_CRC_AT]):
            return None
        return fields["end"], fields["record_count"]

    def _end_crc(self, start: bytes) -> int:
        return crc32c(start, crc32c(self.pack()[: JOURNAL_HEADER.size]))


def is_cut_header(data: bytes) -> bool:
    """Whether a file with these first bytes ends before its header does."""
    needed = JOURNAL_HEADER.size if data[:8] == _MAGIC[: len(data)] and data else JBM_HEADER.size
    return len(data) < needed


def parse_file_header(data: bytes, path: str, layout: JournalLayout | None = None) -> FileHeader:
    """Parse the header of a file.

    layout: None: native, or JBM if the file has no native header.  No file shows which of JBoss Messaging's layouts it
    has.
    Raises: CorruptError; VersionError; ValueError if the file is native and another layout is given.
    """
    same = sum(left == right for left, right in zip(data, _MAGIC, strict=False))
    if same < _MAGIC_BYTES_LIKELY:
        if layout is JournalLayout.NATIVE:
            raise CorruptError(path, 0, "header", "it does not begin like a native journal file")
        return _jbm_header(data, path, layout or JournalLayout.JBM)
    if layout not in (None, JournalLayout.NATIVE):
        raise ValueError(f"{path} is of the layout {JournalLayout.NATIVE.value!r}, not {layout.value!r}")
    if len(data) < JOURNAL_HEADER.size:
        raise CorruptError(path, 0, "header", f"the header is cut off after {len(data)} bytes")
    fields = JOURNAL_HEADER.unpack(data)
    if fields["crc"] != crc32c(data[:_CRC_AT]) or fields["magic"] != _MAGIC:
        raise CorruptError(path, 0, "header_crc", "the header is not what was written")
    if fields["version"] != VERSION:
        raise VersionError(
            f"{path}: version {fields['version']}; {VERSION} is known", found=fields["version"], known=(VERSION,)
        )
    if fields["block_bytes"] != BLOCK_BYTES:
        text = f"blocks of {fields['block_bytes']} bytes; this version knows {BLOCK_BYTES}"
        raise CorruptError(path, 0, "block_bytes", text)
    values = [fields[name] for name in ("file_id", "salt", "began_ns", "record_id_max")]
    return FileHeader(JournalLayout.NATIVE, *values)


def _jbm_header(data: bytes, path: str, layout: JournalLayout) -> FileHeader:
    if len(data) < JBM_HEADER.size:
        raise CorruptError(path, 0, "header", f"the header is cut off after {len(data)} bytes")
    return FileHeader(layout, JBM_HEADER.unpack(data)["file_id"])


def aligned(offset: int, alignment: int) -> int:
    """Round an offset up to a multiple of an alignment."""
    return -(-offset // alignment) * alignment
