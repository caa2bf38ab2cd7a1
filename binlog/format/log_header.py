"""The header of a log file: 256 bytes, rewritten in place while the file is open.

Bytes 0..23 are those of the jPOS BinLog; 24..247 are ours and zero in a file
that another program made; 248..255 are always zero, so that a jPOS reader,
which looks for the first record at 248, sees two empty records there.

No field lies across a 64-byte line and each group of fields has a CRC of its
own, because no more than a few bytes of a header may be taken to be written,
or read, at once.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from functools import lru_cache

from binlog.errors import CorruptError, VersionError
from binlog.format.checksums import correct_flipped_bit, crc32c
from binlog.format.layout import Field, Layout

HEADER_BYTES = 256
VERSION = 1
LAYOUT_VERSION = 1
SLOT_BYTES = 56

_PARSED_KEPT = 32
"""Opening a log, and looking at one where nothing happens, parse the same few headers a dozen times."""

_MAGIC_NAME = b"BINLOG"
MAGIC = _MAGIC_NAME + LAYOUT_VERSION.to_bytes(2, "big")

LOG_HEADER = Layout(
    "log_header",
    "The header of a log file",
    size=HEADER_BYTES,
    line=64,
    fields=(
        Field("header_length", "u32", "bytes that follow this word; a reader skips the header as a record", const=252),
        Field("version", "u16", "a reader refuses a version that it does not know", const=VERSION),
        Field("status", "u16", "0 open, 1 closed"),
        Field("tail", "u64", "where the next record will be written"),
        Field("number", "u32", "this file's number, as in its name"),
        Field("next_number", "u32", "the next file's number, 0 until the cutover"),
        Field("magic", "bytes:8", "`BINLOG` and the version of bytes 24 to 247 (u16)", const=MAGIC),
        Field("uuid", "bytes:16", "of the log, the same in all its files"),
        Field("first_sequence", "u64", "the sequence number of the file's first record"),
        Field("created_ns", "u64", "when the file was made, nanoseconds since 1970 UTC"),
        Field("own_tail", "u64", "the tail as we wrote it; another program's writers change only the tail at 8"),
        Field("record_count", "u64", "records up to own_tail"),
        Field("confirmed_end", "u64", "the end of what a completed sync covers"),
        Field("confirmed_counter", "u64", "the counter of the last commit that a sync confirmed; 0 for none"),
        Field("running_crc", "u32", "CRC-32C of the bytes from confirmed_end to own_tail"),
        Field("epoch", "u32", "raised by each recovery"),
        Field("boot_id", "bytes:16", "the kernel's boot id when the last writer wrote"),
        Field(
            "flags",
            "u16",
            "1 poison, 2 mixed (other programs write here too), 4 strict order, 8 once (rule 22)",
        ),
        Field("poison_errno", "u16", "the errno of the write or sync that failed"),
        Field("live_crc", "u32", "CRC-32C of 64..123, seeded with uuid and number"),
        Field("doorbell", "u32", "a futex word, raised after each change that readers wait for"),
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
        Field("counter", "u64", "of the commit"),
        Field("start", "u64", "where the group starts"),
        Field("end", "u64", "where it ends"),
        Field("record_count", "u64", "records up to the end"),
        Field("time_ns", "u64", "of the commit, strictly increasing"),
        Field("group_crc", "u32", "CRC-32C of the group's bytes"),
        Field("epoch", "u32", "as in the header when it was written"),
        Field("nonce", "u32", "random, tells one attempt from another"),
        Field("slot_crc", "u32", "CRC-32C of the 52 bytes before, seeded with uuid and number"),
    ),
)

FIRST_OFFSET = HEADER_BYTES
FIRST_OFFSET_FOREIGN = LOG_HEADER.offset("zero")

_TAIL = LOG_HEADER.offset("tail")
_NUMBER = LOG_HEADER.offset("number")
_NEXT = LOG_HEADER.offset("next_number")
_OURS = LOG_HEADER.offset("magic")
_LIVE = LOG_HEADER.offset("own_tail")
_LIVE_CRC = LOG_HEADER.offset("live_crc")
_BELL = LOG_HEADER.offset("doorbell")
_IDENTITY_CRC = LOG_HEADER.offset("identity_crc")
_SLOT_0 = LOG_HEADER.offset("slot_0")
_STATUS = LOG_HEADER.offset("status")

# What a commit publishes, but for the bell, which comes next and goes down in the same write: tail .. live_crc.
PUBLISHED = slice(_TAIL, _BELL)
# What recovery writes, in one write: tail .. slot_1.
RECOVERED = slice(_TAIL, LOG_HEADER.offset("zero"))


class Status(enum.IntEnum):
    """Whether a file still takes records."""

    OPEN = 0
    CLOSED = 1


class Flag(enum.IntEnum):
    """What is special about a file, in the header's `flags`: bits that are combined as plain integers."""

    POISON = 1
    MIXED = 2
    STRICT = 4
    ONCE = 8


