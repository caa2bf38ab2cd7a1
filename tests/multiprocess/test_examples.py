"""Each file in examples/ runs, with real processes, and does what it says."""

from __future__ import annotations

import configparser
import os
import queue
import re
import runpy
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import binlog
from binlog.consumers import GroupStat, read_dead_letters, stat_group
from binlog.seal import SigningKey, begin_seal, stat_seal, verify
from tests.support.checkout import ROOT
from tests.support.events import bodies, events
from tests.support.waiting import until

EXAMPLES = ROOT / "examples"
GROUP = "billing"
_ENVIRONMENT = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "PYTHONPATH": str(ROOT),
    "no_proxy": "*",
}


class Service(ThreadingHTTPServer):
    """A service that acts once for each idempotency key.  The body of a request says how it behaves.

    effects: how often it acted, by key.  requests: the keys in order.  answering: set for it to answer slow ones.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.effects: Counter[str] = Counter()
        self.requests: queue.Queue[str] = queue.Queue()
        self.answering = threading.Event()
        self.busy = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/charge"

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing about a client that is dead."""


class _Handler(BaseHTTPRequestHandler):
    server: Service

    def do_POST(self) -> None:
        key, body = self.headers["Idempotency-Key"], self.rfile.read(int(self.headers["Content-Length"]))
        if body == b"bad":
            self._answer(422)
            return
        if body == b"busy" and self.server.busy:
            self.server.busy = False
            self._answer(503, **{"Retry-After": "0"})
            return
        if not self.server.effects[key]:
            self.server.effects[key] += 1
        self.server.requests.put(key)
        if body == b"slow":
            self.server.answering.wait(60)
        self._answer(204)

    def _answer(self, code: int, **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.answering.set()
        server.shutdown()
        thread.join()


def _append(log: Path, *bodies: bytes) -> None:
    with binlog.Writer(log) as writer:
        writer.append_many(bodies)


@contextmanager
def _running(*command: object) -> Iterator[subprocess.Popen[str]]:
    words = [str(word) for word in command]
    with subprocess.Popen(words, env=_ENVIRONMENT, stderr=subprocess.PIPE, text=True, process_group=0) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _stopped(process: subprocess.Popen[str]) -> str:
    """Stop a process with SIGTERM, and return what it wrote to standard error."""
    process.terminate()
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    return errors


def _http_worker(log: Path, service: Service) -> tuple[object, ...]:
    return sys.executable, EXAMPLES / "http_worker.py", log, GROUP, service.url


def _stat(log: Path) -> GroupStat | None:
    try:
        return stat_group(log, GROUP)
    except binlog.NotFoundError:
        return None


def _is_done(log: Path) -> bool:
    stat = _stat(log)
    return stat is not None and stat.lag == 0


def _pids(log: Path) -> set[int]:
    """Return the ids of the living members' processes."""
    stat = _stat(log)
    return {int(each.hint.split()[1]) for each in (stat.members if stat else ()) if each.is_alive}


def test_a_service_acts_once_although_its_worker_is_killed(tmp_path: Path, service: Service) -> None:
    log = tmp_path / "log"
    _append(log, b"slow", b"quick")
    with _running(*_http_worker(log, service)) as victim:
        slow = service.requests.get(timeout=60)
        victim.kill()
        with _running(*_http_worker(log, service)) as other:
            assert service.requests.get(timeout=60) == slow
            service.answering.set()
            quick = service.requests.get(timeout=60)
            until(lambda: _is_done(log))
            assert _stopped(other) == ""
    assert service.effects == {slow: 1, quick: 1}
    assert service.requests.empty()


def test_a_busy_service_gets_the_message_again_and_a_bad_message_becomes_a_dead_letter(
    tmp_path: Path, service: Service
) -> None:
    log = tmp_path / "log"
    _append(log, b"bad", b"busy")
    with _running(*_http_worker(log, service)) as worker:
        until(lambda: _is_done(log))
        assert _stopped(worker) == ""
    (letter,) = read_dead_letters(log, GROUP)
    assert (letter.body, letter.reason, letter.deliveries) == (b"bad", "HTTP 422 Unprocessable Entity", 1)
    assert list(service.effects.values()) == [1]


def test_a_service_that_does_not_answer_is_a_failure_of_the_message(tmp_path: Path, service: Service) -> None:
    log = tmp_path / "log"
    _append(log, b"quick")
    url = service.url.replace(str(service.server_address[1]), "1")  # no service has this port
    with _running(sys.executable, EXAMPLES / "http_worker.py", log, GROUP, url) as worker:
        until(lambda: (stat := _stat(log)) is not None and stat.counters.failed == 1)
        assert _stopped(worker) == ""


def test_the_supervisor_replaces_a_killed_worker_and_stops_all(tmp_path: Path, service: Service) -> None:
    log = tmp_path / "log"
    _append(log, b"quick")
    with _running(sys.executable, EXAMPLES / "supervisor.py", 2, "--", *_http_worker(log, service)) as supervisor:
        until(lambda: len(_pids(log)) == 2)
        killed, other = _pids(log)
        os.kill(killed, signal.SIGKILL)
        until(lambda: len(_pids(log) - {killed}) == 2)
        assert other in _pids(log)
        errors = _stopped(supervisor)
    assert _pids(log) == set()
    assert errors.splitlines()[0] == f"supervisor: worker {killed} ended with -9"
    assert [line.rpartition(" ")[2] for line in errors.splitlines()[1:]] == ["0", "0"]


def test_the_supervisor_pauses_longer_each_time_a_worker_ends_early() -> None:
    place = runpy.run_path(str(EXAMPLES / "supervisor.py"))["Place"]()
    place.start(["true"])
    pauses = []
    for _ in range(7):
        place.ended(0)
        pauses.append(place.pause)
    assert pauses == [2, 4, 8, 16, 30, 30, 30]
    os.wait()


def test_the_systemd_unit_is_valid_and_its_command_works(tmp_path: Path, service: Service) -> None:
    log = tmp_path / "log"
    _append(log, b"quick")
    text = (EXAMPLES / "binlog-worker@.service").read_text()
    for theirs, ours in (
        ("/opt/shop/venv/bin/python", sys.executable),
        ("/opt/shop/http_worker.py", str(EXAMPLES / "http_worker.py")),
        ("/var/lib/shop/orders", str(log)),
        ("http://localhost:8080/charge", service.url),
    ):
        assert theirs in text
        text = text.replace(theirs, ours)
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    assert unit["Service"]["Restart"] == "always"
    assert unit["Unit"]["RequiresMountsFor"] == str(log)
    with _running(*shlex.split(unit["Service"]["ExecStart"])) as worker:
        until(lambda: _is_done(log))
        assert _stopped(worker) == ""
    if shutil.which("systemd-analyze"):
        path = tmp_path / "binlog-worker@.service"
        path.write_text(text)
        command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "binlog-worker@1.service")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, "binlog-worker" in done.stderr) == (0, False), done.stderr


