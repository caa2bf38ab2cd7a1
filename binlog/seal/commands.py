"""Commands that the seal runs: anchors, witnesses, and keys that are kept elsewhere."""

from __future__ import annotations

import subprocess

from binlog.errors import AccessError, SealError
from binlog.format.seal.note import LOG_KEY, SIGNATURE_BYTES, Signature, VerifierKey, decode_base64
from binlog.seal.keys import is_signed

_SECONDS_MAX = 20.0


class CommandKey:
    """A secret key that only a command can use: in a hardware module, a TPM, or on another machine.

    verifier: its public key.  command: of a shell; it gets the text on standard input, and prints the 64 bytes of the
    Ed25519 signature, or these in base64.
    Each signature runs the command once.
    """

    def __init__(self, verifier: VerifierKey, command: str) -> None:
        self._verifier = verifier
        self._command = command

    @property
    def verifier(self) -> VerifierKey:
        """Its public key."""
        return self._verifier

    def sign(self, text: str, seconds: int = 0) -> Signature:
        """Return the signature of a text.  seconds: must be 0; only the signatures of a witness have a time.

        Blocks for 20 s at most.
        Raises: AccessError if the command fails; SealError if it prints no signature of the key.
        """
        if self.verifier.kind != LOG_KEY or seconds:
            raise SealError(f"a command cannot sign for the witness {self.verifier.name}")
        printed = run_command(self._command, text.encode())
        value = (
            printed if len(printed) == SIGNATURE_BYTES else decode_base64(printed.decode("ascii", "replace").strip())
        )
        signature = Signature(self.verifier.name, self.verifier.key_id, value)
        if not is_signed(text, signature, self.verifier):
            raise SealError(f"{self._command!r} has not signed with the key {self.verifier}")
        return signature


def run_command(command: str, data: bytes) -> bytes:
    """Run a command of a shell with standard input, and return its output.

    Raises: AccessError if it exits with another code than 0, or takes longer than 20 s.
    """
    try:
        done = subprocess.run(command, shell=True, input=data, capture_output=True, timeout=_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired as error:
        raise AccessError(f"{command!r} took longer than {_SECONDS_MAX:g} s") from error
    if done.returncode != 0:
        text = done.stderr.decode(errors="replace").strip().splitlines()
        raise AccessError(f"{command!r} exited with {done.returncode}{': ' + text[-1] if text else ''}")
    return done.stdout
