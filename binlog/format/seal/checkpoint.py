"""Checkpoints: the text of a note that says which root a log's tree of a size has (C2SP tlog-checkpoint)."""

from __future__ import annotations

from typing import NamedTuple

from binlog.errors import SealError
from binlog.format.seal.note import check_name, decode_base64, encode_base64
from binlog.format.seal.tree import HASH_BYTES, SIZE_MAX

_LINES = 3
_SIZE_DIGITS_MAX = 19


class Checkpoint(NamedTuple):
    """What a log's tree is at a moment.

    origin: names the log.  size: leaves.  root: of the tree, 32 bytes.  extensions: further lines, which mean nothing
    here and are signed with the rest.
    """

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the text to be signed."""
        lines = (check_name(self.origin), str(self.size), encode_base64(self.root), *self.extensions)
        return "".join(line + "\n" for line in lines)


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