def test_the_systemd_unit_of_the_sealer_is_valid_and_its_command_works(tmp_path: Path) -> None:
    log, credentials = tmp_path / "log", tmp_path / "credentials"
    credentials.mkdir()
    _append(log, b"alice opened the safe")
    key = SigningKey.generate("example.org/audit")
    key.save(credentials / "key")
    (credentials / "key").chmod(0o440)  # systemd's access control list shows there
    begin_seal(log, key)
    text = (EXAMPLES / "binlog-sealer.service").read_text()
    for theirs, ours in (
        ("/opt/shop/venv/bin/binlog", str(Path(sys.executable).with_name("binlog"))),
        ("/var/lib/shop/audit", str(log)),
    ):
        assert theirs in text
        text = text.replace(theirs, ours)
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    service = unit["Service"]
    assert (service["Restart"], service["ProtectSystem"]) == ("always", "strict")
    assert service["ReadWritePaths"] == str(log / "seal")
    assert service["LoadCredential"].startswith("key:")
    words = shlex.split(service["ExecStart"].replace("%d", str(credentials)))
    with subprocess.Popen(words, env={**_ENVIRONMENT, "CREDENTIALS_DIRECTORY": str(credentials)}) as sealer:
        try:
            until(lambda: sealer.poll() is not None or stat_seal(log).size == 1)
        finally:
            sealer.terminate()
    assert sealer.returncode == 0
    assert verify(log, str(key.verifier)).findings == []
    if shutil.which("systemd-analyze"):
        path = tmp_path / "binlog-sealer.service"
        path.write_text(text)
        command = ["systemd-analyze", "verify", "--man=no", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, "binlog-sealer" in done.stderr) == (0, False), done.stderr


