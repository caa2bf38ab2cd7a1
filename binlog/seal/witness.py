"""A witness: signs checkpoints of other logs, but none that contradicts one that it signed before (C2SP tlog-witness).

Its directory has the witness's key in `key`, the logs that it knows in `logs` (lines `log KEY` of a policy), and for
each log the latest checkpoint that it signed.  One process at a time decides for a log, under a lock; the decision is
durable before the answer.
"""

from __future__ import annotations

import os
import time
from hashlib import sha256
from typing import NamedTuple

from binlog.errors import NotFoundError, SealError
from binlog.format.seal.checkpoint import Checkpoint, Submission, parse_checkpoint, parse_submission
from binlog.format.seal.note import NOTE_BYTES_MAX, WITNESS_KEY, Note, VerifierKey, parse_note, parse_verifier_key
from binlog.format.seal.policy import POLICY_BYTES_MAX, parse_policy
from binlog.format.seal.tree import is_consistent
from binlog.seal.keys import SigningKey, verified_keys
from binlog.storage.directory import Directory
from binlog.storage.handle import Closing
from binlog.storage.locking.locks import locked

_KEY_FILE, _LOGS_FILE, _LOCK_FILE = "key", "logs", "lock"
OK, MALFORMED, REFUSED, UNKNOWN, CONFLICT, INCONSISTENT = 200, 400, 403, 404, 409, 422


class WitnessAnswer(NamedTuple):
    """The answer to a submission.  status: as in HTTP.  body: signature lines; with 409 the size that is known."""

    status: int
    body: str


class Witness(Closing):
    """The witness in a directory.  Any number of processes may use it.

    Raises: NotFoundError if there is none; SealError if a file of it is malformed; AccessError.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._directory = Directory(os.path.abspath(path))
        try:
            self._key = SigningKey.load(self._directory.file_path(_KEY_FILE))
            if self._key.verifier.kind != WITNESS_KEY:
                raise SealError(f"{self._directory.file_path(_KEY_FILE)}: the key of a log, not of a witness")
        except BaseException:
            self._directory.close()
            raise

    def close(self) -> None:
        self._directory.close()

    @property
    def verifier(self) -> VerifierKey:
        """The witness's public key."""
        return self._key.verifier

    def logs(self) -> list[VerifierKey]:
        """Return the public keys of the logs that it signs for.  Raises: SealError; AccessError."""
        try:
            data = self._directory.read(_LOGS_FILE, POLICY_BYTES_MAX + 1)
        except NotFoundError:
            return []
        return parse_policy(data + b"quorum none\n").logs

    def trust(self, vkey: str) -> None:
        """Sign for a log from now on, durably.  Raises: SealError if the key is malformed, or known; AccessError."""
        key = parse_verifier_key(vkey)
        with locked(self._directory, _LOCK_FILE):
            lines = "".join(f"log {each}\n" for each in [*self.logs(), key])
            parse_policy(f"{lines}quorum none\n".encode())
            self._replace(_LOGS_FILE, lines)

    def latest(self, origin: str) -> Note | None:
        """Return the latest checkpoint of a log that it signed.  Raises: SealError; AccessError."""
        try:
            return parse_note(self._directory.read(_state_name(origin), NOTE_BYTES_MAX + 1))
        except NotFoundError:
            return None

    def answer(self, submission: bytes) -> WitnessAnswer:
        """Decide on a submission, and return the answer.

        A signature is returned only after the checkpoint is durable here.
        Raises: AccessError, FullError, PoisonedError: nothing was signed.
        """
        try:
            sent = parse_submission(submission)
        except SealError as error:
            return WitnessAnswer(MALFORMED, f"{error}\n")
        head = parse_checkpoint(sent.checkpoint.text)
        keys = [key for key in self.logs() if key.name == head.origin]
        if not keys:
            return WitnessAnswer(UNKNOWN, "the origin is not known\n")
        try:
            is_signed = bool(verified_keys(sent.checkpoint, keys))
        except SealError:
            is_signed = False
        if not is_signed:
            return WitnessAnswer(REFUSED, "no signature of the log's key\n")
        if sent.old > head.size:
            return WitnessAnswer(MALFORMED, "the old size is larger than the new one\n")
        with locked(self._directory, _LOCK_FILE):
            return self._decide(sent, head)

    def _decide(self, sent: Submission, head: Checkpoint) -> WitnessAnswer:
        note = self.latest(head.origin)
        known = None if note is None else parse_checkpoint(note.text)
        size = 0 if known is None else known.size
        if sent.old != size:
            return WitnessAnswer(CONFLICT, f"{size}\n")
        if known is None or size == 0:
            fits = not sent.hashes
        else:
            fits = is_consistent(size, known.root, head.size, head.root, sent.hashes)
            if not fits and size == head.size:
                return WitnessAnswer(CONFLICT, f"{size}\n")
        if not fits:
            return WitnessAnswer(INCONSISTENT, "the proof does not show that the log has only grown\n")
        self._replace(_state_name(head.origin), str(sent.checkpoint))
        return WitnessAnswer(OK, self._key.sign(sent.checkpoint.text, int(time.time())).line() + "\n")

    def _replace(self, name: str, text: str) -> None:
        self._directory.write_new(f".{name}", text.encode())
        self._directory.rename(f".{name}", name)


def make_witness(path: str | os.PathLike[str], name: str) -> VerifierKey:
    """Make a witness with a new key in a directory, and return its public key.

    The directory is made if it does not exist.  Raises: SealError if the name is malformed; AccessError, also if the
    directory has a key.
    """
    key = SigningKey.generate(name, WITNESS_KEY)
    with Directory(os.path.abspath(path), make=True) as directory:
        key.save(directory.file_path(_KEY_FILE))
    return key.verifier


def _state_name(origin: str) -> str:
    return f"{sha256(origin.encode()).hexdigest()[:32]}.checkpoint"
