"""Proofs as files: that a record is in a log, to be checked without the log (C2SP tlog-proof)."""

from __future__ import annotations

from typing import NamedTuple

from binlog.errors import SealError
from binlog.format.seal.checkpoint import parse_checkpoint, parse_count, parse_hash
from binlog.format.seal.note import NOTE_BYTES_MAX, Note, decode_base64, encode_base64, parse_note
from binlog.format.seal.tree import PROOF_HASHES_MAX, includes

_FIRST_LINE = "c2sp.org/tlog-proof@v1"
_INDEX, _EXTRA = "index ", "extra "
PROOF_BYTES_MAX = NOTE_BYTES_MAX + (1 << 16)


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
    if len(data) > PROOF_BYTES_MAX:
        raise SealError(f"a proof of {len(data)} bytes; the limit is {PROOF_BYTES_MAX}")
    head, separator, note = data.partition(b"\n\n")
    try:
        first, *lines = head.decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        raise SealError("a proof has a letter that is not ASCII before its checkpoint") from error
    extra = decode_base64(lines.pop(0).removeprefix(_EXTRA)) if lines and lines[0].startswith(_EXTRA) else b""
    if first != _FIRST_LINE or not separator or not lines or not lines[0].startswith(_INDEX):
        raise SealError(f"not a proof: it begins with {_FIRST_LINE!r} and has an index and a checkpoint")
    index, *hashes = lines
    if len(hashes) > PROOF_HASHES_MAX:
        raise SealError(f"a proof of {len(hashes)} hashes; the limit is {PROOF_HASHES_MAX}")
    found = parse_note(note)
    parse_checkpoint(found.text)
    return InclusionProof(parse_count(index.removeprefix(_INDEX)), tuple(map(parse_hash, hashes)), found, extra)
