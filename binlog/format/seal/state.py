"""The files of a seal beside its hashes: the first leaf of each log file, and the state of the sealer.

A sealer's state says how long the log was.  It is a line of JSON with a checksum, which holds the last signed note.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from binlog.errors import SealError
from binlog.format.checksums import pack_text, parse_text
from binlog.format.layout import Field, Layout
from binlog.format.record import Ref
from binlog.format.seal.checkpoint import parse_count
from binlog.format.seal.note import NOTE_BYTES_MAX, Note, check_name, parse_note
from binlog.format.seal.tree import SIZE_MAX

SEAL_FOLDER = "seal"
HASH_FOLDER = "hashes"
BEGINNING_FILE, STATE_FILE, FILES_FILE, ANCHORED_FILE = "beginning", "state", "files", "anchored"
HISTORY_FILE, STATEMENTS_FILE = "history", "statements"
CHECKPOINT_FILE, COSIGNED_FILE = "checkpoint", "cosigned"
# The history has a checkpoint for each minute in which one was signed.
HISTORY_SECONDS = 60
STATE_BYTES_MAX = 2 * NOTE_BYTES_MAX

SEALED_FILE = Layout(
    "sealed_file",
    "An entry of a seal's `files`: the first leaf of a log file",
    size=16,
    fields=(
        Field("number", "u32", "the log file's number, which is above that of the entry before"),
        Field("reserved", "u32", "zero", const=0),
        Field("first_leaf", "u64", "the leaf of its first record; leaves are counted from 0"),
    ),
)

_BEGINNING = "binlog seal beginning v1"


class SealedFile(NamedTuple):
    """A log file of the tree."""

    number: int
    first_leaf: int

    def pack(self) -> bytes:
        """Return its entry."""
        return SEALED_FILE.pack(self._asdict())


def parse_sealed_files(data: bytes) -> Iterator[SealedFile]:
    """Yield the entries of a seal's `files`, up to one of zeros.  Raises: SealError if they are not in order."""
    last = SealedFile(0, 0)
    for at in range(0, len(data) // SEALED_FILE.size * SEALED_FILE.size, SEALED_FILE.size):
        values = SEALED_FILE.unpack(data, at)
        if not any(values.values()):
            return  # a power cut kept the size of the file, and not its last entries, which no state counts
        found = SealedFile(values["number"], values["first_leaf"])
        if values["reserved"] or found.number <= last.number or not last.first_leaf <= found.first_leaf <= SIZE_MAX:
            raise SealError("the log files of a seal are not in order")
        yield (last := found)


class Beginning(NamedTuple):
    """The text of the signed note with which a seal begins.

    origin: of the log.  uuid: the log's, in hexadecimal.  first: of the first record.  seconds: when, since 1970 UTC.
    keep_seconds: retention must not remove a record that was sealed less than this ago.
    """

    origin: str
    uuid: str
    first: Ref
    seconds: int
    keep_seconds: int = 0

    def text(self) -> str:
        """Return the text to be signed."""
        lines = (_BEGINNING, self.origin, self.uuid, str(self.first), str(self.seconds), str(self.keep_seconds))
        return "".join(line + "\n" for line in lines)


def parse_beginning(text: str) -> Beginning:
    """Return the beginning of a seal, given the text of its note.  Raises: SealError."""
    kind, *lines = text.split("\n")
    if kind != _BEGINNING or len(lines) != len(Beginning._fields) + 1 or lines.pop():
        raise SealError("not the beginning of a seal")
    origin, uuid, first, seconds, keep_seconds = lines
    try:
        return Beginning(check_name(origin), uuid, Ref.parse(first), parse_count(seconds), parse_count(keep_seconds))
    except ValueError as error:
        raise SealError(f"the beginning of a seal has no ref: {error}") from error


class SealState(NamedTuple):
    """The state of the sealer.

    size: leaves.  next_ref: of the record that becomes the next leaf.  tile_ref: of the first record of the last tile
    that is not full; equal to next_ref if each is.  file_count: log files of the tree.  note: the last signed
    checkpoint, of this size or a smaller one; None before the first.  last_ref: of the last leaf's record; None before
    the first.
    """

    size: int
    next_ref: Ref
    tile_ref: Ref
    file_count: int
    note: Note | None
    last_ref: Ref | None = None

    def pack(self) -> bytes:
        """Return the bytes of the file."""
        values = {
            "size": self.size,
            "next_ref": str(self.next_ref),
            "tile_ref": str(self.tile_ref),
            "file_count": self.file_count,
            "note": None if self.note is None else str(self.note),
            "last_ref": None if self.last_ref is None else str(self.last_ref),
        }
        return pack_text(json.dumps(values).encode())


def parse_state(data: bytes) -> SealState:
    """Return a sealer's state, given the file's bytes.  Raises: SealError."""
    try:
        values = json.loads(parse_text(data)[0])
        size, file_count, note = values["size"], values["file_count"], values["note"]
        refs = Ref.parse(values["next_ref"]), Ref.parse(values["tile_ref"])
        last_ref = None if values.get("last_ref") is None else Ref.parse(values["last_ref"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SealError(f"the state of the sealer is damaged: {error}") from error
    if not all(isinstance(number, int) and 0 <= number <= SIZE_MAX for number in (size, file_count)):
        raise SealError("the state of the sealer has a number out of range")
    return SealState(size, *refs, file_count, None if note is None else parse_note(str(note).encode()), last_ref)
