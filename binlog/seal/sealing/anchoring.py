"""Anchoring: hands the checkpoints of a sealer to its anchors, and keeps how far each one is.

Each anchor has a thread of its own while it works, so all get a checkpoint at the same time; the next one goes out when
the slowest has answered.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

from binlog.errors import BinlogError, NotFoundError, SealError
from binlog.format.seal.checkpoint import Checkpoint, parse_checkpoint
from binlog.format.seal.note import Note, Signature
from binlog.format.seal.state import ANCHORED_FILE, COSIGNED_FILE, STATE_BYTES_MAX
from binlog.format.seal.tree import consistency_proof, root_hash
from binlog.seal.anchors.plain import Anchor
from binlog.seal.folder import SealFolder


class Anchored(NamedTuple):
    """How far an anchor is.  size: records of the last checkpoint that it got.  seconds: when, since 1970 UTC."""

    size: int
    seconds: float


class Anchoring:
    """The anchors of a sealer.  folder: of the seal."""

    def __init__(self, anchors: Sequence[Anchor], folder: SealFolder) -> None:
        self._anchors = anchors
        self._folder = folder
        self._anchored = read_anchored(folder)

    def check(self, size: int, known: Callable[[Note], bool]) -> None:
        """Compare the latest checkpoint of each anchor that can tell with the sealed log.

        known: whether a note is signed by the log's key.
        Raises: SealError if an anchor has more records than are sealed, or other ones: an older copy was put back.
        """
        origin = self._folder.beginning()[1].origin
        for anchor in self._anchors:
            note = anchor.latest(origin)
            if note is None:
                continue
            head = parse_checkpoint(note.text)
            if head.origin != origin or not known(note):
                raise SealError(f"{anchor.name} has a checkpoint that is not of this log")
            if head.size > size:
                raise SealError(f"{anchor.name} has a checkpoint of {head.size} records, and {size} are sealed here")
            if root_hash(head.size, self._folder.hashes(size).node) != head.root:
                raise SealError(f"{anchor.name} has another root for {head.size} records")

    def alarm(self, note: Note) -> None:
        """Tell all anchors that can keep it that the log differs from its seal, and wait for them."""
        for anchor in self._anchors:
            with suppress(BinlogError):  # the error of the log is raised in any case
                anchor.alarm(note)

    def publish(self, note: Note) -> dict[str, BinlogError | None]:
        """Hand a checkpoint to all anchors, at the same time; return the error of each, or None.

        If witnesses have signed it, the folder's cosigned checkpoint is replaced by this one with their signatures.
        Blocks: until the slowest has answered, some 20 s at most.
        Raises: SealError if an anchor knows a checkpoint that contradicts this one; FullError; AccessError;
        PoisonedError.
        """
        if not self._anchors:
            return {}
        head = parse_checkpoint(note.text)
        with ThreadPoolExecutor(len(self._anchors)) as pool:
            outcomes = list(pool.map(lambda anchor: self._publish(anchor, note, head), self._anchors))
        errors: dict[str, BinlogError | None] = {}
        signatures: list[Signature] = []
        for anchor, outcome in zip(self._anchors, outcomes, strict=True):
            errors[anchor.name] = outcome if isinstance(outcome, BinlogError) else None
            if not isinstance(outcome, BinlogError):
                signatures += outcome
                self._anchored[anchor.name] = Anchored(head.size, time.time())
        self._folder.replace(ANCHORED_FILE, json.dumps(self._anchored).encode())
        if signatures:
            self._folder.replace(COSIGNED_FILE, str(Note(note.text, (*note.signatures, *signatures))).encode())
        broken = next((error for error in errors.values() if isinstance(error, SealError)), None)
        if broken is not None:
            raise broken
        return errors

    def _publish(self, anchor: Anchor, note: Note, head: Checkpoint) -> tuple[Signature, ...] | BinlogError:
        store = self._folder.hashes(head.size)
        try:
            return anchor.publish(note, lambda old: consistency_proof(old, head.size, store.node) if old else [])
        except BinlogError as error:
            return error


def read_anchored(folder: SealFolder) -> dict[str, Anchored]:
    """Return how far each anchor is, by name.  Raises: SealError if the file is malformed; AccessError."""
    try:
        values = json.loads(folder.directory.read(ANCHORED_FILE, STATE_BYTES_MAX))
        return {str(name): Anchored(int(size), float(seconds)) for name, (size, seconds) in values.items()}
    except NotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise SealError(f"{folder.directory.file_path(ANCHORED_FILE)} is malformed: {error}") from error
