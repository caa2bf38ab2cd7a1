"""Signed notes, and the keys that verify them (C2SP signed-note, tlog-cosignature).

A note is a text, an empty line, and a line for each signature.  Two kinds of Ed25519 keys sign: a log's, over the text,
and a witness's, over a time and the text.  These functions make and read bytes; they compute no signature.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple

from binlog.errors import SealError

NOTE_BYTES_MAX = 1 << 16
SIGNATURES_MAX = 16
KEY_TEXT_MAX = 1 << 10
KEY_ID_BYTES = 4
PUBLIC_BYTES = SECRET_BYTES = 32
SIGNATURE_BYTES = 64
TIME_BYTES = 8
# The kinds of keys: the byte before the public key, in the text of a key and in the hash that gives its id.
LOG_KEY, WITNESS_KEY = 0x01, 0x04

NOTE_SEPARATOR = b"\n\n\n"
"""Between the notes of a file.  A note's last line ends with a newline, and no note has three in a row."""

_DASH = "\u2014"
_PRIVATE = "PRIVATE+KEY+"


class Signature(NamedTuple):
    """A signature of a note.  value: of a witness, 8 bytes of time and 64 of signature; of a log, 64 bytes."""

    name: str
    key_id: bytes
    value: bytes

    def line(self) -> str:
        """Return its line, without the newline."""
        return f"{_DASH} {self.name} {encode_base64(self.key_id + self.value)}"


class Note(NamedTuple):
    """A text that ends with a newline, and its signatures."""

    text: str
    signatures: tuple[Signature, ...]

    def __str__(self) -> str:
        return self.text + "\n" + "".join(each.line() + "\n" for each in self.signatures)


class VerifierKey(NamedTuple):
    """A public key with its name.  kind: LOG_KEY or WITNESS_KEY.  public: 32 bytes."""

    name: str
    kind: int
    public: bytes

    @property
    def key_id(self) -> bytes:
        """The four bytes before each of its signatures."""
        return key_id(self.name, self.kind, self.public)

    def __str__(self) -> str:
        return f"{self.name}+{self.key_id.hex()}+{encode_base64(bytes([self.kind]) + self.public)}"

    def message(self, text: str, value: bytes) -> tuple[bytes, bytes]:
        """Return the bytes that such a signature is over, and the Ed25519 signature.

        Raises: SealError if the value is not of the right size.
        """
        if len(value) != SIGNATURE_BYTES + (TIME_BYTES if self.kind == WITNESS_KEY else 0):
            raise SealError(f"a signature of {self.name} has {len(value)} bytes")
        if self.kind == LOG_KEY:
            return text.encode(), value
        return cosignature_message(text, signed_time(value)), value[TIME_BYTES:]


class SigningKeyText(NamedTuple):
    """A secret key as it is kept in a file.  secret: the 32 bytes that Ed25519 calls the seed."""

    name: str
    key_id: bytes
    kind: int
    secret: bytes

    def __repr__(self) -> str:
        return f"SigningKeyText(name={self.name!r}, secret=...)"


def key_id(name: str, kind: int, public: bytes) -> bytes:
    """Return the id of a key."""
    return sha256(name.encode() + b"\n" + bytes([kind]) + public).digest()[:KEY_ID_BYTES]


def cosignature_message(text: str, seconds: int) -> bytes:
    """Return the bytes that a witness signs.  seconds: since 1970 UTC."""
    return f"cosignature/v1\ntime {seconds}\n{text}".encode()


def signed_time(value: bytes) -> int:
    """Return the time of a witness's signature, in seconds since 1970 UTC."""
    return int.from_bytes(value[:TIME_BYTES], "big")


def check_name(name: str) -> str:
    """Return the name of a key or log, if it may be one.  Raises: SealError."""
    if not name or "+" in name or not name.isprintable() or any(letter.isspace() for letter in name):
        raise SealError(f"not a name of a log or key, which has neither spaces nor '+': {name!r}")
    return name


