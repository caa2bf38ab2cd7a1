"""Trust: a reader as a witness.  It keeps the latest checkpoint that it saw; the next one must continue it."""

from __future__ import annotations

import os

from binlog.errors import NotFoundError, SealError
from binlog.format.seal.checkpoint import Checkpoint, parse_checkpoint
from binlog.format.seal.note import NOTE_BYTES_MAX, Note, parse_note, parse_verifier_key
from binlog.format.seal.tree import consistency_proof, is_consistent
from binlog.seal.folder import SealFolder
from binlog.seal.keys import verified_keys
from binlog.storage.directory import Directory
from binlog.storage.locking.locks import locked


class Trust:
    """The knowledge of a reader about a sealed log.

    path: of the log.  vkey: the public key, from elsewhere than the log's directory.
    state_path: a file outside of the log's directory, which keeps the latest checkpoint.  It is made by the first
    `check`, which can only trust the checkpoint that it finds.
    Raises: SealError if the key is malformed.
    """

    def __init__(self, path: str | os.PathLike[str], vkey: str, state_path: str | os.PathLike[str]) -> None:
        self._path = path
        self._key = parse_verifier_key(vkey)
        self._state_path = os.path.abspath(state_path)

    def check(self) -> Checkpoint:
        """Compare the log's latest checkpoint with the one that was kept, keep it durably, and return it.

        It reads a few hashes, and no records: `verify` compares these.  Readers may share the file: one waits for the
        other, so the file never goes back to a smaller checkpoint.
        Raises: SealError if the log was cut, or has another history, since the last check; or if its checkpoint is not
        signed by the key, or does not exist.  NotFoundError if the log has no seal; AccessError, FullError,
        PoisonedError.
        """
        place, name = os.path.split(self._state_path)
        with Directory(place) as directory, locked(directory, f".{name}.lock"):
            # The checkpoint that was kept first: read later, it could be larger than the log's.
            known = self._known(directory, name)
            with SealFolder(self._path) as folder:
                note = folder.checkpoint()
                if note is None:
                    raise SealError(f"{os.fspath(self._path)} has no checkpoint")
                head = self._head(note)
                if known is not None:
                    self._compare(folder, known, head)
            if known is None or head.size > known.size:
                directory.write_new(f".{name}", str(note).encode())
                directory.rename(f".{name}", name)
        return head

    def _head(self, note: Note) -> Checkpoint:
        if not verified_keys(note, [self._key]):
            raise SealError(f"the checkpoint of {os.fspath(self._path)} is not signed by {self._key.name}")
        head = parse_checkpoint(note.text)
        if head.origin != self._key.name:
            raise SealError(f"a checkpoint of {head.origin} in place of {self._key.name}")
        return head

    def _compare(self, folder: SealFolder, known: Checkpoint, head: Checkpoint) -> None:
        path = os.fspath(self._path)
        if head.size < known.size:
            raise SealError(f"{path} was cut: {head.size} records are sealed, and there were {known.size}")
        hashes = consistency_proof(known.size, head.size, folder.hashes(head.size).node) if known.size else []
        if not is_consistent(known.size, known.root, head.size, head.root, hashes):
            raise SealError(f"{path} has another history: its first {known.size} records are not those of before")

    def _known(self, directory: Directory, name: str) -> Checkpoint | None:
        """Return the checkpoint that was kept, or None before the first check."""
        try:
            return self._head(parse_note(directory.read(name, NOTE_BYTES_MAX + 1)))
        except NotFoundError:
            return None
