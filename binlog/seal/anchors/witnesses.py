"""Witnesses as anchors: they check that the log has only grown, and sign the checkpoint (C2SP tlog-witness)."""

from __future__ import annotations

import urllib.error
import urllib.request
from abc import abstractmethod

from binlog.errors import AccessError, SealError
from binlog.format.seal.checkpoint import Submission, parse_checkpoint, parse_count
from binlog.format.seal.note import NOTE_BYTES_MAX, Note, Signature, VerifierKey, parse_signatures
from binlog.seal.anchors.plain import Anchor, ProofFrom
from binlog.seal.commands import run_command
from binlog.seal.keys import verified_keys
from binlog.seal.witness import CONFLICT, INCONSISTENT, OK, WitnessAnswer

_SECONDS_MAX = 20.0
# The witness may have signed for another sealer between two attempts.
_ATTEMPTS = 3


class WitnessAnchor(Anchor):
    """A witness.  keys: one of them must sign; without any, its signatures are passed on unverified."""

    def __init__(self, name: str, keys: tuple[VerifierKey, ...] = ()) -> None:
        super().__init__(name)
        self._keys = keys
        self._known = 0

    @abstractmethod
    def _submit(self, data: bytes) -> WitnessAnswer:
        """Send a submission, and return the answer.  Raises: AccessError."""

    def publish(self, note: Note, proof_from: ProofFrom) -> tuple[Signature, ...]:
        size = parse_checkpoint(note.text).size
        for _ in range(_ATTEMPTS):
            hashes = tuple(proof_from(self._known))
            answer = self._submit(str(Submission(self._known, hashes, note)).encode())
            if answer.status == OK:
                self._known = size
                return self._signatures(note, answer.body)
            if answer.status != CONFLICT:
                break
            known = parse_count(answer.body.removesuffix("\n"))
            if known > size:
                raise SealError(f"{self.name} has signed {known} records, and the log has {size}")
            if known == self._known:
                raise SealError(f"{self.name} has signed another root for {size} records")
            self._known = known
        if answer.status == INCONSISTENT:
            raise SealError(f"{self.name} has signed a checkpoint of {self._known} records that contradicts this one")
        raise AccessError(f"{self.name} answered {answer.status}: {answer.body.strip()[:200]}")

    def _signatures(self, note: Note, lines: str) -> tuple[Signature, ...]:
        found = parse_signatures(lines)
        if self._keys and not verified_keys(Note(note.text, found), self._keys):
            raise AccessError(f"{self.name} did not sign with the key of {' or '.join(key.name for key in self._keys)}")
        return found


class HttpWitness(WitnessAnchor):
    """A witness at a URL, which is the prefix of its `add-checkpoint`."""

    def __init__(self, url: str, keys: tuple[VerifierKey, ...] = ()) -> None:
        super().__init__(f"witness:{url}", keys)
        self._url = url.rstrip("/") + "/add-checkpoint"

    def _submit(self, data: bytes) -> WitnessAnswer:
        request = urllib.request.Request(self._url, data, {"Content-Type": "text/plain; charset=utf-8"})
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS_MAX) as response:
                return WitnessAnswer(response.status, response.read(NOTE_BYTES_MAX).decode(errors="replace"))
        except urllib.error.HTTPError as error:
            with error:
                return WitnessAnswer(error.code, error.read(NOTE_BYTES_MAX).decode(errors="replace"))
        except OSError as error:
            raise AccessError(f"{self._url}: {error}") from error


class CommandWitness(WitnessAnchor):
    """A witness that is reached by a command such as `ssh HOST`, whose forced command is `binlog witness accept DIR`.

    The command gets the submission on its standard input, and prints the status on a line, and then the answer.
    """

    def __init__(self, command: str, keys: tuple[VerifierKey, ...] = ()) -> None:
        super().__init__(f"witness-exec:{command}", keys)
        self._command = command

    def _submit(self, data: bytes) -> WitnessAnswer:
        status, _, body = run_command(self._command, data).decode(errors="replace").partition("\n")
        if not (status.isascii() and status.isdigit()):
            raise AccessError(f"{self._command!r} printed no status: {status[:80]!r}")
        return WitnessAnswer(int(status[:3]), body)
