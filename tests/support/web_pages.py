"""A running `binlog web`, and requests to it that a browser would not make too."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

import binlog
from binlog.consumers import ConsumerGroup, Retry, read_dead_letters
from tests.support.sample_events import event_record
from tests.unit.cli.run_command import read_lines, started

_SECONDS = 30
# In the records, the name of the group and the path of the log; so in no answer without the token.
SECRET = "sesame"
GROUP = f"billing-{SECRET}"
# Every route, with a method; tests/unit/web/test_access.py compares these with the application's.
ROUTES = (
    ("GET", "/"),
    ("GET", "/static/page.js"),
    ("GET", "/api/logs"),
    ("GET", "/api/check?log=0"),
    ("GET", "/api/record?log=0&ref=1:256"),
    ("GET", f"/api/dead?log=0&group={GROUP}"),
    ("POST", "/api/retry"),
    ("GET", "/events?log=0"),
)


@dataclass(frozen=True)
class Answer:
    """The answer to a request."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The object in the body."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Page:
    """A running server.  log: the path of its first log."""

    log: Path
    url: str
    process: subprocess.Popen[bytes]

    @property
    def port(self) -> int:
        """The port that it listens on."""
        port = urlsplit(self.url).port
        assert port is not None
        return port

    @property
    def token(self) -> str:
        """The token in its address."""
        return urlsplit(self.url).query.removeprefix("token=")

    @property
    def cookie(self) -> str:
        """The header with the token."""
        return f"binlog-{self.port}={self.token}"

    def headers(self, **others: str | None) -> list[tuple[str, str]]:
        """Return the headers of a request from the page; `sec_fetch_site=None` leaves that one out."""
        usual: dict[str, str | None] = {
            "host": f"127.0.0.1:{self.port}",
            "cookie": self.cookie,
            "sec_fetch_site": "same-origin",
        }
        return [(name.replace("_", "-"), value) for name, value in (usual | others).items() if value is not None]

    def connect(self) -> socket.socket:
        """Return a new connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=_SECONDS)

    def send(self, data: bytes) -> bytes:
        """Send bytes, and return all that comes back until the server closes the connection."""
        with self.connect() as connection:
            connection.sendall(data)
            return b"".join(iter(lambda: _received(connection), b""))

    def ask(self, method: str, target: str, body: bytes | None = None, **headers: str | None) -> Answer:
        """Make a request and return the answer; of a stream, its beginning."""
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers(**headers))]
        if body is not None and "content_length" not in headers:
            lines.append(f"content-length: {len(body)}")
        lines += ["connection: close", "", ""]
        data = "\r\n".join(lines).encode("latin-1") + (body or b"")
        if not target.startswith("/events"):
            return answer_of(self.send(data))
        with self.connect() as connection:
            connection.sendall(data)
            received = _received(connection)
            while b"\r\n\r\n" not in received:
                received += _received(connection)
            while answer_of(received).status != 200 and (more := _received(connection)):
                received += more
            return answer_of(received)

    def get(self, path: str, **values: object) -> Answer:
        """Ask for something as the page does."""
        return self.ask("GET", f"{path}?{urlencode(values)}")

    def post(self, path: str, value: object, **headers: str | None) -> Answer:
        """Change something as the page does."""
        origin = f"http://127.0.0.1:{self.port}"
        usual: dict[str, str | None] = {"content_type": "application/json", "origin": origin}
        return self.ask("POST", path, json.dumps(value).encode(), **(usual | headers))

    def stream(self, **values: object) -> Stream:
        """Open the stream of a browser."""
        return Stream(self, urlencode({"log": 0, **values}))


class Stream:
    """The events of a browser.  Use it as a context manager."""

    def __init__(self, page: Page, query: str) -> None:
        self.connection = page.connect()
        lines = [f"GET /events?{query} HTTP/1.1", *(f"{name}: {value}" for name, value in page.headers()), "", ""]
        self.connection.sendall("\r\n".join(lines).encode())
        self._file = self.connection.makefile("rb")
        self.status = int(self._file.readline().split()[1])
        while self._file.readline().strip():
            pass  # the headers
        self._events = self._parsed()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
        self.connection.close()

    def events(self) -> Iterator[tuple[str, Any]]:
        """Yield each event with its data, until the server ends the stream; a later call continues."""
        return self._events

    def _parsed(self) -> Iterator[tuple[str, Any]]:
        name = ""
        for line in self._lines():
            if line.startswith(b"event: "):
                name = line.removeprefix(b"event: ").decode()
            elif line.startswith(b"data: "):
                yield name, json.loads(line.removeprefix(b"data: "))

    def next(self, wanted: str) -> Any:
        """Return the data of the next event with a name."""
        return next(data for name, data in self.events() if name == wanted)

    def texts(self, count: int) -> list[str]:
        """Return the texts of this many records, from the start on."""
        found: list[str] = []
        for name, data in self.events():
            if name in ("start", "rows"):
                found += [row["text"] for row in data["rows"]]
            if len(found) >= count:
                return found
        raise AssertionError(f"the stream ended after {found}")

    def _lines(self) -> Iterator[bytes]:
        """Yield the lines of the body, which is sent in chunks."""
        rest = b""
        while size := int(self._file.readline() or b"0", 16):
            rest += self._file.read(size)
            self._file.readline()
            *lines, rest = rest.split(b"\n")
            yield from lines


def answer_of(data: bytes) -> Answer:
    """Parse the answer to a request."""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Answer(int(first.split()[1]), headers, body)


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 16)
    except ConnectionResetError:
        return b""  # the server closed before it had read everything


def fill_log(path: Path) -> None:
    """Write a log with 40 events and a group that has acknowledged two of them, and has two dead letters."""
    with binlog.Writer(path) as writer:
        writer.append_many([f"{SECRET} first".encode(), *(event_record(number) for number in range(1, 40))])
    with ConsumerGroup(path, GROUP, retry=Retry(deliveries_max=1)) as group:
        for number in range(4):
            item = group.get(timeout=_SECONDS)  # which also writes the dead letter of the message before
            assert item is not None
            if number in (1, 2):
                item.reject(error="no such card")
            else:
                item.ack()
    assert len(list(read_dead_letters(path, GROUP))) == 2


@contextmanager
def running(*logs: Path, options: Sequence[object] = (), folder: Path | None = None) -> Iterator[Page]:
    """Run `binlog web` on logs, and end it; it must have reported nothing.  folder: the working directory."""
    with started("web", *options, *logs, cwd=folder) as process:
        [line] = read_lines(process.stdout, 1)
        yield Page(logs[0], line.decode().strip(), process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(_SECONDS) == -signal.SIGTERM
        assert process.stderr is not None
        assert process.stderr.read() == b""
