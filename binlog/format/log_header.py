"""The header of a log file: 256 bytes, rewritten in place while the file is open.

Bytes 0 to 23 are those of the jPOS BinLog.  Bytes 24 to 247 are ours, and zero in a file that another program made.
Bytes 248 to 255 are always zero: a jPOS reader searches for the first record at 248, and so sees two empty records.

No field crosses a 64-byte line, and each group of fields has its own CRC, because a write or a read of a header is
atomic for no more than a few bytes.
"""

from __future__ import annotations

import enum
from functools import lru_cache
from typing import NamedTuple

from binlog.errors import CorruptError, VersionError
from binlog.format.checksums import correct_flipped_bit, crc32c
from binlog.format.layout import Field, Layout

HEADER_BYTES = 256
VERSION = 1
LAYOUT_VERSION = 1
SLOT_BYTES = 56

_PARSED_KEPT = 32
"""Opening a log, or polling an idle one, parses the same few headers a dozen times."""

_MAGIC_NAME = b"BINLOG"
MAGIC = _MAGIC_NAME + LAYOUT_VERSION.to_bytes(2, "big")

LOG_HEADER = Layout(
    "log_header",
    "The header of a log file",
    size=HEADER_BYTES,
    line=64,
    fields=(
        Field(
            "header_length",
            "u32",
            "in binlog's files, the bytes after this word, so that a reader can skip the header like a record",
            const=252,
        ),
        Field("version", "u16", "a reader refuses a version that it does not know", const=VERSION),
        Field("status", "u16", "0 open, 1 closed"),
        Field("tail", "u64", "the offset of the next record"),
        Field("number", "u32", "this file's number, as in its name"),
        Field("next_number", "u32", "the next file's number, 0 until the cutover"),
        Field("magic", "bytes:8", "`BINLOG` and the version of bytes 24 to 247 (u16)", const=MAGIC),
        Field("uuid", "bytes:16", "UUID of the log, the same in all its files"),
        Field("first_sequence", "u64", "the sequence number of the file's first record"),
        Field("created_ns", "u64", "when the file was made, nanoseconds since 1970 UTC"),
        Field("published_tail", "u64", "the tail as binlog published it; other programs change only the tail at 8"),
        Field("record_count", "u64", "records up to published_tail"),
        Field("confirmed_end", "u64", "the end of the bytes that a completed sync covers"),
        Field("confirmed_counter", "u64", "the counter of the last commit that a sync confirmed; 0 for none"),
        Field("running_crc", "u32", "CRC-32C of the bytes from confirmed_end to published_tail"),
        Field("epoch", "u32", "a counter that recovery increments (durability.md, rule 13)"),
        Field("boot_id", "bytes:16", "the kernel's boot id when the last writer wrote"),
        Field(
            "flags",
            "u16",
            "1 poison, 2 foreign writers (other programs append too), 4 strict order, "
            "8 intent (durability.md, rules 22 and 24)",
        ),
        Field("poison_errno", "u16", "the errno of the write or sync that failed"),
        Field("live_crc", "u32", "CRC-32C of 64..123, seeded with uuid and number"),
        Field("doorbell", "u32", "a futex word, incremented by each change that readers wait for"),
        Field("identity_crc", "u32", "CRC-32C of 0..5, 16..19 and 24..63"),
        Field("slot_0", "bytes:56", "commit slot, for even counters"),
        Field("slot_1", "bytes:56", "commit slot, for odd counters"),
        Field("zero", "bytes:8", "always zero: two empty records, to a jPOS reader", const=bytes(8)),
    ),
)

COMMIT_SLOT = Layout(
    "commit_slot",
    "A commit slot",
    size=SLOT_BYTES,
    fields=(
        Field("counter", "u64", "counter of the commit"),
        Field("start", "u64", "the start of the group"),
        Field("end", "u64", "the end of the group"),
        Field("record_count", "u64", "records up to the end"),
        Field("time_ns", "u64", "time of the commit, strictly increasing"),
        Field("group_crc", "u32", "CRC-32C of the group's bytes"),
        Field("epoch", "u32", "as in the header when it was written"),
        Field("nonce", "u32", "random, distinguishes one attempt from another"),
        Field("slot_crc", "u32", "CRC-32C of the 52 bytes before, seeded with uuid and number"),
    ),
)

FIRST_OFFSET = HEADER_BYTES
FIRST_OFFSET_FOREIGN = LOG_HEADER.offset("zero")

