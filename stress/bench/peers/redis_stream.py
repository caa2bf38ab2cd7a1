"""A Redis stream on a server that syncs its append-only file in every iteration of its loop."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from stress.bench.contestant import RECORD_BYTES
from stress.bench.loops import append_loop
from stress.bench.measuring import Prepared
from stress.bench.peers.packages import missing_package
from stress.bench.processes import Loop, die_with_parent
from stress.bench.sample import MeasureError

_COMMAND = "redis-server"
_SETTINGS = {
    "port": "0",
    "daemonize": "no",
    "appendonly": "yes",
    "appendfsync": "always",
    "save": "",
    "auto-aof-rewrite-percentage": "0",  # it would fork during a measurement
}
_END_SECONDS_MAX = 30


def missing() -> str | None:
    """Return the reason why it cannot be measured, or None."""
    if not shutil.which(_COMMAND):
        return f"{_COMMAND} is not installed (Debian package: redis-server)"
    return missing_package("redis", "redis")()


def version() -> str | None:
    """Return the version of the server."""
    if missing():
        return None
    said = subprocess.run([_COMMAND, "--version"], capture_output=True, text=True, check=False).stdout
    versions = [word.removeprefix("v=") for word in said.split() if word.startswith("v=")]
    return f"Redis {versions[0]}" if versions else "Redis"


@contextmanager
def prepare(directory: Path, processes: int) -> Iterator[Prepared]:
    """Add one record with each XADD; each process has a connection of its own."""
    with server(directory) as address:

        @contextmanager
        def opener(index: int) -> Iterator[Loop]:
            with closing(client_of(address)) as client:
                client.ping()
                yield append_loop(lambda record: client.xadd("log", {"record": record}), os.urandom(RECORD_BYTES))

        yield Prepared(opener, lambda: _stored(address))


def client_of(address: str) -> Any:
    """Return a client with one connection to a server."""
    import redis

    return redis.Redis(unix_socket_path=address, single_connection_client=True)


def _stored(address: str) -> int:
    with closing(client_of(address)) as client:
        count: int = client.xlen("log")
        return count


@contextmanager
def server(directory: Path) -> Iterator[str]:
    """Run a server with its files in a directory; yields the address of its socket."""
    # A socket's name is limited to some hundred bytes, which the directory may exceed.
    with tempfile.TemporaryDirectory(prefix="bench-") as place:
        address = str(Path(place) / "socket")
        settings = {**_SETTINGS, "dir": str(directory), "unixsocket": address}
        arguments = [word for name, value in settings.items() for word in (f"--{name}", value)]
        with subprocess.Popen(
            [_COMMAND, *arguments],
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            preexec_fn=functools.partial(die_with_parent, os.getpid()),  # noqa: PLW1509 - the measuring process has one thread
        ) as process:
            try:
                _wait_ready(process)
                yield address
            finally:
                process.terminate()
                try:
                    process.wait(_END_SECONDS_MAX)
                except subprocess.TimeoutExpired:
                    process.kill()


def _wait_ready(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    said = b""
    for line in process.stdout:
        if b"ready to accept connections" in line.lower():
            return
        said = line
    raise MeasureError(f"{_COMMAND} ended: {said.decode(errors='replace').strip()}")
