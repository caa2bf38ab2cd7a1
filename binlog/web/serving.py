"""Listen on an address, and serve the page until a signal ends the process."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import NamedTuple

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from binlog.errors import AccessError, BusyError
from binlog.web.access import Access, AccessRules, names_of
from binlog.web.application import make_application
from binlog.web.shown import ShownLog
from binlog.web.streams import Streams
from binlog.web.watcher import Watcher

STREAMS_MAX = 16
_CONNECTIONS_MAX = 128
# How long a request may take to end once the server ends.
_ENDING_SECONDS = 3
_BACKLOG = 128
# How long the first request of a connection may take to arrive.
_REQUEST_SECONDS = 5


class Address(NamedTuple):
    """Where to listen.  port: 0 for a free one."""

    host: str
    port: int


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the server.

    token: None if none is needed.  names: of hosts that requests may name, besides the address and `localhost`.
    """

    token: str | None
    names: tuple[str, ...] = ()
    read_only: bool = False
    streams_max: int = STREAMS_MAX


def serve(logs: Sequence[ShownLog], address: Address, settings: Settings, *, started: Callable[[str], object]) -> None:
    """Serve the page until SIGINT or SIGTERM, which is raised again once all requests have ended.

    Closes the logs.  started: gets the URL of the page, without the token, when the server listens.
    Raises: BusyError if the port is in use; AccessError if it may not be listened on; ValueError for a host that is
    not on this machine.
    """
    listening = _listen(address)
    watchers = [Watcher(index, log) for index, log in enumerate(logs)]
    try:
        port = listening.getsockname()[1]
        rules = AccessRules(settings.token, names_of(address.host, settings.names), f"binlog-{port}")
        streams = Streams(watchers, settings.streams_max)
        application = Access(make_application(logs, streams, read_only=settings.read_only), rules)
        for watcher in watchers:
            watcher.start()
        host = f"[{address.host}]" if ":" in address.host else address.host
        asyncio.run(_run(application, streams, listening, lambda: started(f"http://{host}:{port}/")))
    finally:
        for watcher in watchers:
            watcher.end()
        listening.close()


class _Connection(H11Protocol):  # type: ignore[misc]
    """A connection that is closed if no request arrives on it.

    Otherwise programs without the token could hold all connections.  Refusals close their connections too.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.loop.call_later(_REQUEST_SECONDS, self._close_if_silent)

    def _close_if_silent(self) -> None:
        if self.cycle is None:
            self.transport.close()


async def _run(application: Access, streams: Streams, listening: socket.socket, started: Callable[[], object]) -> None:
    config = uvicorn.Config(
        application,
        http=_Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=_CONNECTIONS_MAX,
        timeout_graceful_shutdown=_ENDING_SECONDS,
    )
    server = uvicorn.Server(config)
    loop = asyncio.get_running_loop()
    handle_exit = server.handle_exit

    def end(number: int, frame: FrameType | None) -> None:
        # The server waits for all streams, and a stream ends only here.
        loop.call_soon_threadsafe(streams.end)
        handle_exit(number, frame)

    server.handle_exit = end
    started()
    await server.serve(sockets=[listening])


def _listen(address: Address) -> socket.socket:
    try:
        [family, kind, protocol, _, place] = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ValueError(f"cannot listen on {address.host}: {error.strerror or error}") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(_BACKLOG)
    except PermissionError as error:
        listening.close()
        text = f"cannot listen on port {address.port}: {error.strerror}"
        raise AccessError(text, errno=error.errno, path=f"{address.host}:{address.port}") from error
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise BusyError(f"port {address.port} of {address.host} is in use; choose another --port") from error
        raise ValueError(f"cannot listen on {address.host}: {error.strerror}") from error
    return listening