_TAIL = LOG_HEADER.offset("tail")
_NUMBER = LOG_HEADER.offset("number")
_NEXT = LOG_HEADER.offset("next_number")
_OWN_PART = LOG_HEADER.offset("magic")
_LIVE = LOG_HEADER.offset("published_tail")
_LIVE_CRC = LOG_HEADER.offset("live_crc")
_BELL = LOG_HEADER.offset("doorbell")
_IDENTITY_CRC = LOG_HEADER.offset("identity_crc")
_SLOT_0 = LOG_HEADER.offset("slot_0")
_STATUS = LOG_HEADER.offset("status")

# tail .. live_crc: the bytes that a commit publishes, before the doorbell, which is in the same write.
PUBLISHED = slice(_TAIL, _BELL)
# tail .. slot_1: the bytes that recovery writes at once.
RECOVERED = slice(_TAIL, LOG_HEADER.offset("zero"))


class Status(enum.IntEnum):
    """Whether a file still takes records."""

    OPEN = 0
    CLOSED = 1


class Flag(enum.IntEnum):
    """Bits of the header's `flags`, combined as plain integers.

    POISON: a write or sync failed.
    FOREIGN_WRITERS: another program appends to the log too.
    STRICT: writers sync again after they publish.
    INTENT: if the lock is free, a writer died during a producer batch or an ingest, and the next writer must resolve
        it.
    """

    POISON = 1
    FOREIGN_WRITERS = 2
    STRICT = 4
    INTENT = 8


@lru_cache(maxsize=1024)
def block_seed(uuid: bytes, number: int) -> int:
    """Return the seed for the CRCs of the live block and the slots, so that a block of another file never validates."""
    return crc32c(uuid + number.to_bytes(4, "big"))


class CommitSlot(NamedTuple):
    """The description of a group, written before its sync: its byte range and CRC."""

    counter: int
    start: int
    end: int
    record_count: int
    time_ns: int
    group_crc: int
    epoch: int
    nonce: int

    def pack(self, *, uuid: bytes, number: int) -> bytes:
        """Return the slot's 56 bytes, with the CRC."""
        values = self._asdict()
        data = COMMIT_SLOT.pack({**values, "slot_crc": 0})[:-4]
        return data + crc32c(data, block_seed(uuid, number)).to_bytes(4, "big")


@lru_cache(maxsize=_PARSED_KEPT)
def parse_slot(data: bytes, *, uuid: bytes, number: int) -> CommitSlot | None:
    """Return the values of a commit slot, or None if its CRC does not match (as in a slot never written)."""
    values = COMMIT_SLOT.unpack(data)
    if values.pop("slot_crc") != crc32c(data[:-4], block_seed(uuid, number)):
        return None
    return CommitSlot(**values)


