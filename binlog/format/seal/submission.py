"""What a witness is sent: the size that it knows, a consistency proof, and the new checkpoint (C2SP tlog-witness)."""

from __future__ import annotations

from typing import NamedTuple

from binlog.errors import SealError
from binlog.format.seal.checkpoint import parse_checkpoint, parse_count, parse_hash
from binlog.format.seal.note import NOTE_BYTES_MAX, Note, encode_base64, parse_note
from binlog.format.seal.tree import PROOF_HASHES_MAX

_OLD = "old "
SUBMISSION_BYTES_MAX = NOTE_BYTES_MAX + (1 << 12)


class Submission(NamedTuple):
    """A checkpoint for a witness.  old: the size that the witness knows.  hashes: the proof from there."""

    old: int
    hashes: tuple[bytes, ...]
    checkpoint: Note

    def __str__(self) -> str:
        lines = [f"{_OLD}{self.old}", *map(encode_base64, self.hashes), ""]
        return "".join(line + "\n" for line in lines) + str(self.checkpoint)


def parse_submission(data: bytes) -> Submission:
    """Return what a witness was sent.  Raises: SealError."""
    if len(data) > SUBMISSION_BYTES_MAX:
        raise SealError(f"{len(data)} bytes were sent; the limit is {SUBMISSION_BYTES_MAX}")
    head, separator, note = data.partition(b"\n\n")
    try:
        old, *hashes = head.decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        raise SealError("a letter before the checkpoint is not ASCII") from error
    if not separator or not old.startswith(_OLD) or len(hashes) > PROOF_HASHES_MAX:
        raise SealError("not a size, a proof and a checkpoint for a witness")
    found = parse_note(note)
    parse_checkpoint(found.text)
    return Submission(parse_count(old.removeprefix(_OLD)), tuple(map(parse_hash, hashes)), found)
