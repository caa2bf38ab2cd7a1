"""Java's hash of a string (String.hashCode), by which RocketMQ finds keys and compares tags."""

from __future__ import annotations

import array
import sys


def java_hash(text: str) -> int:
    """The sum of UTF-16 units, each times 31 to the power of how many follow it: an int of 32 bits with a sign."""
    units = array.array("H", text.encode("utf-16-le", "surrogatepass"))
    if sys.byteorder == "big":
        units.byteswap()
    value = 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