class LogHeader(NamedTuple):
    """The values of a header.  If another program made the file, only the first five are known.

    They are in the order of the layout: `is_native` in place of the magic, and `live_good` in place of the live CRC.
    """

    status: int
    tail: int
    number: int
    next_number: int
    is_native: bool
    uuid: bytes = bytes(16)
    first_sequence: int = 0
    created_ns: int = 0
    published_tail: int = 0
    record_count: int = 0
    confirmed_end: int = 0
    confirmed_counter: int = 0
    running_crc: int = 0
    epoch: int = 0
    boot_id: bytes = bytes(16)
    flags: int = 0
    poison_errno: int = 0
    live_good: bool = False
    doorbell: int = 0
    slot_0: bytes = bytes(SLOT_BYTES)
    slot_1: bytes = bytes(SLOT_BYTES)
    zero: bytes = bytes(8)

    @property
    def first_offset(self) -> int:
        """The offset of the file's first record."""
        return FIRST_OFFSET if self.is_native else FIRST_OFFSET_FOREIGN

    @property
    def closed(self) -> bool:
        """Whether the status says that the file takes no more records."""
        return self.status == Status.CLOSED

    @property
    def has_foreign_writers(self) -> bool:
        """Whether another program appends to the log too, if this header can tell."""
        return not self.is_native or bool(self.flags & Flag.FOREIGN_WRITERS) or self.tail != self.published_tail

    @property
    def ingesting(self) -> bool:
        """Whether the file came from an unfinished ingest and has no records appended since.

        It joins the log when the file before it is closed.
        """
        return self.is_consistent and bool(self.flags & Flag.INTENT) and not self.closed and self.confirmed_counter == 1

    @property
    def empty(self) -> bool:
        """Whether the file is open and has no records."""
        return not self.closed and self.tail == self.first_offset

    @property
    def unused(self) -> bool:
        """Whether the file may follow an open one: a cutover to it is in progress, or its process died."""
        return self.empty or self.ingesting

    @property
    def is_consistent(self) -> bool:
        """Whether this one read proves the tail: the live block is whole and has the same tail."""
        return self.is_native and self.live_good and self.published_tail == self.tail

    def slots(self) -> list[CommitSlot]:
        """Return the commit slots whose CRC matches, the newest first."""
        parsed = (parse_slot(data, uuid=self.uuid, number=self.number) for data in (self.slot_0, self.slot_1))
        return sorted((slot for slot in parsed if slot is not None), key=lambda slot: slot.counter, reverse=True)

    @property
    def has_damaged_slot(self) -> bool:
        """Whether a commit slot was written and its CRC does not match, so that its counter is unknown."""
        return len(self.slots()) < sum(any(data) for data in (self.slot_0, self.slot_1))

    def slot(self, counter: int) -> CommitSlot | None:
        """Return the commit slot with this counter, or None if it is missing or its CRC does not match."""
        slot = parse_slot(self.slot_1 if counter & 1 else self.slot_0, uuid=self.uuid, number=self.number)
        return slot if slot is not None and slot.counter == counter else None

    @property
    def pending(self) -> CommitSlot | None:
        """The commit that a writer began after the last confirmed one, according to the live block."""
        slot = self.slot(self.confirmed_counter + 1)
        return slot if slot is not None and self.confirmed_end == slot.start <= slot.end else None

    def with_slot(self, slot: CommitSlot) -> LogHeader:
        """Return the header with this slot in its place."""
        data = slot.pack(uuid=self.uuid, number=self.number)
        return self._replace(slot_1=data) if slot.counter & 1 else self._replace(slot_0=data)

    def committed(self, slot: CommitSlot) -> LogHeader:
        """Return the header after the commit of this slot was confirmed: all bytes up to its end are."""
        return self.with_slot(slot)._replace(
            tail=slot.end,
            published_tail=slot.end,
            record_count=slot.record_count,
            confirmed_end=slot.end,
            confirmed_counter=slot.counter,
            running_crc=0,
        )

    def without_slot(self, counter: int) -> LogHeader:
        """Return the header with zeros in place of the slot."""
        return self._replace(slot_1=bytes(SLOT_BYTES)) if counter & 1 else self._replace(slot_0=bytes(SLOT_BYTES))

    def pack(self) -> bytes:
        """Return the header's 256 bytes, with the CRCs computed."""
        if not self.is_native:
            raise ValueError("a header of another program's file is never written as a whole")
        header = bytearray(LOG_HEADER.pack({**self._asdict(), "live_crc": 0, "identity_crc": 0}))
        header[_LIVE_CRC:_BELL] = _live_crc(bytes(header), self.uuid, self.number).to_bytes(4, "big")
        header[_IDENTITY_CRC:_SLOT_0] = _identity_crc(bytes(header)).to_bytes(4, "big")
        return bytes(header)

    def published(self) -> bytes:
        """Return the bytes from the tail to the end of the live block, which a commit writes at once."""
        return self.pack()[PUBLISHED]

    def recovered(self) -> bytes:
        """Return the bytes from the tail to the end of the slots, which recovery writes at once."""
        return self.pack()[RECOVERED]


_LENGTH = HEADER_BYTES - 4
_MAGIC_PLACE, _LIVE_CRC_PLACE, _IDENTITY_CRC_PLACE = (
    [field.name for field in LOG_HEADER.fields].index(name) for name in ("magic", "live_crc", "identity_crc")
)


