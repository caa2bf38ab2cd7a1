"""SealStat: how far the seal of a log has come."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import binlog
from binlog.errors import NotFoundError
from binlog.format.record import Ref
from binlog.format.seal.checkpoint import parse_checkpoint
from binlog.format.seal.note import Note
from binlog.format.seal.state import CHECKPOINT_FILE
from binlog.seal.folder import SealFolder
from binlog.seal.sealing.anchoring import Anchored, read_anchored


@dataclass(frozen=True, kw_only=True)
class SealStat:
    """The seal of a log, according to its folder; only `verify` compares it with the records.

    origin: of the log.  size: records that the latest checkpoint covers.  checkpoint: None before the first.
    next_ref: of the next record to be sealed.  unsealed_bytes: of the log from there on, with the records' lengths.
    signed_ns: when the checkpoint was written, nanoseconds since 1970 UTC, by the file's time.
    anchored: for each anchor, how far it is.
    """

    origin: str
    size: int
    checkpoint: Note | None
    next_ref: Ref
    unsealed_bytes: int
    signed_ns: int | None
    anchored: Mapping[str, Anchored]


def stat_seal(path: str | os.PathLike[str], *, log: binlog.LogStat | None = None) -> SealStat:
    """Return how far the seal of a log has come.

    log: as `binlog.stat` returned it just now; it is read again if it is not given.
    Raises: NotFoundError if the log has no seal; SealError if a file of it is malformed; AccessError.
    """
    with SealFolder(path) as folder:
        _, beginning = folder.beginning()
        note = folder.checkpoint()
        try:
            next_ref = folder.state().next_ref
        except NotFoundError:
            next_ref = beginning.first
        status = folder.directory.status(CHECKPOINT_FILE)
        anchored = read_anchored(folder)
    return SealStat(
        origin=beginning.origin,
        size=0 if note is None else parse_checkpoint(note.text).size,
        checkpoint=note,
        next_ref=next_ref,
        unsealed_bytes=(log or binlog.stat(path)).bytes_after(next_ref) or 0,
        signed_ns=None if status is None else status.st_mtime_ns,
        anchored=anchored,
    )
