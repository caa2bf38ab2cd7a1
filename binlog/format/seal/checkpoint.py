"""Checkpoints, and the texts that carry one: proofs of records, and submissions to witnesses.

A checkpoint is the text of a note that gives the size and the root of a log's tree (C2SP tlog-checkpoint).  A proof
shows that a record is in a log, to people without the log (tlog-proof).  A submission asks a witness to sign a
checkpoint, and proves to it that the tree has only grown (tlog-witness).
"""

from __future__ import annotations

from typing import NamedTuple

from binlog.errors import SealError
from binlog.format.seal.note import (
    NOTE_BYTES_MAX,
    Note,
    check_name,
    decode_base64,
    encode_base64,
    parse_note,
)
from binlog.format.seal.tree import HASH_BYTES, PROOF_HASHES_MAX, SIZE_MAX, includes

_LINES = 3
_SIZE_DIGITS_MAX = 19
_FIRST_LINE = "c2sp.org/tlog-proof@v1"
_INDEX, _EXTRA = "index ", "extra "
_OLD = "old "
PROOF_BYTES_MAX = NOTE_BYTES_MAX + (1 << 16)
SUBMISSION_BYTES_MAX = NOTE_BYTES_MAX + (1 << 12)


_TIME, _STATEMENTS = "time ", "statements "


class Checkpoint(NamedTuple):
    """The size and the root of a log's tree at a moment.

    origin: names the log.  size: leaves.  root: of the tree, 32 bytes.  extensions: further lines, which are signed
    with the rest; see `extension_lines`.
    """

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the text to be signed."""
        lines = (check_name(self.origin), str(self.size), encode_base64(self.root), *self.extensions)
        return "".join(line + "\n" for line in lines)

    @property
    def seconds(self) -> int | None:
        """When it was signed, seconds since 1970 UTC; None if it does not say.  Raises: SealError."""
        line = self._extension(_TIME)
        return None if line is None else parse_count(line)

    @property
    def statements(self) -> tuple[int, bytes]:
        """How many statements there were, and the hash of the last one.  Raises: SealError."""
        line = self._extension(_STATEMENTS)
        if line is None:
            return 0, bytes(HASH_BYTES)
        count, _, last = line.partition(" ")
        return parse_count(count), parse_hash(last)

    def _extension(self, name: str) -> str | None:
        return next((line.removeprefix(name) for line in self.extensions if line.startswith(name)), None)


def extension_lines(seconds: int, statements: int, last: bytes) -> tuple[str, ...]:
    """Return the extensions of our checkpoints: when it is signed; how many statements there are, and the last hash."""
    line = (f"{_STATEMENTS}{statements} {encode_base64(last)}",) if statements else ()
    return (f"{_TIME}{seconds}", *line)


def parse_checkpoint(text: str) -> Checkpoint:
    """Return a checkpoint, given the text of its note.  Raises: SealError."""
    *lines, rest = text.split("\n")
    if rest or len(lines) < _LINES or not all(lines):
        raise SealError("a checkpoint has at least three lines, and none that is empty")
    origin, size, root, *extensions = lines
    return Checkpoint(origin, parse_count(size), parse_hash(root), tuple(extensions))


def parse_count(text: str) -> int:
    """Return a number of leaves, in decimal without leading zeros.  Raises: SealError."""
    if not (text.isascii() and text.isdigit()) or len(text) > _SIZE_DIGITS_MAX or (text[0] == "0" and text != "0"):
        raise SealError("not a number of records")
    if int(text) > SIZE_MAX:
        raise SealError(f"a tree of {text} leaves; the limit is {SIZE_MAX}")
    return int(text)


def parse_hash(line: str) -> bytes:
    """Return a hash, given its line of base64.  Raises: SealError."""
    decoded = decode_base64(line)
    if len(decoded) != HASH_BYTES:
        raise SealError(f"a hash of {len(decoded)} bytes in place of {HASH_BYTES}")
    return decoded


class InclusionProof(NamedTuple):
    """The proof that a leaf is in the tree of a checkpoint.

    leaf_index: counted from 0.  hashes: from the leaf's sibling up.  checkpoint: the signed note.  extra: bytes
    without a signature.
    """

    leaf_index: int
    hashes: tuple[bytes, ...]
    checkpoint: Note
    extra: bytes = b""

    def __str__(self) -> str:
        extra = [_EXTRA + encode_base64(self.extra)] if self.extra else []
        lines = [_FIRST_LINE, *extra, f"{_INDEX}{self.leaf_index}", *map(encode_base64, self.hashes), ""]
        return "".join(line + "\n" for line in lines) + str(self.checkpoint)

    def shows(self, leaf: bytes) -> bool:
        """Whether it shows that the leaf with this hash is in the tree, if the checkpoint's signatures are right."""
        head = parse_checkpoint(self.checkpoint.text)
        return includes(leaf, self.leaf_index, head.size, self.hashes, head.root)


def parse_proof(data: bytes) -> InclusionProof:
    """Return a proof, given a file's bytes.  Raises: SealError."""
    (first, *lines), note = _split(data, "a proof", PROOF_BYTES_MAX)
    extra = decode_base64(lines.pop(0).removeprefix(_EXTRA)) if lines and lines[0].startswith(_EXTRA) else b""
    if first != _FIRST_LINE or not lines or not lines[0].startswith(_INDEX):
        raise SealError(f"not a proof: it begins with {_FIRST_LINE!r} and has an index and a checkpoint")
    index, *hashes = lines
    return InclusionProof(parse_count(index.removeprefix(_INDEX)), _parse_hashes(hashes), note, extra)


def _split(data: bytes, name: str, bytes_max: int) -> tuple[list[str], Note]:
    """Return the lines before an empty one, and the checkpoint after it.  name: for errors.  Raises: SealError."""
    if len(data) > bytes_max:
        raise SealError(f"{name} of {len(data)} bytes; the limit is {bytes_max}")
    head, _, rest = data.partition(b"\n\n")
    try:
        lines = head.decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        raise SealError(f"{name} has a letter that is not ASCII before its checkpoint") from error
    note = parse_note(rest)
    parse_checkpoint(note.text)
    return lines, note


def _parse_hashes(lines: list[str]) -> tuple[bytes, ...]:
    if len(lines) > PROOF_HASHES_MAX:
        raise SealError(f"a proof of {len(lines)} hashes; the limit is {PROOF_HASHES_MAX}")
    return tuple(map(parse_hash, lines))


class Submission(NamedTuple):
    """A checkpoint for a witness.  old: the size that the witness knows.  hashes: the proof from there."""

    old: int
    hashes: tuple[bytes, ...]
    checkpoint: Note

    def __str__(self) -> str:
        lines = [f"{_OLD}{self.old}", *map(encode_base64, self.hashes), ""]
        return "".join(line + "\n" for line in lines) + str(self.checkpoint)


def parse_submission(data: bytes) -> Submission:
    """Return a submission, given its bytes.  Raises: SealError."""
    (old, *hashes), note = _split(data, "a submission", SUBMISSION_BYTES_MAX)
    if not old.startswith(_OLD):
        raise SealError("not a size, a proof and a checkpoint for a witness")
    return Submission(parse_count(old.removeprefix(_OLD)), _parse_hashes(hashes), note)
