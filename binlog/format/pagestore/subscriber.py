"""A durable subscriber, as it lies in a file of its own: an object of JSON, with a check."""

from __future__ import annotations

import hashlib
import json
from typing import NamedTuple

from binlog.errors import CorruptError, VersionError
from binlog.format.crc import crc32c

SUBSCRIBER_END = ".durable"
_VERSION = 1
_DOT = ord(".")
_NAME_DIGITS = 40
# Nothing that is escaped has this, or a tilde.
_BETWEEN = "$"
_NAME_CHARACTERS_MAX = 200
_BEGINNING_CHARACTERS = 120
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")


class DurableSubscriber(NamedTuple):
    """Who wants the messages of a topic, also of the time while nobody is there.

    client_id, name: by which it is known.  selector: of the messages that it wants, None for all.
    no_local: it does not want those of its own connection.
    """

    client_id: str
    name: str
    topic: str
    selector: str | None = None
    no_local: bool = False

    @property
    def file_name(self) -> str:
        """Of its file."""
        return subscriber_file_name(self.client_id, self.name)

    def pack(self) -> bytes:
        """As it lies in its file."""
        values = {"version": _VERSION, **self._asdict()}
        return json.dumps({**values, "crc": _crc(values)}, indent=1).encode() + b"\n"


def subscriber_file_name(client_id: str, name: str) -> str:
    """Both, escaped, so that no two pairs give one name; the beginning of that and a hash, if it is too long."""
    text = f"{_escaped(client_id)}{_BETWEEN}{_escaped(name)}"
    if len(text) > _NAME_CHARACTERS_MAX:
        key = json.dumps([client_id, name]).encode()
        text = f"{text[:_BEGINNING_CHARACTERS]}~{hashlib.sha256(key).hexdigest()[:_NAME_DIGITS]}"
    return text + SUBSCRIBER_END


def _escaped(text: str) -> str:
    """Letters and digits of ASCII, and some others, as they are; the rest, and a first dot, as %XX of their UTF-8."""
    data = text.encode("utf-8", "surrogatepass")
    return "".join(
        chr(byte) if byte in _PLAIN and (place or byte != _DOT) else f"%{byte:02X}" for place, byte in enumerate(data)
    )


def parse_subscriber(data: bytes, file_name: str, path: str) -> DurableSubscriber:
    """The subscriber that a file has.  Raises: CorruptError; VersionError."""
    try:
        values = json.loads(data)
        version = values.pop("version")
        if version != _VERSION:
            raise VersionError(f"{path}: version {version}; {_VERSION} is known", found=version, known=(_VERSION,))
        crc = values.pop("crc")
        found = DurableSubscriber(**values)
        is_right = crc == _crc({"version": version, **values}) and found.file_name == file_name
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorruptError(path, 0, "subscriber", f"it holds no subscriber: {error}") from None
    if not is_right:
        raise CorruptError(path, 0, "subscriber", "it is not what was written, or another one's file")
    return found


def _crc(values: dict[str, object]) -> int:
    return crc32c(json.dumps(values, sort_keys=True).encode())
