"""Outbox: the events that one browser has yet to get, of bounded size, and their format.

The format is that of the HTML standard, "server-sent events".  JSON in ASCII has no line end, so each event has one
line of data.

Invariants: threads put, one coroutine takes, and `_lock` is held for both, never for longer than a few appends.  The
rows take at most ROWS_MAX and BYTES_MAX: the oldest ones are dropped, and counted.  Of the states of a log, only the
latest is kept.  `_filled` is set in the loop's thread only, after something was put.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import deque
from collections.abc import Sequence

import binlog
from binlog.web.shown import JsonObject, Row

ROWS_MAX = 200
BYTES_MAX = 256 << 10


class Outbox:
    """The buffer of one browser.

    loop: in which `take` runs.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._filled = asyncio.Event()
        self._states: dict[int, bytes] = {}
        self._rows: deque[Row] = deque()
        self._row_bytes = 0
        self._skipped = 0
        self._note: str | None = None
        self._is_ended = False

    @property
    def is_ended(self) -> bool:
        """Whether the server ends, and the stream with it."""
        return self._is_ended

    def put_state(self, index: int, data: bytes) -> None:
        """Put the state of a log, in place of an earlier one."""
        with self._lock:
            self._states[index] = data
        self._wake()

    def put_rows(self, rows: list[Row], skipped: int) -> None:
        """Put records.  skipped: how many before them are not among them."""
        with self._lock:
            self._rows.extend(rows)
            self._row_bytes += sum(len(row.data) for row in rows)
            self._skipped += skipped
            while len(self._rows) > ROWS_MAX or self._row_bytes > BYTES_MAX:
                self._row_bytes -= len(self._rows.popleft().data)
                self._skipped += 1
        self._wake()

    def put_note(self, text: str) -> None:
        """Put a sentence about the records that follow."""
        with self._lock:
            self._note = text
        self._wake()

    def end(self) -> None:
        """End the stream."""
        self._is_ended = True
        self._wake()

    async def take(self, seconds: float, since: binlog.Ref | None) -> list[tuple[str, bytes]]:
        """Wait for something, and return everything as names and data of events; nothing after this time.

        since: leave out records before this one, which the browser has.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._filled.wait()
        except TimeoutError:
            return []
        self._filled.clear()
        return self._taken(since)

    def _taken(self, since: binlog.Ref | None) -> list[tuple[str, bytes]]:
        with self._lock:
            states, self._states = self._states, {}
            rows, self._rows, self._row_bytes = self._rows, deque(), 0
            skipped, self._skipped = self._skipped, 0
            note, self._note = self._note, None
        events = [("state", data) for data in states.values()]
        if note is not None:
            events.append(("note", encode_json({"text": note})))
        fresh = [row for row in rows if since is None or row.ref >= since]
        if fresh or skipped:
            events.append(("rows", rows_json(fresh, skipped=skipped)))
        return events

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._filled.set)
        except RuntimeError:
            self._is_ended = True  # the loop is closed


# In ASCII: a lone surrogate in a name cannot be encoded otherwise.
_encode = json.JSONEncoder(separators=(",", ":")).encode

# Keeps the connection open, and makes the server notice that a browser is gone.
HEARTBEAT = b":\n\n"


def encode_json(value: JsonObject) -> bytes:
    """Encode an object in ASCII on one line."""
    return _encode(value).encode("ascii")


def rows_json(rows: Sequence[Row], *, skipped: int, is_cut: bool = False) -> bytes:
    """Encode records, with the number of those that were skipped before them."""
    head = b'{"skipped":%d,"is_cut":%s,"rows":[' % (skipped, b"true" if is_cut else b"false")
    return head + b",".join([row.data for row in rows]) + b"]}"


def event_bytes(name: str, data: bytes) -> bytes:
    """Format an event.  data: on one line."""
    return b"event: %s\ndata: %s\n\n" % (name.encode("ascii"), data)
