"""What a log file's bytes prove to recovery: see recovery_table.Evidence."""

from __future__ import annotations

import os
from dataclasses import replace

from binlog.errors import BinlogError
from binlog.format.crc import crc32c
from binlog.format.log_header import HEADER_BYTES, parse_log_header
from binlog.log.chain import good_end, is_blank
from binlog.log.index import opened_index
from binlog.log.index_check import IndexCheck
from binlog.storage.content import Content
from binlog.storage.directory import Directory
from binlog.storage.files import read_at

_READ_BYTES = 1 << 20


class FileEvidence:
    """Reads a file through the page cache, a MiB at a time."""

    def __init__(self, content: Content, path: str) -> None:
        self._content = content
        self._path = path

    def crc_holds(self, start: int, end: int, crc: int) -> bool:
        """Whether the bytes are all there and have this CRC-32C."""
        found = 0
        while start < end:
            data = read_at(self._content, min(_READ_BYTES, end - start), start, self._path)
            if not data:
                return False
            found = crc32c(data, found)
            start += len(data)
        return found == crc

    def chain_end(self, start: int, end: int) -> int:
        """Where the longest run of whole records ends."""
        return good_end(self._content, start, end, self._path)

    def blank(self, start: int, end: int) -> bool:
        """Whether all bytes are zero."""
        return is_blank(self._content, start, end, self._path)

    def proven_end(self, start: int, end: int) -> int:
        """How far the index proves the bytes."""
        path = self._path
        try:
            header = parse_log_header(read_at(self._content, HEADER_BYTES, 0, path), path=path)
            directory = Directory(os.path.dirname(path) or os.curdir)
        except BinlogError:
            return start
        with directory, opened_index(directory, header.number) as index:
            if index is None:
                return start
            header = replace(header, tail=max(header.tail, end))
            return IndexCheck(index, self._content, header, path).proven_end(start, end)
