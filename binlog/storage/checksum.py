"""CRC-32C by the compiled function, from here on for the whole format as well."""

from __future__ import annotations

from binlog.format.crc import replace_function
from binlog.storage.native import crc32c

__all__ = ["crc32c"]

replace_function(crc32c)
