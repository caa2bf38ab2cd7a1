"""Shipping to an object store: S3, as a server on this machine speaks it (moto)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binlog import AccessError, Mode, Writer
from binlog.moving import ship
from binlog.moving.remote_directory import RemoteDirectory
from binlog.moving.shipping import shipping
from binlog.moving.shipping.target import read_pieces
from tests.support.checkout import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """The URL of a prefix of its own, because all servers of a process share their buckets."""
    from moto.server import ThreadedMotoServer
    from pyarrow import fs

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    endpoint = f"127.0.0.1:{port}"
    files = fs.S3FileSystem(
        access_key="key", secret_key="secret", endpoint_override=endpoint, scheme="http", allow_bucket_creation=True
    )
    files.create_dir("bucket")
    yield f"s3://key:secret@bucket/{tmp_path.name}/log?scheme=http&endpoint_override={endpoint}"
    server.stop()


def _fill(log: Path) -> None:
    with Writer(log) as writer:
        for _ in range(3):
            for number in range(40):
                writer.append_many([b"%d" % number * 30_000] * 5, mode=Mode.FLUSH)
            writer.cutover()
        writer.append(b"open")


def _objects(url: str) -> dict[str, bytes]:
    directory = RemoteDirectory(url)
    found: dict[str, Any] = {}
    for name in directory.sizes():
        file = directory.open(name)
        found[name] = b"".join(data for _, data in file.pieces(0, file.file_bytes))
    return found


def test_files_arrive_once_and_are_equal(log: Path, url: str) -> None:
    _fill(log)
    assert [each.number for each in ship(log, url).files] == [1, 2, 3]
    assert ship(log, url).files == ()
    found = _objects(url)
    assert len(found) == 9
    for name, data in found.items():
        if not name.endswith(".shipped"):
            assert data == (log / name).read_bytes()
    assert len(ship(log, url, prune_shipped=True).pruned) == 3


def test_a_ship_killed_in_the_middle_of_an_upload_leaves_nothing_that_counts(log: Path, url: str) -> None:
    _fill(log)
    program = """
import os, signal, sys
from binlog.moving import ship
from binlog.moving.shipping import shipping
count, end = 0, int(sys.argv[3])
read_pieces = shipping.read_pieces
def pieces(fd, path):
    global count
    for piece in read_pieces(fd, path):
        count += 1
        if count == end:
            os.kill(os.getpid(), signal.SIGKILL)
        yield piece
shipping.read_pieces = pieces
ship(sys.argv[1], sys.argv[2])
"""
    killed = 0
    for end in range(1, 40):
        command = [sys.executable, "-c", program, str(log), url, str(end)]
        done = subprocess.run(command, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)})
        killed += done.returncode == -signal.SIGKILL
        for name, data in _objects(url).items():
            assert name.endswith(".shipped") or data == (log / name).read_bytes()
        if done.returncode == 0:
            break
    assert killed > 3
    assert len(_objects(url)) == 9


def test_an_upload_that_fails_leaves_no_object(log: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyArrow completes an object also if an exception ends its writing."""
    _fill(log)
    begun = []

    def failing(fd: int, path: str) -> Iterator[bytes]:
        for at, piece in enumerate(read_pieces(fd, path)):
            if at == 1:
                begun.append(path)
                raise AccessError(f"{path}: Input/output error")
            yield piece

    monkeypatch.setattr(shipping, "read_pieces", failing)
    with pytest.raises(AccessError, match="Input/output error"):
        ship(log, url)
    assert begun == [str(log / "00000001.dat")]
    monkeypatch.undo()
    assert set(_objects(url)) == {"00000001.idx"}
    assert len(ship(log, url).files) == 3


def test_a_bucket_that_does_not_exist_is_an_error_without_credentials(log: Path, url: str) -> None:
    _fill(log)
    with pytest.raises(AccessError) as raised:
        ship(log, url.replace("bucket", "missing"))
    assert "secret" not in str(raised.value)
