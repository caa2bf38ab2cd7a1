"""A message to append, and the result of an append."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple, Self

from binlog.format.commitlog.message_parts import DELAY, KEYS, TAGS, Host, message_id, pack_host, pack_properties

_LOCAL = pack_host(Host.parse("127.0.0.1:0"))
_NONE: Mapping[str, str] = MappingProxyType({})


class Message(NamedTuple):
    """A message to append, as native/codec/commitlog/message.c expects it: the order of the fields matters.

    `Message.of` makes one from a user's values.  properties, born_host: in the format of the file; the last property
    may lack its end byte.
    born_ms: milliseconds since 1970 UTC.  prepared_offset: of a commit or rollback, the offset of its half message.
    """

    topic: str
    body: bytes
    properties: bytes = b""
    queue_id: int = 0
    flag: int = 0
    system_flag: int = 0
    born_ms: int = 0
    born_host: bytes = _LOCAL
    reconsume_count: int = 0
    prepared_offset: int = 0

    @classmethod
    def of(
        cls,
        topic: str,
        body: bytes,
        *,
        queue_id: int = 0,
        tag: str = "",
        keys: Iterable[str] = (),
        delay_level: int = 0,
        properties: Mapping[str, str] = _NONE,
        flag: int = 0,
        born_ms: int = 0,
        born_host: Host | None = None,
    ) -> Self:
        """Return a message with a tag, keys without spaces, and a delay level from 1 to 18.

        Raises: ValueError if a name has a byte 1 or 2, a value or key has a byte 2, or a key is empty or has a space.
        """
        named = dict(properties)
        if keys := tuple(keys):
            if any(" " in key or not key for key in keys):
                raise ValueError(f"a key must not be empty or contain a space: {keys!r}")
            named[KEYS] = " ".join(keys)
        if tag:
            named[TAGS] = tag
        if delay_level:
            named[DELAY] = str(delay_level)
        packed = pack_properties(named) if named else b""
        host = _LOCAL if born_host is None else pack_host(born_host)
        return cls(topic, body, packed, queue_id, flag, 0, born_ms, host)


class Appended(NamedTuple):
    """The place of the messages of one append.

    offset: of the first message in the commit log.  message_bytes: size of all messages.  store_ms: their store time.
    offsets: of each message in the commit log.  queue_offsets: of each in its queue; 0 for a half message.
    store_host: the host in their ids.
    """

    offset: int
    message_bytes: int
    store_ms: int
    offsets: list[int]
    queue_offsets: list[int]
    store_host: Host

    @property
    def ids(self) -> list[str]:
        """Return the id of each message: see binlog/format/commitlog/message_parts.py."""
        return [message_id(self.store_host, offset) for offset in self.offsets]

    @property
    def next_offset(self) -> int:
        """Return the end of the last message."""
        return self.offset + self.message_bytes
