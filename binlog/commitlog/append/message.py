"""A message that is to be appended, and what an append returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple, Self

from binlog.format.commitlog.message_parts import DELAY, KEYS, TAGS, Host, message_id, pack_host, pack_properties

_LOCAL = pack_host(Host.parse("127.0.0.1:0"))
_NONE: Mapping[str, str] = MappingProxyType({})


class Message(NamedTuple):
    """A message that is to be appended, ready for native/codec/commitlog/message.c, which knows the order of these.

    `Message.of` makes one from what a user has.  properties, born_host: as they lie in the file; the last property may
    lack the byte that ends it.
    born_ms: milliseconds since 1970 UTC.  prepared_offset: of a commit or rollback, where its half message lies.
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
        """A message with a tag, keys without spaces, and a delay level from 1 to 18.

        Raises: ValueError where a name has a byte 1 or 2, a value or key a byte 2, or a key a space.
        """
        named = dict(properties)
        if keys := tuple(keys):
            if any(" " in key or not key for key in keys):
                raise ValueError(f"a key that is empty, or has a space in it: {keys!r}")
            named[KEYS] = " ".join(keys)
        if tag:
            named[TAGS] = tag
        if delay_level:
            named[DELAY] = str(delay_level)
        packed = pack_properties(named) if named else b""
        host = _LOCAL if born_host is None else pack_host(born_host)
        return cls(topic, body, packed, queue_id, flag, 0, born_ms, host)


class Appended(NamedTuple):
    """Where the messages of one call lie.

    offset: of the first one, in the commit log.  message_bytes: what all take.  store_ms: when they were stored.
    offsets: of each, in the commit log.  queue_offsets: of each, in its queue; 0 for a half message.
    store_host: who stores them.
    """

    offset: int
    message_bytes: int
    store_ms: int
    offsets: list[int]
    queue_offsets: list[int]
    store_host: Host

    @property
    def ids(self) -> list[str]:
        """The id of each: see binlog/format/commitlog/message_parts.py."""
        return [message_id(self.store_host, offset) for offset in self.offsets]

    @property
    def next_offset(self) -> int:
        """Where the last one ends."""
        return self.offset + self.message_bytes
