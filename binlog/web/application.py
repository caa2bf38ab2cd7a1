"""The routes: the page, its files, the streams, records, dead letters, and changes of groups.

A request chooses a file of the page by its name in a table, a log by its
number, and a group by its name in a listing.  No text of a request becomes a path.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.resources import files

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from binlog.errors import AccessError, BinlogError, BusyError, FullError, GoneError, NotFoundError
from binlog.web.access import BODY_BYTES_MAX
from binlog.web.actions import CHANGES, dead_letters, ref_of
from binlog.web.outbox import encode_json
from binlog.web.shown import JsonObject, ShownLog
from binlog.web.streams import Stream, Streams, TooManyStreamsError

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (AccessError, 403),
    (NotFoundError, 404),
    (GoneError, 410),
    (BusyError, 409),
    (FullError, 507),
    (BinlogError, 409),
    (OSError, 409),
    (ValueError, 400),
    (TooManyStreamsError, 503),
)
_Handler = Callable[[Request], Awaitable[Response | Stream]]


class _RefusedError(Exception):
    """A request that is answered with a status and a sentence."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def page_files() -> dict[str, tuple[bytes, str]]:
    """Return the files of the page by their names, with their types."""
    found = {}
    for file in files("binlog.web").joinpath("static").iterdir():
        kind = _TYPES.get(file.name[file.name.rfind(".") :])
        if kind is not None:
            found[file.name] = (file.read_bytes(), kind)
    return found


def make_application(logs: Sequence[ShownLog], streams: Streams, *, read_only: bool) -> Starlette:
    """Return the application without the checks of access.

    logs: which the page shows, in the order of the watchers.  read_only: refuse all changes.
    """
    site = _Site(logs, streams, read_only=read_only)
    return Starlette(
        routes=[
            Route("/", _answering(site.page)),
            Route("/static/{name}", _answering(site.file)),
            Route("/api/logs", _answering(site.list_logs)),
            Route("/api/check", _answering(site.check)),
            Route("/api/record", _answering(site.record)),
            Route("/api/dead", _answering(site.dead)),
            Route("/api/{change}", _answering(site.change), methods=["POST"]),
            Route("/events", _answering(site.events)),
        ]
    )


class _Site:
    """The handlers.  Each returns an answer, or raises an error of `_STATUSES`."""

    def __init__(self, logs: Sequence[ShownLog], streams: Streams, *, read_only: bool) -> None:
        self._logs = logs
        self._streams = streams
        self._read_only = read_only
        self._files = page_files()

    async def page(self, request: Request) -> Response:
        return self._file("index.html")

    async def file(self, request: Request) -> Response:
        return self._file(request.path_params["name"])

    async def list_logs(self, request: Request) -> Response:
        return _json({"logs": [log.name for log in self._logs], "read_only": self._read_only})

    async def check(self, request: Request) -> Response:
        """Answer whether the parameters are those of a query."""
        self._log(request.query_params.get("log")).query(_values(request))
        return _json({})

    async def record(self, request: Request) -> Response:
        log = self._log(request.query_params.get("log"))
        ref = ref_of(request.query_params.get("ref", ""))
        return _json(await run_in_threadpool(log.record, ref))

    async def dead(self, request: Request) -> Response:
        log = self._log(request.query_params.get("log"))
        group = request.query_params.get("group", "")
        return _json(await run_in_threadpool(dead_letters, log.directory, group))

    async def events(self, request: Request) -> Response | Stream:
        index = self._index(request.query_params.get("log"))
        query = self._logs[index].query(_values(request))
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        return self._streams.open(index, query)

    async def change(self, request: Request) -> Response:
        change = CHANGES.get(request.path_params["change"])
        if change is None:
            raise _RefusedError(404, "there is no such page")
        if self._read_only:
            raise _RefusedError(403, "the server was started with --read-only")
        asked = await _body(request)
        log = asked.get("log")
        directory = self._log(str(log) if type(log) is int else None).directory
        return _json(await run_in_threadpool(change, directory, asked))

    def _file(self, name: str) -> Response:
        if name not in self._files:
            raise _RefusedError(404, "there is no such page")
        data, kind = self._files[name]
        return Response(data, media_type=kind)

    def _log(self, text: str | None) -> ShownLog:
        return self._logs[self._index(text)]

    def _index(self, text: str | None) -> int:
        for index in range(len(self._logs)):
            if text == str(index):
                return index
        raise _RefusedError(404, "there is no such log")


def _answering(handler: _Handler) -> _Handler:
    """Turn errors into answers."""

    @functools.wraps(handler)
    async def answer(request: Request) -> Response | Stream:
        try:
            return await handler(request)
        except _RefusedError as refusal:
            return _json({"error": str(refusal)}, refusal.status)
        except ClientDisconnect:
            return Response(status_code=400)
        except tuple(kind for kind, _ in _STATUSES) as error:
            status = next(status for kind, status in _STATUSES if isinstance(error, kind))
            return _json({"error": str(error)}, status)

    return answer


async def _body(request: Request) -> JsonObject:
    """Return the JSON object in the body of a request."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise _RefusedError(415, "the content type is application/json")
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise _RefusedError(413, "the body is too large")
    try:
        asked = json.loads(body)
    except RecursionError:
        asked = None
    if not isinstance(asked, dict):
        raise _RefusedError(400, "the body is a JSON object")
    return asked


def _values(request: Request) -> Mapping[str, Sequence[str]]:
    return {name: request.query_params.getlist(name) for name in request.query_params}


def _json(value: JsonObject, status: int = 200) -> Response:
    return Response(encode_json(value), status, media_type="application/json")