@lru_cache(maxsize=_PARSED_KEPT)
def parse_log_header(data: bytes, *, path: str, number: int | None = None) -> LogHeader:
    """Return the values of a header.

    data: the file's first 256 bytes, or fewer if the file is shorter.
    number: the number in the file's name, to compare.
    A mismatch of the live block's CRC is no error but in `live_good`: a writer may be in the middle of rewriting the
    block.
    Status, next number and tail are returned as read: no CRC covers them.
    Raises: CorruptError, VersionError.
    """
    if len(data) < HEADER_BYTES:
        raise CorruptError(path, len(data), "short-header", f"a header has 256 bytes, the file {len(data)}")
    values = LOG_HEADER.values(data)
    length, version, status, tail, number_inside, next_number = values[:_MAGIC_PLACE]
    if length != _LENGTH:
        raise CorruptError(path, 0, "header-length", f"the first word is {length}, not {_LENGTH}")
    if version != VERSION:
        raise VersionError(f"{path}: version {version} of the log file", found=version, known=(VERSION,))
    is_native = any(data[_OWN_PART:FIRST_OFFSET_FOREIGN])
    if is_native:
        _check_identity(data, values[_IDENTITY_CRC_PLACE], path)
    if number is not None and number_inside != number:
        raise CorruptError(path, _NUMBER, "number", f"the header says file {number_inside}, the name {number}")
    if not is_native:
        return LogHeader(status, tail, number_inside, next_number, is_native=False, published_tail=tail)
    live_good = values[_LIVE_CRC_PLACE] == _live_crc(data, values[_MAGIC_PLACE + 1], number_inside)
    between, after = slice(_MAGIC_PLACE + 1, _LIVE_CRC_PLACE), slice(_LIVE_CRC_PLACE + 1, _IDENTITY_CRC_PLACE)
    before = (status, tail, number_inside, next_number, True)
    return LogHeader._make((*before, *values[between], live_good, *values[after], *values[_IDENTITY_CRC_PLACE + 1 :]))


def _check_identity(data: bytes, identity_crc: int, path: str) -> None:
    magic = data[_OWN_PART : _OWN_PART + 8]
    if not magic.startswith(_MAGIC_NAME):
        raise CorruptError(path, _OWN_PART, "magic", "bytes 24 to 247 are neither zero nor begin with our magic")
    found = int.from_bytes(magic[6:], "big")
    if found != LAYOUT_VERSION:
        raise VersionError(f"{path}: layout {found} of the header", found=found, known=(LAYOUT_VERSION,))
    if identity_crc != _identity_crc(data):
        raise CorruptError(path, LOG_HEADER.offset("identity_crc"), "identity-crc", "the identity's CRC does not hold")


def mended_identity(data: bytes, *, number: int | None) -> bytes | None:
    """Return a header with the one flipped bit of its identity corrected; None if there is none, or more than one.

    data: 256 bytes.  number: of the file, if known.
    For so few bytes, a CRC-32C distinguishes one flipped bit from every other one, and from two or three.
    """

    def is_sound(flipped: bytes) -> bool:
        try:
            parse_log_header(flipped, path="", number=number)
        except (CorruptError, VersionError):
            return False
        return True

    # All of 24 to 247: in another program's file they are zeros.
    return correct_flipped_bit(
        data, is_sound, [*range(_STATUS), *range(_NUMBER, _NEXT), *range(_OWN_PART, FIRST_OFFSET_FOREIGN)]
    )


def new_log_header(
    *, number: int, uuid: bytes, first_sequence: int, created_ns: int, boot_id: bytes, epoch: int = 0, flags: int = 0
) -> LogHeader:
    """Return the header of an empty file: open, its first slot with counter 0 and an empty group."""
    slot = CommitSlot(
        counter=0, start=FIRST_OFFSET, end=FIRST_OFFSET, record_count=0, time_ns=created_ns, group_crc=0, epoch=epoch,
        nonce=0,
    )  # fmt: skip
    return LogHeader(
        status=Status.OPEN, tail=FIRST_OFFSET, number=number, next_number=0, is_native=True, uuid=uuid,
        first_sequence=first_sequence, created_ns=created_ns, published_tail=FIRST_OFFSET, confirmed_end=FIRST_OFFSET,
        epoch=epoch, boot_id=boot_id, flags=flags, live_good=True,
        slot_0=slot.pack(uuid=uuid, number=number),
    )  # fmt: skip


def _live_crc(data: bytes, uuid: bytes, number: int) -> int:
    return crc32c(data[_LIVE:_LIVE_CRC], block_seed(uuid, number))


def _identity_crc(data: bytes) -> int:
    return _identity_crc_of(data[:_STATUS] + data[_NUMBER:_NEXT] + data[_OWN_PART:_LIVE])


@lru_cache(maxsize=1024)
def _identity_crc_of(identity: bytes) -> int:
    # A file's identity never changes, and its header is parsed again and again.
    return crc32c(identity)
