"""The units in examples/ are valid, and their commands keep logs, archive, prune and print."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import binlog
from tests.support.checkout import ROOT
from tests.support.events import bodies
from tests.support.waiting import until

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "examples"
_BIN = Path(sys.executable).parent
_WEB = "/var/lib/shop BIND=127.0.0.1:8000"
_ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "no_proxy": "*"}


def _unit(folder: Path, name: str, **places: object) -> dict[str, list[str]]:
    """Put a unit with these places of its files into a folder, let systemd verify it, and return its settings."""
    text = (EXAMPLES / name).read_text().replace("/opt/shop/venv/bin", str(_BIN)).replace("/opt/shop", str(EXAMPLES))
    for theirs, ours in places.items():
        assert theirs in text
        text = text.replace(theirs, str(ours))
    path = folder / name
    path.write_text(text)
    if shutil.which("systemd-analyze"):
        command = ["systemd-analyze", "verify", "--man=no", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, path.stem in done.stderr) == (0, False), done.stderr
    settings: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, is_setting, value = line.partition("=")
        if is_setting and not line.startswith("#"):
            settings.setdefault(key, []).append(value)
    return settings


@contextmanager
def _running(command: str, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(shlex.split(command), process_group=0, **options) as process:  # type: ignore[call-overload]
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def test_the_unit_of_the_writer_keeps_logs(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    unit = _unit(tmp_path, "binlog-writer.service", **{_WEB: f"{tmp_path} BIND={address}"})
    (settings,) = unit["Environment"]
    environment = {**_ENVIRONMENT, **dict(each.split("=", 1) for each in settings.split())}
    assert not {"RemoveIPC", "DynamicUser", "RuntimeDirectory", "TemporaryFileSystem"} & set(unit)
    with _running(unit["ExecStart"][0], cwd=unit["WorkingDirectory"][0], env=environment) as server:
        application = tmp_path / "application"
        until(lambda: application.exists() and any("Booting" in each for each in bodies(application)))
        request = urllib.request.Request(f"http://{address}/orders/1", headers={"X-User": "ann"})
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
            assert answer.status == 200
        server.terminate()
        assert server.wait() == 0
    assert len(bodies(tmp_path / "access")) == 1


def test_the_units_of_retention_archive_and_prune(tmp_path: Path) -> None:
    log = tmp_path / "orders"
    with binlog.Writer(log) as writer:
        for number in range(4):
            writer.append(b"%d" % number)
            writer.cutover()
    unit = _unit(tmp_path, "binlog-retention.service", **{"/var/lib/shop/orders": log})
    _unit(tmp_path, "binlog-retention.timer")
    assert [shlex.split(command)[1] for command in unit["ExecStart"]] == ["archive", "prune"]
    for command in unit["ExecStart"]:
        subprocess.run(shlex.split(command), check=True)
    assert [each.archived for each in binlog.stat(log).files] == [True, True, False, False, False]
    # The same, with files that are old enough.
    subprocess.run(shlex.split(unit["ExecStart"][1].replace("30d", "0s")), check=True)
    assert [each.number for each in binlog.stat(log).files] == [5]


def test_the_text_of_a_log_is_complete_although_it_is_rotated(tmp_path: Path) -> None:
    """Each time, the file is renamed and the service restarted, as logrotate does, while a writer appends."""
    log, text = tmp_path / "orders", tmp_path / "text"
    places = {"/var/lib/shop/orders": log, "/var/log/orders.log": text, "/var/lib/shop-text": tmp_path}
    unit = _unit(tmp_path, "binlog-text.service", **places)
    assert unit["StandardOutput"] == [f"append:{text}"]
    rotation = (EXAMPLES / "binlog-text.logrotate").read_text()
    assert "/var/log/orders.log {" in rotation
    assert "systemctl try-restart binlog-text.service" in rotation
    with binlog.Writer(log) as writer:
        for rotated in range(4):
            numbers = range(1000 * rotated, 1000 * rotated + 1000)
            writer.append_many([b"order %d" % number for number in numbers[:500]])
            with text.open("ab") as output, _running(unit["ExecStart"][0], stdout=output) as tail:
                writer.append_many([b"order %d" % number for number in numbers[500:]])
                until(lambda: text.stat().st_size > 0)
                text.rename(tmp_path / f"text.{rotated}")
                tail.terminate()
                assert tail.wait() == -signal.SIGTERM
        with text.open("ab") as output, _running(unit["ExecStart"][0], stdout=output):
            until(lambda: b"order 3999\n" in text.read_bytes())
    lines = [line for path in [*sorted(tmp_path.glob("text.*")), text] for line in path.read_text().splitlines()]
    # None is missing; after a restart, some may be repeated.
    assert list(dict.fromkeys(int(line.rpartition(" ")[2]) for line in lines)) == list(range(4000))
