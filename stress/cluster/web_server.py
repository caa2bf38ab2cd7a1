"""Serve a folder over HTTP on the loopback address, with range requests."""

from __future__ import annotations

import http.server
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

_RANGE = re.compile(r"bytes=(\d+)-(\d*)", re.ASCII)


class _Handler(http.server.SimpleHTTPRequestHandler):
    """The standard library's handler, with support for ranges."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Send the requested range of a file, or let the standard library send all of it."""
        asked = _RANGE.fullmatch(self.headers.get("Range", ""))
        path = Path(self.translate_path(self.path))
        if asked is None or not path.is_file():
            super().do_GET()
            return
        size = path.stat().st_size
        first, last = int(asked[1]), min(int(asked[2] or size), size - 1)
        if first > last:
            self.send_error(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            return
        with path.open("rb") as file:
            file.seek(first)
            data = file.read(last - first + 1)
        self.send_response(HTTPStatus.PARTIAL_CONTENT)
        self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def end_headers(self) -> None:
        """Announce range support in every answer."""
        self.send_header("Accept-Ranges", "bytes")
        super().end_headers()

    def log_message(self, format: str, *_: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Ignore clients that close the connection, as killed ones do."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder for the duration of the block, and yield its URL."""

    def handler(*arguments: Any) -> _Handler:
        return _Handler(*arguments, directory=str(folder))

    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
