"""A message's properties: each a name, a byte 1, a value and a byte 2; the last byte 2 may be missing.

The first byte 1 ends the name, as in RocketMQ: a value may have more of them.

Names that RocketMQ gives a meaning stand here as constants.
"""

from __future__ import annotations

from collections.abc import Mapping

KEYS = "KEYS"
TAGS = "TAGS"
DELAY = "DELAY"
REAL_TOPIC = "REAL_TOPIC"
REAL_QUEUE_ID = "REAL_QID"
TRANSACTION_PREPARED = "TRAN_MSG"
CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
UNIQUE_KEY = "UNIQ_KEY"
RETRY_TOPIC = "RETRY_TOPIC"
ORIGIN_ID = "ORIGIN_MESSAGE_ID"
# Ours: of a message that waited in another topic, where in the commit log it did.
WAITED_AT = "WAITED_AT"
# Ours: of a message that tells that half messages were ended, which one is the first that was not.
LOWEST_HALF = "LOWEST_HALF"

# Of an i64, which is as far as anything is counted.
_DIGITS_MAX = 19

_NAME_END = "\x01"
_VALUE_END = "\x02"


def pack_properties(properties: Mapping[str, str]) -> bytes:
    """As they lie in a message.  Raises: ValueError where a name has a byte 1 or 2, or a value a byte 2."""
    for name, value in properties.items():
        if _NAME_END in name or _VALUE_END in name or _VALUE_END in value:
            raise ValueError(f"a property with a byte in it that ends its name or value: {name!r}: {value!r}")
    text = "".join(f"{name}{_NAME_END}{value}{_VALUE_END}" for name, value in properties.items())
    return text.encode("utf-8", "surrogateescape")


def parse_properties(data: bytes) -> dict[str, str]:
    """By name, the last one of a name counting; what has no byte 1 in it is left out, as RocketMQ does.

    Bytes that are no UTF-8 become lone surrogates, and bytes again when packed (PEP 383).
    """
    text = data.decode("utf-8", "surrogateescape")
    pairs = (item.partition(_NAME_END) for item in text.split(_VALUE_END))
    return {name: value for name, end, value in pairs if end}


def parse_count(text: str) -> int | None:
    """A number as a property says it, in decimal digits; None for anything else, and for one that is too long."""
    return int(text) if len(text) <= _DIGITS_MAX and text.isascii() and text.isdigit() else None
