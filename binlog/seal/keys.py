"""Ed25519 keys: they sign and verify notes.  Needs the package `cryptography` (extra `seal`).

A secret key is kept in a file of its own, outside of the log's directory, in the form of Go's note signer.

Facts relied on:
- systemd.exec(5): only the service may read the files of $CREDENTIALS_DIRECTORY.  An access control list says so; the
  file's mode then shows the mask of that list in place of the group's permissions.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from binlog.errors import AccessError, SealError
from binlog.format.seal.note import (
    KEY_TEXT_MAX,
    LOG_KEY,
    TIME_BYTES,
    Note,
    Signature,
    VerifierKey,
    check_name,
    cosignature_message,
    parse_signing_key,
    signing_key_text,
)


class Signer(Protocol):
    """A key that signs: SigningKey, or CommandKey, of which only a command has the secret."""

    @property
    def verifier(self) -> VerifierKey:
        """Its public key."""

    def sign(self, text: str, seconds: int = 0) -> Signature:
        """Return the signature of a text."""


class SigningKey:
    """A secret key.  Its repr shows nothing secret."""

    def __init__(self, name: str, secret: bytes, kind: int = LOG_KEY) -> None:
        """Make a key of 32 secret bytes.  kind: LOG_KEY, or WITNESS_KEY, whose signatures have a time.

        Raises: SealError if the name is malformed.
        """
        self._key = Ed25519PrivateKey.from_private_bytes(secret)
        self._verifier = VerifierKey(check_name(name), kind, self._key.public_key().public_bytes_raw())

    @property
    def verifier(self) -> VerifierKey:
        """Its public key."""
        return self._verifier

    def __repr__(self) -> str:
        return f"SigningKey({self.verifier.name!r}, ...)"

    @classmethod
    def generate(cls, name: str, kind: int = LOG_KEY) -> SigningKey:
        """Make a new random key.  Raises: SealError if the name is malformed."""
        return cls(name, Ed25519PrivateKey.generate().private_bytes_raw(), kind)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SigningKey:
        """Read a key file.

        Raises: AccessError if it cannot be read, or if another user may read it, except a credential of systemd;
        SealError if it is not a key.
        """
        try:
            with open(path, "rb") as file:
                mode, data = os.fstat(file.fileno()).st_mode, file.read(KEY_TEXT_MAX + 1)
        except OSError as error:
            raise AccessError(
                f"{os.fspath(path)}: {error.strerror}", errno=error.errno, path=os.fspath(path)
            ) from error
        if mode & (stat.S_IRWXG | stat.S_IRWXO) and not _is_credential(path):
            raise AccessError(f"{os.fspath(path)}: other users may read or write the key; chmod 600")
        try:
            found = parse_signing_key(data.decode("ascii"))
        except (UnicodeDecodeError, SealError) as error:
            raise SealError(f"{os.fspath(path)}: not a secret key") from error
        key = cls(found.name, found.secret, found.kind)
        if key.verifier.key_id != found.key_id:
            raise SealError(f"{os.fspath(path)}: the id of the key does not fit its bytes")
        return key

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the key durably to a new file that only its owner may read.  Raises: AccessError, also if it exists."""
        text = signing_key_text(
            self.verifier.name, self.verifier.kind, secret=self._key.private_bytes_raw(), public=self.verifier.public
        )
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(fd, "w", encoding="ascii") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            folder = os.open(Path(path).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise AccessError(
                f"{os.fspath(path)}: {error.strerror}", errno=error.errno, path=os.fspath(path)
            ) from error

    def sign(self, text: str, seconds: int = 0) -> Signature:
        """Return the signature of a text.  seconds: since 1970 UTC, for a witness's key."""
        verifier = self.verifier
        if verifier.kind == LOG_KEY:
            return Signature(verifier.name, verifier.key_id, self._key.sign(text.encode()))
        value = seconds.to_bytes(TIME_BYTES, "big") + self._key.sign(cosignature_message(text, seconds))
        return Signature(verifier.name, verifier.key_id, value)


def _is_credential(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a credential that systemd handed to this service."""
    return os.path.dirname(os.path.abspath(path)) == os.environ.get("CREDENTIALS_DIRECTORY")


def signed_note(text: str, keys: Iterable[Signer]) -> Note:
    """Return a text with the signatures of keys."""
    return Note(text, tuple(key.sign(text) for key in keys))


def verified_keys(note: Note, keys: Collection[VerifierKey]) -> set[VerifierKey]:
    """Return those of the keys that have signed a note; signatures of other keys are ignored.

    Raises: SealError if a signature names one of the keys, which has not made it.
    """
    found = set()
    for signature in note.signatures:
        for key in keys:
            if (signature.name, signature.key_id) == (key.name, key.key_id):
                if not is_signed(note.text, signature, key):
                    raise SealError(f"a signature that names {key.name} is not of its key")
                found.add(key)
    return found


def is_signed(text: str, signature: Signature, key: VerifierKey) -> bool:
    """Return whether a key has made a signature of a text.  Raises: SealError if it is not of the right size."""
    message, value = key.message(text, signature.value)
    try:
        Ed25519PublicKey.from_public_bytes(key.public).verify(value, message)
    except InvalidSignature:
        return False
    return True