def test_the_round_trip_of_a_dead_letter(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = ["sh", EXAMPLES / "dead_letters.sh", log]
    done = subprocess.run(command, env=_ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, _, second = done.stdout.partition("a worker that takes both:\n")
    assert {"17.20", "5.40"} <= set(first.splitlines())
    assert "EUR 3.00" not in first.splitlines()
    assert "exit code 1" in first
    assert "delivering 1 message again" in second
    assert "EUR 3.00" in second.splitlines()
    assert re.search(r"lag 0 messages", second)


def _request(port: int, path: str, method: str) -> int:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method, headers={"X-User": "ann"})
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_the_web_application_logs_each_request_once_although_its_workers_are_replaced(tmp_path: Path) -> None:
    """Four prefork workers; the server reloads, and one worker is killed, while requests are answered."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    logs = tmp_path / "logs"
    command = [sys.executable, "-m", "gunicorn", "-c", EXAMPLES / "web_gunicorn.py", "web_application:application"]
    environment = {**_ENVIRONMENT, "LOGS": str(logs), "BIND": f"127.0.0.1:{port}"}
    answered: Counter[int] = Counter()
    with subprocess.Popen(command, cwd=EXAMPLES, env=environment, stderr=subprocess.PIPE, text=True) as server:

        def booted() -> list[int]:
            found = [re.fullmatch(r"Booting worker with pid: (\d+)", body) for body in bodies(logs / "application")]
            return [int(match[1]) for match in found if match]

        until(lambda: (logs / "application").exists() and len(booted()) >= 4)

        def ask(first: int) -> None:
            for number in range(first, first + 50):
                answered[_request(port, f"/orders/{number}", "DELETE" if number % 5 == 0 else "GET")] += 1
            answered[_request(port, "/orders/none", "GET")] += 1

        with ThreadPoolExecutor(4) as threads:
            asking = [threads.submit(ask, first) for first in range(0, 400, 50)]
            until(lambda: len(bodies(logs / "access")) > 50)
            server.send_signal(signal.SIGHUP)
            for each in asking:
                each.result()
        # Idle workers: a request that a killed worker had accepted would fail.
        os.kill(booted()[-1], signal.SIGKILL)
        answered[_request(port, "/orders/400", "DELETE")] += 1
        errors = _stopped(server)
    assert errors == ""
    assert answered == {200: 401, 404: 8}
    access, application, audits = (events(logs / name) for name in ("access", "application", "audit"))
    assert len(access) == 409
    assert Counter(event.get("event") for event in application)["order.sold"] == 320
    assert sorted(event["attributes"]["target"] for event in audits) == [*range(0, 401, 5)]
    assert {event["attributes"]["actor"] for event in audits} == {"ann"}
    assert len({event["resource"]["process.pid"] for event in access}) > 1
    assert len([event for event in application if event.get("attributes", {}).get("path") == "/orders/none"]) == 8


def test_the_list_of_examples_names_each_of_them() -> None:
    text = (EXAMPLES / "README.md").read_text()
    listed = set(re.findall(r"^\| \[([^\]]+)\]", text, re.MULTILINE))
    assert {name for name in listed if "/" not in name} == {
        path.name for path in EXAMPLES.iterdir() if path.is_file()
    } - {"README.md"}
    assert all((EXAMPLES / link).exists() for link in re.findall(r"\]\(([^)#]+)\)", text))
