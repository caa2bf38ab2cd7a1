"""The hashes of records."""

from __future__ import annotations

from hashlib import sha256

from binlog import Batch


def leaf_hashes(batch: Batch) -> bytes:
    """Return the leaf hash of each record of a batch, one after the other."""
    return b"".join([sha256(b"\x00" + record).digest() for record in batch])
