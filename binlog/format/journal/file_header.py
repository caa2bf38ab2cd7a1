"""What a file of a journal begins with, in each of the layouts, and what ends one in ours.

The layout of JBoss Messaging has four bytes, the number of the file's present use.  Ours has a magic, a salt that is
new with each use and goes into the CRC of each head, and behind them a place for where the records end, which is
filled in when the journal has gone on to the next file.  All lie in the first 512 bytes, which a disk writes whole or
not at all.
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
# What reaches a disk whole, or not at all.
SECTOR_BYTES = 512

JOURNAL_HEADER = Layout(
    "journal_header",
    "The header of a journal's file",
    size=64,
    fields=(
        Field("magic", "bytes:8", "`BINLOGJL`", const=_MAGIC),
        Field("version", "u32", "a reader refuses a version it does not know", const=VERSION),
        Field("block_bytes", "u32", "a reader refuses another size of blocks", const=BLOCK_BYTES),
        Field("file_id", "u64", "of this use of the file"),
        Field("salt", "bytes:8", "of this use, at random; goes into the CRC of each head"),
        Field("began_ns", "u64", "when this use began, nanoseconds since 1970 UTC"),
        Field("record_id_max", "u64", "no record or transaction had a larger id when this use began"),
        Field("reserved", "bytes:12", "zeros", const=bytes(12)),
        Field("crc", "u32", "CRC-32C of 0..59"),
    ),
)

JOURNAL_END = Layout(
    "journal_end",
    "Where the records of a journal's file end",
    size=24,
    base=JOURNAL_HEADER.size,
    fields=(
        Field("end", "u64", "the offset behind the last record"),
        Field("record_count", "u64", ""),
        Field("reserved", "u32", "0", const=0),
        Field("crc", "u32", "CRC-32C of the header and of what stands here before"),
    ),
)

JBM_HEADER = Layout(
    "jbm_header",
    "The header of a file of JBoss Messaging's journal",
    size=4,
    fields=(Field("file_id", "u32", "of this use of the file"),),
)

# Of eight: more than chance gives, so that a damaged one of ours is not taken for another program's file.
_MAGIC_BYTES_LIKELY = 4

_CRC_AT = JOURNAL_HEADER.offset("crc")
_END_CRC_AT = JOURNAL_END.offset("crc")


class JournalLayout(enum.Enum):
    """How files and records of a journal are laid out; a directory has one.

    NATIVE: ours.  JBM: as JBoss Messaging has it since September 2008.  JBM_2008_07: as it had it in the months before.
    """

    NATIVE = "native"
    JBM = "jbm"
    JBM_2008_07 = "jbm-2008-07"

    @property
    def header_bytes(self) -> int:
        """What comes before the first record, if nothing is aligned."""
        return JOURNAL_END.end if self is JournalLayout.NATIVE else JBM_HEADER.size

    @property
    def fill(self) -> int:
        """The byte that a new file is filled with."""
        return 0 if self is JournalLayout.NATIVE else ord("J")


# Enough of a file for `parse_file_header`.
FILE_START_BYTES = JOURNAL_END.end


class FileHeader(NamedTuple):
    """What the header of a file says: the table has the units.  Only the id is said where the layout is not ours."""

    layout: JournalLayout
    file_id: int
    salt: bytes = b""
    began_ns: int = 0
    record_id_max: int = 0

    @property
    def record_id(self) -> int:
        """The id as the file's records have it."""
        return self.file_id & 0xFFFFFFFF

    def pack(self) -> bytes:
        """The header as it lies in the file, with room for where the records end."""
        if self.layout is not JournalLayout.NATIVE:
            return JBM_HEADER.pack({"file_id": self.file_id})
        values = {name: getattr(self, name) for name in ("file_id", "salt", "began_ns", "record_id_max")}
        crc = crc32c(JOURNAL_HEADER.pack({**values, "crc": 0})[:_CRC_AT])
        return JOURNAL_HEADER.pack({**values, "crc": crc}) + bytes(JOURNAL_END.size)

    def pack_end(self, end: int, record_count: int) -> bytes:
        """Where the records end, to be written at JOURNAL_END.base of a file of our layout."""
        values = {"end": end, "record_count": record_count}
        start = JOURNAL_END.pack({**values, "crc": 0})[: _END_CRC_AT - JOURNAL_END.base]
        return JOURNAL_END.pack({**values, "crc": self._end_crc(start)})

    def parse_end(self, data: bytes) -> tuple[int, int] | None:
        """Where the records end, and how many there are; None while the file is written.

        data: what the file begins with.  Nothing is trusted in it that this use of the file has not written.
        """
        if self.layout is not JournalLayout.NATIVE or len(data) < JOURNAL_END.end:
            return None
        found = JOURNAL_END.unpack(data)
        if found["crc"] != self._end_crc(data[JOURNAL_END.base : _END_CRC_AT]):
            return None
        return found["end"], found["record_count"]

    def _end_crc(self, start: bytes) -> int:
        return crc32c(start, crc32c(self.pack()[: JOURNAL_HEADER.size]))


def is_cut_header(data: bytes) -> bool:
    """Whether the file, which begins so, ends before the header does."""
    needed = JOURNAL_HEADER.size if data[:8] == _MAGIC[: len(data)] and data else JBM_HEADER.size
    return len(data) < needed


def parse_file_header(data: bytes, path: str, layout: JournalLayout | None = None) -> FileHeader:
    """The header that a file begins with.

    layout: JBM or the older one, which no file tells of itself; None: what the file says, and JBM where it is not ours.
    Raises: CorruptError; VersionError; ValueError for a layout other than the file's.
    """
    same = sum(left == right for left, right in zip(data, _MAGIC, strict=False))
    if same < _MAGIC_BYTES_LIKELY:
        if layout is JournalLayout.NATIVE:
            raise CorruptError(path, 0, "header", "it does not begin as a file of ours")
        return _jbm_header(data, path, layout or JournalLayout.JBM)
    if layout not in (None, JournalLayout.NATIVE):
        raise ValueError(f"{path} is of the layout {JournalLayout.NATIVE.value!r}, not {layout.value!r}")
    if len(data) < JOURNAL_HEADER.size:
        raise CorruptError(path, 0, "header", f"of the header only {len(data)} bytes are there")
    found = JOURNAL_HEADER.unpack(data)
    if found["crc"] != crc32c(data[:_CRC_AT]) or found["magic"] != _MAGIC:
        raise CorruptError(path, 0, "header_crc", "the header is not what was written")
    if found["version"] != VERSION:
        raise VersionError(
            f"{path}: version {found['version']}; {VERSION} is known", found=found["version"], known=(VERSION,)
        )
    if found["block_bytes"] != BLOCK_BYTES:
        raise CorruptError(path, 0, "block_bytes", f"blocks of {found['block_bytes']} bytes; {BLOCK_BYTES} are known")
    values = [found[name] for name in ("file_id", "salt", "began_ns", "record_id_max")]
    return FileHeader(JournalLayout.NATIVE, *values)


def _jbm_header(data: bytes, path: str, layout: JournalLayout) -> FileHeader:
    if len(data) < JBM_HEADER.size:
        raise CorruptError(path, 0, "header", f"of the header only {len(data)} bytes are there")
    return FileHeader(layout, JBM_HEADER.unpack(data)["file_id"])


def aligned(offset: int, alignment: int) -> int:
    """The first multiple of an alignment that is not before an offset."""
    return -(-offset // alignment) * alignment
