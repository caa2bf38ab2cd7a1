"""Messages as text: bodies, one per line, or JSON objects."""

from __future__ import annotations

from collections.abc import Iterable

from binlog.cli.records import content_json, lines, quoted
from binlog.commitlog import StoredMessage, parse_properties


def messages_bytes(messages: Iterable[StoredMessage], *, as_json: bool) -> bytes:
    """Return messages as the commands print them."""
    if as_json:
        return b"".join(map(_json_line, messages))
    bodies = [message.body for message in messages]
    return lines(bodies) if bodies else b""


def _json_line(message: StoredMessage) -> bytes:
    fields = {
        "id": message.id,
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "offset": message.offset,
        "message_bytes": message.message_bytes,
        "flag": message.flag,
        "system_flag": message.system_flag,
        "born_ms": message.born_ms,
        "born_host": str(message.born_host),
        "store_ms": message.store_ms,
        "store_host": str(message.store_host),
        "reconsume_count": message.reconsume_count,
        "prepared_offset": message.prepared_offset,
        "record_crc": message.record_crc,
        "properties": parse_properties(message.properties),
    }
    text = f"{quoted(fields)[:-1]},{content_json(message.body)}}}\n"
    # Property bytes that are not UTF-8 are lone surrogates here; this writes them with JSON escapes.
    return text.encode("utf-8", "backslashreplace")
