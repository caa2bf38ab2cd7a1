"""Comparison of binlog's messages with the report of the real RocketMQ."""

from __future__ import annotations

import base64
from typing import Any

from binlog.format.commitlog.message import StoredMessage, crc
from binlog.format.commitlog.message_parts import Host, message_id, parse_properties

_CRC_PROPERTY = "__CRC32#"


def as_reported(message: StoredMessage) -> dict[str, Any]:
    """The fields of a message in the report of StorePeer.java."""
    return {
        "topic": message.topic,
        "body": base64.b64encode(message.body).decode(),
        "body_crc": crc(message.body),
        "properties": parse_properties(message.properties),
        "queue_id": message.queue_id,
        "flag": message.flag,
        "queue_offset": message.queue_offset,
        "offset": message.offset,
        "system_flag": message.system_flag,
        "born_ms": message.born_ms,
        "born_host": _host(message.born_host),
        "store_ms": message.store_ms,
        "store_host": _host(message.store_host),
        "reconsume_count": message.reconsume_count,
        "prepared_offset": message.prepared_offset,
        "message_bytes": message.message_bytes,
        "id": message_id(message.store_host, message.offset),
    }


def without_crc(message: dict[str, Any]) -> dict[str, Any]:
    """Return the properties in the report without the CRC, which binlog leaves out."""
    properties = {name: value for name, value in message["properties"].items() if name != _CRC_PROPERTY}
    return {**message, "properties": properties}


def _host(host: Host) -> str:
    return f"{host.address.hex()} {host.port}"
