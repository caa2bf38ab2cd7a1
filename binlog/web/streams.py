"""Streams: the server-sent events of each browser, a bounded number of them.

A stream begins with the event `start`: the last records that match the browser's query.  The events `state`, `rows` and
`note` follow as the logs change.  A stream ends when the browser disconnects, or when the server ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from binlog.errors import BinlogError
from binlog.web.access import Receive, Scope, Send
from binlog.web.outbox import HEARTBEAT, Outbox, encode_json, event_bytes, rows_json
from binlog.web.shown import Query
from binlog.web.watcher import GATHER_SECONDS, Watcher

_HEARTBEAT_SECONDS = 15.0
_LAST_ROWS = 200


class TooManyStreamsError(Exception):
    """As many streams are open as may be."""


class Streams:
    """The open streams.

    watchers: of all logs.  count_max: how many streams may be open at once.
    """

    def __init__(self, watchers: Sequence[Watcher], count_max: int) -> None:
        self.watchers = watchers
        self._count_max = count_max
        self._open: set[Outbox] = set()

    def open(self, index: int, query: Query) -> Stream:
        """Return a stream of the states of all logs, and of the records of one that match.

        Raises: TooManyStreamsError.
        """
        if len(self._open) >= self._count_max:
            raise TooManyStreamsError("too many pages are open")
        outbox = Outbox(asyncio.get_running_loop())
        self._open.add(outbox)
        return Stream(self, outbox, self.watchers[index], query)

    def close(self, outbox: Outbox) -> None:
        """Forget a stream."""
        for watcher in self.watchers:
            watcher.remove(outbox)
        self._open.discard(outbox)

    def end(self) -> None:
        """End all streams."""
        for outbox in self._open:
            outbox.end()


class Stream:
    """An answer that lasts until the browser disconnects, as an ASGI application that is called once."""

    def __init__(self, streams: Streams, outbox: Outbox, watcher: Watcher, query: Query) -> None:
        self._streams = streams
        self._outbox = outbox
        self._watcher = watcher
        self._query = query

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        try:
            await StreamingResponse(self._events(), media_type="text/event-stream")(scope, receive, send)
        finally:
            self._streams.close(self._outbox)

    async def _events(self) -> AsyncIterator[bytes]:
        for each in self._streams.watchers:
            each.add(self._outbox)
        tail = None
        try:
            await run_in_threadpool(self._watcher.listen, self._outbox, self._query)
            found = await run_in_threadpool(self._query.last, _LAST_ROWS)
            tail = found.tail
            yield event_bytes("start", rows_json(found.rows, skipped=0, is_cut=found.is_cut))
        except BinlogError as error:
            yield event_bytes("start", rows_json((), skipped=0))
            yield event_bytes("note", encode_json({"text": str(error)}))
        while not self._outbox.is_ended:
            events = await self._outbox.take(_HEARTBEAT_SECONDS, tail)
            yield b"".join([event_bytes(*each) for each in events]) or HEARTBEAT
            # Records that are put meanwhile are sent together, or dropped: no page shows a thousand of them a second.
            await asyncio.sleep(GATHER_SECONDS)