@lru_cache(maxsize=1024)
def block_seed(uuid: bytes, number: int) -> int:
    """What the CRCs of the live block and of the slots start from, so that a block of another file never fits."""
    return crc32c(uuid + number.to_bytes(4, "big"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSlot:
    """What a commit says of itself before its sync: which bytes are its group's, and their CRC."""

    counter: int
    start: int
    end: int
    record_count: int
    time_ns: int
    group_crc: int
    epoch: int
    nonce: int

    def pack(self, *, uuid: bytes, number: int) -> bytes:
        """The slot's 56 bytes, with its CRC."""
        values = {name: getattr(self, name) for name in CommitSlot.__slots__}
        data = COMMIT_SLOT.pack({**values, "slot_crc": 0})[:-4]
        return data + crc32c(data, block_seed(uuid, number)).to_bytes(4, "big")


@lru_cache(maxsize=_PARSED_KEPT)
def parse_slot(data: bytes, *, uuid: bytes, number: int) -> CommitSlot | None:
    """A commit slot's values, or None where its CRC does not hold (as in one never written)."""
    values = COMMIT_SLOT.unpack(data)
    if values.pop("slot_crc") != crc32c(data[:-4], block_seed(uuid, number)):
        return None
    return CommitSlot(**values)


@dataclass(frozen=True, slots=True)
class LogHeader:
    """A header's values.  In a file that another program made, only the first five are known."""

    status: int
    tail: int
    number: int
    next_number: int
    ours: bool
    uuid: bytes = bytes(16)
    first_sequence: int = 0
    created_ns: int = 0
    own_tail: int = 0
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
        """Where the file's first record starts."""
        return FIRST_OFFSET if self.ours else FIRST_OFFSET_FOREIGN

    @property
    def closed(self) -> bool:
        """Whether the status says that the file takes no more records."""
        return self.status == Status.CLOSED

    @property
    def mixed(self) -> bool:
        """Whether another program writes here too, as far as this header tells."""
        return not self.ours or bool(self.flags & Flag.MIXED) or self.tail != self.own_tail

    @property
    def ingesting(self) -> bool:
        """Whether the file has all its records from an ingest that is under way, and nobody has appended to it.

        While the file before it is open, it is not in the log yet.
        """
        return self.settled and bool(self.flags & Flag.ONCE) and not self.closed and self.confirmed_counter == 1

    @property
    def empty(self) -> bool:
        """Whether the file is open and has no records."""
        return not self.closed and self.tail == self.first_offset

    @property
    def unused(self) -> bool:
        """Whether the file can follow one that is still open: a cutover to it is under way, or its process died."""
        return self.empty or self.ingesting

    @property
    def settled(self) -> bool:
        """Whether this one read vouches for its tail: our block is whole and names the same tail."""
        return self.ours and self.live_good and self.own_tail == self.tail

    def slots(self) -> list[CommitSlot]:
        """The commit slots whose CRC holds, the newest first."""
        parsed = (parse_slot(data, uuid=self.uuid, number=self.number) for data in (self.slot_0, self.slot_1))
        return sorted((slot for slot in parsed if slot is not None), key=lambda slot: slot.counter, reverse=True)

    @property
    def slots_spoilt(self) -> bool:
        """Whether there is a commit slot that was written, and whose CRC does not hold: nobody knows which commit's."""
        return len(self.slots()) < sum(any(data) for data in (self.slot_0, self.slot_1))

    def slot(self, counter: int) -> CommitSlot | None:
        """The commit slot with this counter, where it is there and its CRC holds."""
        slot = parse_slot(self.slot_1 if counter & 1 else self.slot_0, uuid=self.uuid, number=self.number)
        return slot if slot is not None and slot.counter == counter else None

    @property
    def pending(self) -> CommitSlot | None:
        """The commit that was begun after the last confirmed one, as the live block has it."""
        slot = self.slot(self.confirmed_counter + 1)
        return slot if slot is not None and self.confirmed_end == slot.start <= slot.end else None

    def with_slot(self, slot: CommitSlot) -> LogHeader:
        """The header with the slot in its place."""
        data = slot.pack(uuid=self.uuid, number=self.number)
        return replace(self, slot_1=data) if slot.counter & 1 else replace(self, slot_0=data)

    def without_slot(self, counter: int) -> LogHeader:
        """The header with zeros in the slot's place."""
        return replace(self, slot_1=bytes(SLOT_BYTES)) if counter & 1 else replace(self, slot_0=bytes(SLOT_BYTES))

    def pack(self) -> bytes:
        """The header's 256 bytes, with its CRCs computed."""
        if not self.ours:
            raise ValueError("a header of another program's file is never written as a whole")
        values = {name: getattr(self, name) for name in _OWN_FIELDS}
        header = bytearray(LOG_HEADER.pack({**values, "live_crc": 0, "identity_crc": 0}))
        header[_LIVE_CRC:_BELL] = _live_crc(bytes(header), self.uuid, self.number).to_bytes(4, "big")
        header[_IDENTITY_CRC:_SLOT_0] = _identity_crc(bytes(header)).to_bytes(4, "big")
        return bytes(header)

    def published(self) -> bytes:
        """The bytes from the tail to the end of the live block, which one commit writes."""
        return self.pack()[PUBLISHED]

    def recovered(self) -> bytes:
        """The bytes from the tail to the end of the slots, which recovery writes."""
        return self.pack()[RECOVERED]


# The fields that `LogHeader` takes over as they are; constants and CRCs it does not.
_SHARED_FIELDS = ("status", "tail", "number", "next_number")
_OWN_FIELDS = tuple(name for name in LogHeader.__slots__ if name not in ("ours", "live_good"))


@lru_cache(maxsize=_PARSED_KEPT)
def parse_log_header(data: bytes, *, path: str, number: int | None = None) -> LogHeader:
    """The values of a header.

    data: the file's first 256 bytes, fewer where the file is shorter.
    number: what the file's name says, to compare.
    The live block's CRC is told by `live_good`, not raised: it may be half-way through being rewritten.
    Status, next number and tail are given as they lie there: no CRC covers them.
    Raises: CorruptError, VersionError.
    """
    if len(data) < HEADER_BYTES:
        raise CorruptError(path, len(data), "short-header", f"a header has 256 bytes, the file {len(data)}")
    values = LOG_HEADER.unpack(data)
    if values["header_length"] != LOG_HEADER.const("header_length"):
        raise CorruptError(path, 0, "header-length", f"the first word is {values['header_length']}, not 252")
    if values["version"] != VERSION:
        found = int(values["version"])
        raise VersionError(f"{path}: version {found} of the log file", found=found, known=(VERSION,))
    ours = any(data[_OURS:FIRST_OFFSET_FOREIGN])
    if ours:
        _check_identity(data, values["identity_crc"], path)
    if number is not None and values["number"] != number:
        raise CorruptError(path, _NUMBER, "number", f"the header says file {values['number']}, the name {number}")
    if not ours:
        return LogHeader(ours=False, own_tail=values["tail"], **{name: values[name] for name in _SHARED_FIELDS})
    live_good = values["live_crc"] == _live_crc(data, values["uuid"], values["number"])
    return LogHeader(ours=True, live_good=live_good, **{name: values[name] for name in _OWN_FIELDS})


def _check_identity(data: bytes, identity_crc: int, path: str) -> None:
    magic = data[_OURS : _OURS + 8]
    if not magic.startswith(_MAGIC_NAME):
        raise CorruptError(path, _OURS, "magic", "bytes 24 to 247 are neither zero nor begin with our magic")
    found = int.from_bytes(magic[6:], "big")
    if found != LAYOUT_VERSION:
        raise VersionError(f"{path}: layout {found} of the header", found=found, known=(LAYOUT_VERSION,))
    if identity_crc != _identity_crc(data):
        raise CorruptError(path, LOG_HEADER.offset("identity_crc"), "identity-crc", "the identity's CRC does not hold")


def mended_identity(data: bytes, *, number: int | None) -> bytes | None:
    """A header whose identity has one flipped bit, with that bit put right; None if it has none, or more of them.

    data: 256 bytes.  number: of the file, if that is known.
    The CRC-32C of so few bytes tells one flipped bit from any other, and from two or three.
    """

    def is_sound(flipped: bytes) -> bool:
        try:
            parse_log_header(flipped, path="", number=number)
        except (CorruptError, VersionError):
            return False
        return True

    # All of 24..247: in another program's file they are zeros.
    return correct_flipped_bit(
        data, is_sound, [*range(_STATUS), *range(_NUMBER, _NEXT), *range(_OURS, FIRST_OFFSET_FOREIGN)]
    )


def new_log_header(
    *, number: int, uuid: bytes, first_sequence: int, created_ns: int, boot_id: bytes, epoch: int = 0, flags: int = 0
) -> LogHeader:
    """The header of a file that has no records yet: open, its first slot with counter 0 and nothing in it."""
    slot = CommitSlot(
        counter=0, start=FIRST_OFFSET, end=FIRST_OFFSET, record_count=0, time_ns=created_ns, group_crc=0, epoch=epoch,
        nonce=0,
    )  # fmt: skip
    return LogHeader(
        status=Status.OPEN, tail=FIRST_OFFSET, number=number, next_number=0, ours=True, uuid=uuid,
        first_sequence=first_sequence, created_ns=created_ns, own_tail=FIRST_OFFSET, confirmed_end=FIRST_OFFSET,
        epoch=epoch, boot_id=boot_id, flags=flags, live_good=True,
        slot_0=slot.pack(uuid=uuid, number=number),
    )  # fmt: skip


def _live_crc(data: bytes, uuid: bytes, number: int) -> int:
    return crc32c(data[_LIVE:_LIVE_CRC], block_seed(uuid, number))


def _identity_crc(data: bytes) -> int:
    return _identity_crc_of(data[:_STATUS] + data[_NUMBER:_NEXT] + data[_OURS:_LIVE])


@lru_cache(maxsize=1024)
def _identity_crc_of(identity: bytes) -> int:
    # A file's identity never changes while its header is parsed again and again.
    return crc32c(identity)