def parse_note(data: bytes) -> Note:
    """Return a signed note.  Raises: SealError."""
    if len(data) > NOTE_BYTES_MAX:
        raise SealError(f"a note of {len(data)} bytes; the limit is {NOTE_BYTES_MAX}")
    try:
        whole = data.decode()
    except UnicodeDecodeError as error:
        raise SealError("a note is not UTF-8") from error
    if any(letter < " " and letter != "\n" for letter in whole):
        raise SealError("a note has a control character")
    text, separator, lines = whole.rpartition("\n\n")
    if not separator or not lines.endswith("\n"):
        raise SealError("a note has no signatures after an empty line")
    return Note(text + "\n", parse_signatures(lines))


def parse_notes(data: bytes) -> Iterator[Note]:
    """Yield the notes of a file, without those that are torn or malformed."""
    for part in data.split(NOTE_SEPARATOR):
        with suppress(SealError):
            yield parse_note(part + b"\n")


def parse_last_note(data: bytes) -> Note:
    """Return a signed note, or the last one of a file of notes, without those that are torn.  Raises: SealError."""
    if NOTE_SEPARATOR not in data:
        return parse_note(data)
    last = next(reversed(list(parse_notes(data[-2 * NOTE_BYTES_MAX :]))), None)
    if last is None:
        raise SealError("none of the last notes of the file is whole")
    return last


def parse_signatures(lines: str) -> tuple[Signature, ...]:
    """Return signatures, given their lines.  Raises: SealError."""
    *found, rest = lines.split("\n", SIGNATURES_MAX)
    if rest or not found:
        raise SealError(f"a note has at least one signature, at most {SIGNATURES_MAX}, and a newline after each")
    return tuple(_parse_signature(line) for line in found)


def _parse_signature(line: str) -> Signature:
    dash, _, rest = line.partition(" ")
    name, _, value = rest.partition(" ")
    decoded = decode_base64(value)
    if dash != _DASH or len(decoded) <= KEY_ID_BYTES:
        raise SealError("a line of a note is not a signature")
    return Signature(check_name(name), decoded[:KEY_ID_BYTES], decoded[KEY_ID_BYTES:])


def parse_verifier_key(text: str) -> VerifierKey:
    """Return a public key, given its text: NAME+ID+BYTES, the id in hexadecimal.  Raises: SealError."""
    name, identity, kind, public = _parse_key(text)
    key = VerifierKey(name, kind, public)
    if key.key_id != identity:
        raise SealError(f"the id of the key {name} does not fit its bytes")
    return key


def parse_signing_key(text: str) -> SigningKeyText:
    """Return a secret key, given its text, which begins with PRIVATE+KEY+.  Raises: SealError, without the secret."""
    if not text.startswith(_PRIVATE):
        raise SealError(f"not a secret key: it does not begin with {_PRIVATE}")
    name, identity, kind, secret = _parse_key(text.removeprefix(_PRIVATE))
    return SigningKeyText(name, identity, kind, secret)


def signing_key_text(name: str, kind: int, *, secret: bytes, public: bytes) -> str:
    """Return the text of a secret key."""
    return f"{_PRIVATE}{name}+{key_id(name, kind, public).hex()}+{encode_base64(bytes([kind]) + secret)}"


def _parse_key(text: str) -> tuple[str, bytes, int, bytes]:
    """Return the name, the id, the kind and the 32 bytes of a key."""
    parts = text.strip().split("+", 2) if len(text) <= KEY_TEXT_MAX else []
    if len(parts) != len(("name", "id", "bytes")):
        raise SealError("not a key: NAME+ID+BYTES")
    name, identity, encoded = parts
    data = decode_base64(encoded)
    kind = data[0] if data else 0
    if kind not in (LOG_KEY, WITNESS_KEY) or len(data) != 1 + PUBLIC_BYTES:
        raise SealError(f"the key {name!r} is of a kind that is not supported; Ed25519 is")
    try:
        return check_name(name), bytes.fromhex(identity), kind, data[1:]
    except ValueError as error:
        raise SealError(f"the id of the key {name!r} is not hexadecimal") from error


def encode_base64(data: bytes) -> str:
    """Return bytes in base64, with padding."""
    return base64.b64encode(data).decode()


def decode_base64(text: str) -> bytes:
    """Return the bytes of a text in base64.  Raises: SealError, also if it is not the only encoding of its bytes."""
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except (ValueError, binascii.Error) as error:
        raise SealError("not base64") from error
    if encode_base64(data) != text:
        raise SealError("not base64 as it would be written")
    return data
