"""Messages as JSON, and their beginnings as text."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

from binlog.cli.output import printable

# Not limited to ASCII: people search this output for words.
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_SHOWN_BYTES = 60

# The members of a message; the commands add others in front.
MESSAGE_TEXT = (
    'key, headers, and the body as "text", or as "base64" if it is not UTF-8; a key or header that is not UTF-8 is an '
    'object with "base64"'
)


def message_object(body: bytes, key: bytes | None, headers: Mapping[str, bytes]) -> dict[str, object]:
    """Return a message as --json prints it."""
    return {
        "key": None if key is None else _value(key),
        "headers": {name: _value(value) for name, value in headers.items()},
        **_content(body),
    }


def _value(data: bytes) -> object:
    content = _content(data)
    return content.get("text", content)


def _content(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def json_line(value: Mapping[str, object]) -> bytes:
    """Format an object as a line."""
    return _encode(value).encode("utf-8", "backslashreplace") + b"\n"


def short_text(data: bytes) -> str:
    """Format the beginning of a message, for a table."""
    cut = data[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")
    return printable(cut) + ("..." if len(data) > _SHOWN_BYTES else "")
